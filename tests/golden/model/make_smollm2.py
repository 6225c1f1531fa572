#!/usr/bin/env python3
"""Makes smollm2_greedy.json: what a float32 forward of the reference library generates from the GGUF's own weights.

The file's tensors are dequantised with the `gguf` package, the rows of Q and K are put back into Hugging Face's order,
and a transformers LlamaForCausalLM in float32 continues 20 prompts by 64 greedy tokens each, past any end-of-sequence
token. For every step the log-probability of the best token and its distance to the second best are recorded, so that a
test can tell a near tie from a fault.

Usage: make_smollm2.py SmolLM2-135M-Instruct.Q4_1.gguf smollm2_greedy.json
Made with torch 2.15.0, transformers 5.24.0, gguf 0.19.0, numpy 2.4.6.
"""

import hashlib
import json
import os
import random
import sys

import gguf
import torch
import transformers

STEPS = 64
RANDOM_LENGTHS = [1, 2, 5, 15, 16, 17, 33, 40, 64, 100, 129, 300, 520]
TEXTS = [
    "The capital of France is",
    "<|im_start|>user\nExplain why the sky is blue in two sentences.<|im_end|>\n<|im_start|>assistant\n",
    "def fibonacci(n):\n    ",
    "Once upon a time, in a village by the sea, there lived",
    "1, 1, 2, 3, 5, 8, 13,",
    "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nName three kinds of cheese."
    "<|im_end|>\n<|im_start|>assistant\n",
    "Water boils at a lower temperature at high altitude because",
]
HF_NAMES = {
    "attn_norm": "input_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
}


def hf_name(name):
    if name == "token_embd.weight":
        return "model.embed_tokens.weight"
    if name == "output_norm.weight":
        return "model.norm.weight"
    if name == "output.weight":
        return "lm_head.weight"
    _, layer, part, _ = name.split(".")
    return f"model.layers.{layer}.{HF_NAMES[part]}.weight"


def unpermute(weight, heads):
    """GGUF's llama files keep the two elements that rotate together side by side; HF keeps them half a head apart."""
    rows, columns = weight.shape
    return weight.reshape(heads, rows // heads // 2, 2, columns).swapaxes(1, 2).reshape(rows, columns)


def load_model(path):
    reader = gguf.GGUFReader(path)
    field = lambda key: reader.fields[key].contents()
    heads, kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    state = {}
    for tensor in reader.tensors:
        data = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype("float32")
        if ".attn_q." in tensor.name:
            data = unpermute(data, heads)
        if ".attn_k." in tensor.name:
            data = unpermute(data, kv_heads)
        state[hf_name(tensor.name)] = torch.from_numpy(data.copy())
    tied = "lm_head.weight" not in state
    config = transformers.LlamaConfig(
        vocab_size=state["model.embed_tokens.weight"].shape[0], hidden_size=field("llama.embedding_length"),
        intermediate_size=field("llama.feed_forward_length"), num_hidden_layers=field("llama.block_count"),
        num_attention_heads=heads, num_key_value_heads=kv_heads,
        rms_norm_eps=field("llama.attention.layer_norm_rms_epsilon"),
        max_position_embeddings=field("llama.context_length"),
        rope_parameters={"rope_type": "default", "rope_theta": field("llama.rope.freq_base")},
        tie_word_embeddings=tied, attn_implementation="eager")
    model = transformers.LlamaForCausalLM(config).to(torch.float32).eval()
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert not unexpected and (not missing or (tied and missing == ["lm_head.weight"])), (missing, unexpected)
    model.tie_weights()
    return model


def prompts(path, vocab_size):
    tokenizer = transformers.AutoTokenizer.from_pretrained(os.path.dirname(path), gguf_file=os.path.basename(path))
    generator = random.Random(20261130)
    out = [{"kind": "text", "ids": tokenizer(text)["input_ids"]} for text in TEXTS]
    out += [{"kind": "random", "ids": [generator.randrange(vocab_size) for _ in range(n)]} for n in RANDOM_LENGTHS]
    return out


@torch.no_grad()
def generate(model, ids):
    tokens, logprobs, gaps, seconds = [], [], [], []
    past, step_input = None, torch.tensor([ids])
    for _ in range(STEPS):
        result = model(step_input, past_key_values=past, use_cache=True)
        past = result.past_key_values
        best = torch.log_softmax(result.logits[0, -1].double(), -1).topk(2)
        tokens.append(int(best.indices[0]))
        seconds.append(int(best.indices[1]))
        logprobs.append(round(float(best.values[0]), 6))
        gaps.append(round(float(best.values[0] - best.values[1]), 6))
        step_input = torch.tensor([[tokens[-1]]])
    return {"tokens": tokens, "second": seconds, "logprobs": logprobs, "gaps": gaps}


def main():
    path, output = sys.argv[1:]
    torch.set_num_threads(1)
    model = load_model(path)
    entries = []
    for prompt in prompts(path, model.config.vocab_size):
        entries.append(prompt | generate(model, prompt["ids"]))
        print(len(entries), len(prompt["ids"]), min(entries[-1]["gaps"]), flush=True)
    with open(path, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    head = {"model": os.path.basename(path), "sha256": digest, "steps": STEPS, "torch": torch.__version__,
            "transformers": transformers.__version__, "gguf": "0.19.0"}
    lines = ",\n".join(json.dumps(entry, separators=(",", ":")) for entry in entries)
    with open(output, "w") as file:
        file.write(json.dumps(head)[:-1] + ',\n"prompts": [\n' + lines + "\n]}\n")
    print(len(entries), "prompts, smallest gap", min(min(entry["gaps"]) for entry in entries))


main()
