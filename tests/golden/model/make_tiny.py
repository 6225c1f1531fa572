#!/usr/bin/env python3
"""Makes tiny/: random checkpoints of a few kilobytes, and tiny.json: what the reference library computes with them.

Three safetensors checkpoints (float32 untied; bfloat16 tied; float16 with biases), and GGUF files (F16, BF16, Q8_0,
Q4_1) that hold the first one's weights, all computed in float32 from the stored (dequantised) values. Rope scalings are
variants of the first checkpoint: only keys of config.json differ. Every case has prompts, and for each prompt the
logits after its last token.

Usage: make_tiny.py OUTPUT_DIR
Made with torch 2.15.0, transformers 5.24.0, gguf 0.19.0, safetensors 0.8.0, numpy 2.4.6.
"""

import json
import os
import random
import sys

import gguf
import numpy as np
import torch
import transformers
from safetensors.torch import save_file

SHAPE = dict(vocab_size=96, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4,
             num_key_value_heads=2, max_position_embeddings=64, rms_norm_eps=1e-5, attn_implementation="eager")
DEFAULT_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
CHECKPOINTS = {
    "f32": (torch.float32, dict(tie_word_embeddings=False)),
    "bf16-tied": (torch.bfloat16, dict(tie_word_embeddings=True)),
    "f16-biased": (torch.float16, dict(tie_word_embeddings=False, attention_bias=True, mlp_bias=True)),
}
# "dynamic" is given prompts of max_position_embeddings * factor tokens, where the reference's growing frequencies are
# those that a fixed table for the longest sequence has.
ROPES = {
    "linear": {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.0},
    "dynamic": {"rope_type": "dynamic", "rope_theta": 10000.0, "factor": 2.0},
    "llama3": {"rope_type": "llama3", "rope_theta": 500.0, "factor": 8.0, "low_freq_factor": 1.0,
               "high_freq_factor": 4.0, "original_max_position_embeddings": 32},
    "yarn": {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 16},
}
LENGTHS = [1, 7, 40]


def build(options, rope, seed=7):
    config = transformers.LlamaConfig(**SHAPE, **options, rope_parameters=dict(rope))
    torch.manual_seed(seed)
    model = transformers.LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            # Large enough that layers, heads and positions all show in the logits.
            parameter.copy_(torch.randn_like(parameter) * (0.1 if "norm" in name else 0.25) + ("norm" in name))
    return model


@torch.no_grad()
def case(model, name, source, lengths, **extra):
    generator = random.Random(name)
    out = {"name": name, "source": source, **extra, "prompts": []}
    for length in lengths:
        ids = [generator.randrange(SHAPE["vocab_size"]) for _ in range(length)]
        logits = model(torch.tensor([ids])).logits[0, -1]
        out["prompts"].append({"ids": ids, "logits": [float(f"{x:.7g}") for x in logits.tolist()]})
    return out


def config_json(model, dtype, tied):
    config = {key: SHAPE[key] for key in SHAPE if key != "attn_implementation"}
    rope = dict(model.config.rope_parameters)
    return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **config, "rope_parameters": rope,
            "tie_word_embeddings": tied, "attention_bias": model.config.attention_bias,
            "mlp_bias": model.config.mlp_bias, "dtype": str(dtype).removeprefix("torch.")}


def write_checkpoint(root, name):
    dtype, options = CHECKPOINTS[name]
    model = build(options, DEFAULT_ROPE)
    tensors = {key: value.to(dtype).contiguous() for key, value in model.state_dict().items()
               if not (options["tie_word_embeddings"] and key == "lm_head.weight")}
    os.makedirs(f"{root}/{name}", exist_ok=True)
    save_file(tensors, f"{root}/{name}/model.safetensors", metadata={"format": "pt"})
    with open(f"{root}/{name}/config.json", "w") as file:
        json.dump(config_json(model, dtype, options["tie_word_embeddings"]), file, indent=2)
        file.write("\n")
    with torch.no_grad():
        for key, value in model.state_dict().items():
            value.copy_(value.to(dtype).float())
    return case(model, name, name, LENGTHS)


def rope_variant(name):
    model = build(CHECKPOINTS["f32"][1], ROPES[name])
    lengths = [128] if name == "dynamic" else LENGTHS
    return case(model, "rope-" + name, "f32", lengths, rope_parameters=ROPES[name])


GGUF_NAMES = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
              "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
              "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}


def gguf_name(name):
    fixed = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
             "lm_head.weight": "output.weight"}
    if name in fixed:
        return fixed[name]
    parts = name.split(".")
    return f"blk.{parts[2]}.{GGUF_NAMES['.'.join(parts[3:-1])]}.weight"


def permute(weight, heads):
    rows, columns = weight.shape
    return weight.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def unpermute(weight, heads):
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def write_gguf(root, kind):
    """The float32 checkpoint's weights in one GGUF type; the golden is computed from what the file then holds."""
    quantisation = getattr(gguf.GGMLQuantizationType, kind)
    model = build(CHECKPOINTS["f32"][1], DEFAULT_ROPE)
    writer = gguf.GGUFWriter(f"{root}/tiny-{kind}.gguf", "llama")
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(SHAPE["hidden_size"])
    writer.add_block_count(SHAPE["num_hidden_layers"])
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_head_count(SHAPE["num_attention_heads"])
    writer.add_head_count_kv(SHAPE["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(SHAPE["rms_norm_eps"])
    writer.add_rope_freq_base(DEFAULT_ROPE["rope_theta"])
    writer.add_rope_dimension_count(SHAPE["hidden_size"] // SHAPE["num_attention_heads"])
    writer.add_vocab_size(SHAPE["vocab_size"])
    state = model.state_dict()
    for name, value in state.items():
        data = value.numpy().astype(np.float32)
        heads = {"q_proj": SHAPE["num_attention_heads"], "k_proj": SHAPE["num_key_value_heads"]}
        head_count = next((n for part, n in heads.items() if part in name), None)
        stored = permute(data, head_count) if head_count else data
        if data.ndim == 1 or kind == "F32":
            writer.add_tensor(gguf_name(name), stored)
            continue
        packed = gguf.quants.quantize(stored, quantisation)
        writer.add_tensor(gguf_name(name), packed, raw_dtype=quantisation)
        exact = gguf.quants.dequantize(packed, quantisation).astype(np.float32).reshape(stored.shape)
        value.copy_(torch.from_numpy(unpermute(exact, head_count) if head_count else exact))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return case(model, "gguf-" + kind, f"tiny-{kind}.gguf", LENGTHS)


def main():
    root = sys.argv[1]
    os.makedirs(root, exist_ok=True)
    cases = [write_checkpoint(root, name) for name in CHECKPOINTS]
    cases += [rope_variant(name) for name in ROPES]
    with torch.no_grad():
        cases += [write_gguf(root, kind) for kind in ["F16", "BF16", "Q8_0", "Q4_1"]]
    with open(f"{root}/tiny.json", "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]\n")


main()
