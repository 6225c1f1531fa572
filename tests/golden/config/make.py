#!/usr/bin/env python3
"""Makes goldens of model configurations: what the reference classes resolve a config.json to.

    python3 make.py OUT_DIR

Run once with transformers 5 (and torch, which counts the parameters on the meta device) and once with transformers 4,
each with its own form of the keys; each writes <architecture>.json under OUT_DIR/transformers-<major>/. The classes
decide everything below "expected"; this script only renames.
"""
import json
import os
import sys

import transformers
from transformers import (DeepseekV2Config, DeepseekV3Config, Gemma2Config, Gemma3Config, Gemma3TextConfig, LlamaConfig,
                          MistralConfig, MixtralConfig, Phi3Config, Qwen2Config, Qwen3Config, Qwen3MoeConfig)

V5 = transformers.__version__.startswith("5.")

CLASSES = {
    "llama": (LlamaConfig, "LlamaForCausalLM"),
    "mistral": (MistralConfig, "MistralForCausalLM"),
    "qwen2": (Qwen2Config, "Qwen2ForCausalLM"),
    "qwen3": (Qwen3Config, "Qwen3ForCausalLM"),
    "phi3": (Phi3Config, "Phi3ForCausalLM"),
    "gemma2": (Gemma2Config, "Gemma2ForCausalLM"),
    "gemma3": (Gemma3TextConfig, "Gemma3ForCausalLM"),
    "qwen3_moe": (Qwen3MoeConfig, "Qwen3MoeForCausalLM"),
    "mixtral": (MixtralConfig, "MixtralForCausalLM"),
    "deepseek_v2": (DeepseekV2Config, "DeepseekV2ForCausalLM"),
    "deepseek_v3": (DeepseekV3Config, "DeepseekV3ForCausalLM"),
}

LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
DEEPSEEK_YARN = {"type": "yarn", "factor": 40, "original_max_position_embeddings": 4096, "beta_fast": 32,
                 "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.707}


def rope(theta, scaling=None, **beside):
    """The keys of a rotary embedding in this version's form."""
    if V5:
        parameters = dict(scaling or {"rope_type": "default"}, rope_theta=theta)
        parameters.update(beside)
        return {"rope_parameters": parameters}
    return dict({"rope_theta": theta, "rope_scaling": scaling}, **beside)


def dtype(name):
    return {"dtype": name} if V5 else {"torch_dtype": name}


def gemma3_27b():
    keys = {"hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 62, "num_attention_heads": 32,
            "num_key_value_heads": 16, "head_dim": 128, "query_pre_attn_scalar": 168, "sliding_window": 1024,
            "vocab_size": 262208, "eos_token_id": [1, 106]}
    if V5:
        keys["rope_parameters"] = {"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 1000000.0},
                                   "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0}}
        keys["layer_types"] = ["full_attention" if (i + 1) % 6 == 0 else "sliding_attention" for i in range(62)]
    else:
        keys.update({"rope_theta": 1000000.0, "rope_local_base_freq": 10000.0, "sliding_window_pattern": 6,
                     "rope_scaling": {"rope_type": "linear", "factor": 8.0}})
    return dict(keys, **dtype("bfloat16"))


# name -> keys beside "architectures". Shapes of released models; "sparse" ones as people write them by hand.
CASES = {
    "llama": {
        "empty": {},
        "sparse": {"hidden_size": 2048, "num_attention_heads": 16},
        "kv-heads-null": {"num_key_value_heads": None, "head_dim": None},
        "smollm2-135m": {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
                         "num_attention_heads": 9, "num_key_value_heads": 3, "max_position_embeddings": 8192,
                         "rms_norm_eps": 1e-5, "tie_word_embeddings": True, "vocab_size": 49152, "bos_token_id": 1,
                         "eos_token_id": 2, **rope(100000), **dtype("bfloat16")},
        "llama-3.1-8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                         "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072,
                         "rms_norm_eps": 1e-5, "vocab_size": 128256, "bos_token_id": 128000,
                         "eos_token_id": [128001, 128008, 128009], **rope(500000.0, LLAMA3), **dtype("bfloat16")},
        "llama-3.2-1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
                         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64,
                         "max_position_embeddings": 131072, "tie_word_embeddings": True, "vocab_size": 128256,
                         **rope(500000.0, dict(LLAMA3, factor=32.0)), **dtype("float16")},
        "biases": {"attention_bias": True, "mlp_bias": True, "num_hidden_layers": 2},
        "dynamic": {"num_hidden_layers": 3, **rope(10000.0, {"rope_type": "dynamic", "factor": 2.0})},
        "linear": {"num_hidden_layers": 3, **rope(10000.0, {"type": "linear", "factor": 2.5})},
    },
    "mistral": {
        "empty": {},
        "sparse": {"num_hidden_layers": 4, "sliding_window": None},
        "mistral-7b-v0.1": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                            "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 32768,
                            "rms_norm_eps": 1e-5, "sliding_window": 4096, "vocab_size": 32000, **rope(10000.0),
                            **dtype("bfloat16")},
        "mistral-nemo": {"hidden_size": 5120, "intermediate_size": 14336, "num_hidden_layers": 40,
                         "num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128,
                         "max_position_embeddings": 131072, "sliding_window": None, "vocab_size": 131072,
                         **rope(1000000.0), **dtype("bfloat16")},
    },
    "qwen2": {
        "empty": {},
        "qwen2.5-0.5b": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
                         "num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 32768,
                         "max_window_layers": 24, "sliding_window": 32768, "use_sliding_window": False,
                         "tie_word_embeddings": True, "vocab_size": 151936, "eos_token_id": 151645,
                         **rope(1000000.0), **dtype("bfloat16")},
        "sliding": {"num_hidden_layers": 10, "max_window_layers": 7, "sliding_window": 512,
                    "use_sliding_window": True},
        "sliding-default-window": {"use_sliding_window": True},
        "listed": {"num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 64,
                   "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
    },
    "qwen3": {
        "empty": {},
        "qwen3-1.7b": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
                       "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128,
                       "max_position_embeddings": 40960, "tie_word_embeddings": True, "vocab_size": 151936,
                       "max_window_layers": 28, "sliding_window": None, "use_sliding_window": False,
                       **rope(1000000), **dtype("bfloat16")},
        "yarn": {"num_hidden_layers": 2, "max_position_embeddings": 131072, **rope(1000000, YARN)},
        "attention-bias": {"num_hidden_layers": 2, "attention_bias": True},
    },
    "phi3": {
        "empty": {},
        "phi-3-mini-4k": {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
                          "num_attention_heads": 32, "num_key_value_heads": 32, "max_position_embeddings": 4096,
                          "original_max_position_embeddings": 4096, "sliding_window": 2047, "vocab_size": 32064,
                          **rope(10000.0), **dtype("bfloat16")},
        "phi-4-mini": {"hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 32,
                       "num_attention_heads": 24, "num_key_value_heads": 8, "max_position_embeddings": 131072,
                       "original_max_position_embeddings": 4096, "sliding_window": 262144, "vocab_size": 200064,
                       "tie_word_embeddings": True, "eos_token_id": 199999, "bos_token_id": 199999,
                       **rope(10000.0, {"type": "longrope", "short_factor": [1.0] * 48,
                                        "long_factor": [1.0 + i / 8 for i in range(48)]},
                              partial_rotary_factor=0.75), **dtype("bfloat16")},
        "old-name-of-longrope": {"num_hidden_layers": 2, "max_position_embeddings": 131072,
                                 **rope(10000.0, {"type": "su", "short_factor": [1.5] * 48,
                                                  "long_factor": [2.0] * 48,
                                                  **({"original_max_position_embeddings": 4096} if V5 else {})})},
    },
    "gemma2": {
        "empty": {},
        "gemma-2-2b": {"hidden_size": 2304, "intermediate_size": 9216, "num_hidden_layers": 26,
                       "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "query_pre_attn_scalar": 256,
                       "vocab_size": 256000, "hidden_act": "gelu_pytorch_tanh", **dtype("bfloat16")},
        "gemma-2-27b": {"hidden_size": 4608, "intermediate_size": 36864, "num_hidden_layers": 46,
                        "num_attention_heads": 32, "num_key_value_heads": 16, "head_dim": 128,
                        "query_pre_attn_scalar": 144, "attn_logit_softcapping": None},
    },
    "gemma3": {
        "empty": {},
        "gemma-3-1b": {"hidden_size": 1152, "intermediate_size": 6912, "num_hidden_layers": 26,
                       "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "sliding_window": 512,
                       "max_position_embeddings": 32768, "vocab_size": 262144, **dtype("bfloat16")},
        "gemma-3-27b": gemma3_27b(),
    },
    "qwen3_moe": {
        "empty": {},
        "qwen3-30b-a3b": {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
                          "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
                          "num_experts_per_tok": 8, "moe_intermediate_size": 768, "max_position_embeddings": 40960,
                          "decoder_sparse_step": 1, "mlp_only_layers": [], "vocab_size": 151936,
                          **rope(1000000.0), **dtype("bfloat16")},
        "some-dense": {"num_hidden_layers": 6, "decoder_sparse_step": 2, "mlp_only_layers": [3], "num_experts": 16},
        "sliding": {"num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 256},
    },
    "mixtral": {
        "empty": {},
        "mixtral-8x7b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                         "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 8,
                         "num_experts_per_tok": 2, "max_position_embeddings": 32768, "sliding_window": None,
                         "vocab_size": 32000, **rope(1000000.0), **dtype("bfloat16")},
        "small": {"num_hidden_layers": 2, "num_local_experts": 4, "sliding_window": 1024},
    },
    "deepseek_v2": {
        # The vocabulary's default changed from 32000 to 102400; ours is that of the newer class.
        "empty": {} if V5 else {"vocab_size": 102400},
        "deepseek-v2-lite": {"hidden_size": 2048, "intermediate_size": 10944, "num_hidden_layers": 27,
                             "num_attention_heads": 16, "num_key_value_heads": 16, "kv_lora_rank": 512,
                             "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128,
                             "n_routed_experts": 64, "n_shared_experts": 2, "num_experts_per_tok": 6,
                             "moe_intermediate_size": 1408, "first_k_dense_replace": 1,
                             "max_position_embeddings": 163840, "vocab_size": 102400, **rope(10000, DEEPSEEK_YARN),
                             **dtype("bfloat16")},
    },
    "deepseek_v3": {
        "empty": {},
        "deepseek-v3": {"hidden_size": 7168, "intermediate_size": 18432, "num_hidden_layers": 61,
                        "num_attention_heads": 128, "num_key_value_heads": 128, "max_position_embeddings": 163840,
                        "first_k_dense_replace": 3, "moe_intermediate_size": 2048, "n_routed_experts": 256,
                        "n_shared_experts": 1, "vocab_size": 129280,
                        **rope(10000, dict(DEEPSEEK_YARN, mscale=1.0, mscale_all_dim=1.0)), **dtype("bfloat16")},
    },
}


def rope_sets(config, name):
    """The parameters of full and of sliding layers, in one form for both versions."""
    if V5:
        parameters = config.rope_parameters
        if "full_attention" in parameters:
            return parameters["full_attention"], parameters["sliding_attention"]
        return parameters, parameters
    full = dict(getattr(config, "rope_scaling", None) or {}, rope_theta=config.rope_theta)
    partial = getattr(config, "partial_rotary_factor", None)
    if partial is not None:
        full["partial_rotary_factor"] = partial
    if name == "gemma3":
        return full, {"rope_theta": config.rope_local_base_freq}
    return full, full


def rope_json(parameters, config):
    kind = parameters.get("rope_type", parameters.get("type", "default"))
    if kind in ("su",):
        kind = "longrope"
    out = {"type": kind, "theta": float(parameters["rope_theta"]),
           "partial_rotary_factor": float(parameters.get("partial_rotary_factor", 1.0))}
    if kind == "default":
        return out
    out["factor"] = float(parameters.get("factor") or 1.0)
    if kind in ("llama3", "yarn", "longrope"):
        beside = getattr(config, "original_max_position_embeddings", None)
        out["original_max_position_embeddings"] = beside or parameters.get("original_max_position_embeddings",
                                                                           config.max_position_embeddings)
    for key in ("low_freq_factor", "high_freq_factor"):
        if kind == "llama3":
            out[key] = float(parameters[key])
    if kind == "yarn":
        out["beta_fast"] = float(parameters.get("beta_fast") or 32)
        out["beta_slow"] = float(parameters.get("beta_slow") or 1)
        out["mscale"] = parameters.get("mscale")
        out["mscale_all_dim"] = parameters.get("mscale_all_dim")
    if kind == "longrope":
        out["short_factor"] = parameters["short_factor"]
        out["long_factor"] = parameters["long_factor"]
    return out


def windows(config):
    layers = config.num_hidden_layers
    types = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if types:
        return [window if kind == "sliding_attention" else 0 for kind in types]
    return [window or 0] * layers


def moe(config, name):
    if name == "qwen3_moe":
        sparse = [i not in config.mlp_only_layers and (i + 1) % config.decoder_sparse_step == 0
                  for i in range(config.num_hidden_layers)]
        return {"num_experts": config.num_experts, "num_experts_per_tok": config.num_experts_per_tok,
                "intermediate_size": config.moe_intermediate_size, "shared_intermediate_size": 0,
                "layers": [int(s) for s in sparse]}
    if name == "mixtral":
        return {"num_experts": config.num_local_experts, "num_experts_per_tok": config.num_experts_per_tok,
                "intermediate_size": config.intermediate_size, "shared_intermediate_size": 0,
                "layers": [1] * config.num_hidden_layers}
    if name.startswith("deepseek"):
        return {"num_experts": config.n_routed_experts, "num_experts_per_tok": config.num_experts_per_tok or 0,
                "intermediate_size": config.moe_intermediate_size,
                "shared_intermediate_size": config.n_shared_experts * config.moe_intermediate_size,
                "layers": [int(i >= config.first_k_dense_replace) for i in range(config.num_hidden_layers)]}
    return None


def expected(config, name):
    mla = name.startswith("deepseek")
    full, sliding = rope_sets(config, name)
    eos = config.eos_token_id
    dtype_name = getattr(config, "dtype", None) if V5 else (getattr(config, "dtype", None) or None)
    head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim if mla else (
        getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads)
    out = {
        "vocab_size": config.vocab_size, "hidden_size": config.hidden_size,
        "intermediate_size": config.intermediate_size, "num_layers": config.num_hidden_layers,
        "num_heads": config.num_attention_heads, "num_kv_heads": config.num_key_value_heads, "head_dim": head_dim,
        "v_head_dim": config.v_head_dim if mla else head_dim,
        "max_position_embeddings": config.max_position_embeddings, "norm_eps": config.rms_norm_eps,
        "hidden_act": getattr(config, "hidden_activation", None) or config.hidden_act,
        "tie_word_embeddings": config.tie_word_embeddings,
        "bos_token_id": config.bos_token_id,
        "eos_token_ids": [] if eos is None else eos if isinstance(eos, list) else [eos],
        "dtype": None if dtype_name is None else str(dtype_name).replace("torch.", ""),
        "rope": rope_json(full, config), "windows": windows(config), "moe": moe(config, name),
        "mla": {"kv_lora_rank": config.kv_lora_rank, "q_lora_rank": config.q_lora_rank or 0,
                "qk_nope_head_dim": config.qk_nope_head_dim, "qk_rope_head_dim": config.qk_rope_head_dim,
                "v_head_dim": config.v_head_dim} if mla else None,
    }
    if sliding is not full:
        out["rope_local"] = rope_json(sliding, config)
    if name.startswith("gemma"):
        out["attention_scale"] = config.query_pre_attn_scalar ** -0.5
        out["attn_logit_softcap"] = config.attn_logit_softcapping or 0.0
        out["final_logit_softcap"] = config.final_logit_softcapping or 0.0
    return out


def count_parameters(config):
    import torch
    from transformers import AutoModelForCausalLM
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    named = dict(model.named_parameters())
    tied = config.tie_word_embeddings
    attention = model.model.layers[0].self_attn
    return (sum(p.numel() for n, p in named.items() if not (tied and n == "lm_head.weight")),
            getattr(attention, "scaling", None))


def case(name, keys):
    cls, architecture = CLASSES[name]
    keys = dict(keys)
    config = cls(**json.loads(json.dumps(keys)))
    result = expected(config, name)
    if V5:
        result["num_parameters"], scale = count_parameters(config)
        if name.startswith("deepseek"):
            result["attention_scale"] = float(scale)
    return {"input": dict({"architectures": [architecture], "model_type": cls.model_type}, **keys),
            "expected": result}


def saved_case(name, keys):
    """The same through to_dict: every key written out, as save_pretrained does."""
    cls, architecture = CLASSES[name]
    config = cls(**json.loads(json.dumps(keys)))
    written = json.loads(config.to_json_string(use_diff=False))
    written["architectures"] = [architecture]
    return {"input": written, "expected": expected(config, name)}


def multimodal_case():
    config = Gemma3Config(text_config=gemma3_27b())
    written = json.loads(config.to_json_string(use_diff=False))
    written["architectures"] = ["Gemma3ForConditionalGeneration"]
    return {"input": written, "expected": expected(config.text_config, "gemma3")}


def main():
    out = os.path.join(sys.argv[1], "transformers-5" if V5 else "transformers-4")
    os.makedirs(out, exist_ok=True)
    for name, cases in CASES.items():
        made = {}
        for title, keys in cases.items():
            made[title] = case(name, keys)
            made[title + ", saved"] = saved_case(name, keys)
        if name == "gemma3":
            made["multimodal"] = multimodal_case()
        document = {"made_by": f"transformers {transformers.__version__}", "cases": made}
        with open(os.path.join(out, name + ".json"), "w", encoding="utf-8") as file:
            json.dump(document, file, separators=(",", ":"))
            file.write("\n")
        print(name, len(made))


if __name__ == "__main__":
    main()
