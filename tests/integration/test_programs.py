"""All programs from outside: help, version, refusals, and the same KV plan from each, byte for byte.

usage: test_programs.py BIN_FOLDER
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BIN = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else pathlib.Path("build/release/bin")
SOURCE = pathlib.Path(__file__).resolve().parents[2]
GGUF = SOURCE / "models" / "SmolLM2-135M-Instruct.Q4_1.gguf"

PROGRAMS = ["vllm-server", "vllm-cli", "vllm-bench", "vllm-sim", "vllm-profile", "vllm-workload"]
COMMANDS = [[p] for p in PROGRAMS] + [["vllm-bench", s] for s in ("run", "check-schedule", "validate")]
PLANNERS = [["vllm-server"], ["vllm-cli"], ["vllm-bench", "run"], ["vllm-bench"], ["vllm-sim"], ["vllm-profile"]]

COMMON = {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 8,
          "num_key_value_heads": 4, "head_dim": 32, "vocab_size": 1000, "max_position_embeddings": 2048,
          "torch_dtype": "bfloat16"}
QWEN3_1_7B = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 2048,
              "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16,
              "num_key_value_heads": 8, "head_dim": 128, "vocab_size": 151936, "max_position_embeddings": 40960,
              "torch_dtype": "bfloat16", "tie_word_embeddings": True}
MODELS = {
    "llama": {**COMMON, "architectures": ["LlamaForCausalLM"], "model_type": "llama"},
    "mistral": {**COMMON, "architectures": ["MistralForCausalLM"], "model_type": "mistral", "sliding_window": 128},
    "qwen2": {**COMMON, "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2"},
    "qwen3": {**COMMON, "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"},
    "phi3": {**COMMON, "architectures": ["Phi3ForCausalLM"], "model_type": "phi3"},
    "gemma2": {**COMMON, "architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", "sliding_window": 128,
               "query_pre_attn_scalar": 32},
    "gemma3": {**COMMON, "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "sliding_window": 128,
               "query_pre_attn_scalar": 32},
    "qwen3-moe": {**COMMON, "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 8,
                  "num_experts_per_tok": 2, "moe_intermediate_size": 64},
    "mixtral": {**COMMON, "architectures": ["MixtralForCausalLM"], "model_type": "mixtral", "num_local_experts": 4,
                "num_experts_per_tok": 2},
    "deepseek-v2": {**COMMON, "architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2",
                    "kv_lora_rank": 64, "q_lora_rank": None, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16,
                    "v_head_dim": 32, "n_routed_experts": 4, "num_experts_per_tok": 2, "n_shared_experts": 1,
                    "moe_intermediate_size": 64, "first_k_dense_replace": 1, "num_key_value_heads": 8},
}


def run(command, *args, **more):
    full = [str(BIN / command[0]), *command[1:], *map(str, args)]
    return subprocess.run(full, capture_output=True, text=True, timeout=120, **more)


class ProgramsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.dir = pathlib.Path(self.folder.name)

    def model(self, config):
        path = self.dir / f"model{len(list(self.dir.iterdir()))}"
        path.mkdir()
        (path / "config.json").write_text(json.dumps(config))
        return path

    def refused(self, result, *says):
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stdout, "", result)
        self.assertEqual(len(result.stderr.strip().splitlines()), 1, result.stderr)
        for text in says:
            self.assertIn(text, result.stderr)


class HelpAndVersion(ProgramsTest):
    def test_help_goes_to_stdout(self):
        for command in COMMANDS:
            for flag in ("--help", "-h"):
                result = run(command, flag)
                self.assertEqual((result.returncode, result.stderr), (0, ""), command)
                self.assertTrue(result.stdout.startswith(" ".join(command) + ": "), result.stdout[:80])
                self.assertIn("--log-level", result.stdout)

    def test_bench_help_lists_subcommands(self):
        text = run(["vllm-bench"], "--help").stdout
        for name in ("run", "check-schedule", "validate"):
            self.assertRegex(text, rf"(?m)^  {name} ")
        self.assertIn("Not built yet", text)

    def test_version_is_the_same_everywhere(self):
        seen = set()
        for command in COMMANDS:
            result = run(command, "--version")
            self.assertEqual((result.returncode, result.stderr), (0, ""), command)
            first, rest = result.stdout.split("\n", 1)
            self.assertRegex(first, "^" + re.escape(" ".join(command)) + r" \d+\.\d+\.\d+$")
            seen.add(rest)
        self.assertEqual(len(seen), 1)
        text = seen.pop()
        for line in (r"commit: \S+", r"build: \w+, sanitizers: \S+", r"compiler: (GCC|Clang) \d+", r"ISA: \w+ \(.*\)"):
            self.assertRegex(text, rf"(?m)^{line}")
        for library in ("fmt", "spdlog", "simdjson", "nlohmann_json", "yaml-cpp", "OpenSSL", "zlib", "xxHash"):
            self.assertRegex(text, rf"(?m)^  {library} \d")

    def test_the_option_page_is_this_build_s(self):
        result = run(["vllm-bench"], "--options-markdown")
        self.assertEqual(result.returncode, 0)
        self.assertEqual(result.stdout, (SOURCE / "docs" / "options.md").read_text())

    def test_an_unwritable_stdout_is_an_error(self):
        with open("/dev/full", "w") as full:
            for command in COMMANDS:
                result = subprocess.run([str(BIN / command[0]), *command[1:], "--help"], stdout=full,
                                        stderr=subprocess.PIPE, text=True, timeout=60)
                self.assertEqual(result.returncode, 1, command)
                self.assertIn("cannot write to stdout", result.stderr)


class Refusals(ProgramsTest):
    def test_unknown_options_have_a_suggestion(self):
        for command in COMMANDS:
            self.refused(run(command, "--log_level", "INFO"), " ".join(command) + ": unknown option --log_level",
                         "did you mean --log-level?")

    def test_subcommands(self):
        self.refused(run(["vllm-bench"]), "run, check-schedule or validate", "not built yet")
        self.refused(run(["vllm-bench", "rnu"]), "unknown subcommand 'rnu'", "did you mean run?")

    def test_what_is_not_built_says_so(self):
        for command in (["vllm-server"], ["vllm-cli"], ["vllm-profile"]):
            self.refused(run(command), " ".join(command) + ": ", "not built yet")
            self.refused(run(command, "--model", self.model(MODELS["llama"])), "not built yet")
        self.refused(run(["vllm-bench"], "--model", "m"), "load mode", "not built yet")

    def test_required_options(self):
        self.refused(run(["vllm-bench", "run"]), "--model", "--dataset", "--output-dir", "missing")
        self.refused(run(["vllm-bench", "check-schedule"]), "--bench-dir", "--dataset", "missing")
        self.refused(run(["vllm-bench", "validate"]), "--bench-dir", "--sim-csv", "--sim-log", "missing")
        self.refused(run(["vllm-workload"]), "--output", "missing")
        for command in PLANNERS:
            self.refused(run(command, "--print-plan"), "--model is missing")

    def test_sizes(self):
        model = self.model(MODELS["llama"])
        for command in PLANNERS:
            for option in ("--num-blocks", "--kv-cache-memory", "--kv-cache-memory-bytes", "--gpu-memory-utilization",
                           "--memory-utilization", "--device-memory", "--max-model-len", "--block-size"):
                for value in ("0", "-1", "nan", "99999999999999999999999", "many", ""):
                    result = run(command, "--model", model, "--print-plan", f"{option}={value}")
                    self.refused(result, f"{option}: '{value}'", "accepted is ")

    def test_what_cannot_be_honoured_is_refused_by_name(self):
        model = self.model(MODELS["llama"])
        out = self.dir / "out"
        for option, value in (("--tensor-parallel-size", "2"), ("--data-parallel-size", "2"),
                              ("--enable-expert-parallel", None), ("--record-gate-stats", None), ("--device", "cuda"),
                              ("--base-url", "http://127.0.0.1:1"), ("--api-key", "k"), ("--max-connections", "1")):
            more = [option] if value is None else [option, value]
            result = run(["vllm-bench", "run"], "--model", model, "--load-format", "dummy", "--dataset", "absent.jsonl",
                         "--output-dir", out, *more)
            self.refused(result, option)
        self.assertFalse(out.exists())


class Plans(ProgramsTest):
    def plans(self, *args, code=0):
        texts = {}
        for command in PLANNERS:
            result = run(command, *args)
            self.assertEqual(result.returncode, code, (command, result))
            texts[" ".join(command)] = result.stdout
        for name, text in texts.items():
            self.assertEqual(text, texts["vllm-server"], f"{name} plans differently from vllm-server for {args}")
        return texts["vllm-server"]

    def test_one_plan_for_every_architecture_and_knob(self):
        for name, config in MODELS.items():
            model = self.model(config)
            for knob in (["--num-blocks", "300"], ["--kv-cache-memory", "1GiB"]):
                with self.subTest(name, knob=knob):
                    plan = json.loads(self.plans("--model", model, "--print-plan=json", "--max-num-seqs", "8", *knob))
                    self.assertEqual(plan["decided_by"], knob[0][2:])
                    self.assertEqual(plan["usable_blocks"], plan["blocks"] - 1)
                    self.assertEqual(plan["pool_bytes"], plan["blocks"] * plan["bytes_per_block"])
                    for key in ("free_bytes", "total_bytes", "workspace_bytes", "graph_bytes"):
                        self.assertIsNone(plan[key])
                    self.assertFalse(plan["measured"])
            self.plans("--model", model, "--print-plan", "--num-blocks", "300")

    def test_the_reported_case(self):
        model = self.model(QWEN3_1_7B)
        plan = json.loads(self.plans("--model", model, "--print-plan=json", "--kv-cache-memory", "1GiB",
                                     "--block-size", "32", "--max-model-len", "1024", "--max-num-seqs", "8"))
        self.assertEqual((plan["bytes_per_block"], plan["blocks"], plan["tokens"]), (28 * 131072, 292, 9312))
        self.assertLessEqual(plan["pool_bytes"], 1 << 30)
        plan = json.loads(self.plans("--model", model, "--print-plan=json", "--num-blocks", "64", "--block-size", "32",
                                     "--max-model-len", "1024"))
        self.assertEqual(plan["pool_bytes"], 64 * 28 * 131072)

    def test_every_knob_reaches_every_program(self):
        model = self.model(MODELS["llama"])
        before = self.plans("--model", model, "--print-plan=json", "--num-blocks", "300")
        for more in (["--block-size", "32"], ["--kv-cache-dtype", "fp8"], ["--kv-cache-dtype", "float32"],
                     ["--max-model-len", "100"], ["--tensor-parallel-size", "2"], ["--max-num-seqs", "3"],
                     ["--max-num-batched-tokens", "64"], ["--kv-cache-memory", "1GiB"],
                     ["--gpu-memory-utilization", "0.3"]):
            with self.subTest(more):
                after = self.plans("--model", model, "--print-plan=json", "--num-blocks", "300", *more)
                self.assertNotEqual(after, before)

    def test_a_device_that_is_not_here(self):
        model = self.model(QWEN3_1_7B)
        plan = json.loads(self.plans("--model", model, "--print-plan=json", "--device-memory", "80GiB", "--dtype",
                                     "bfloat16", "--tensor-parallel-size", "4", "--kv-cache-memory", "2GiB"))
        self.assertEqual(plan["bytes_per_block"], 28 * 16 * 2 * 2 * 128 * 2)

    def test_replay_computes_in_bfloat16_unless_told(self):
        model = self.model({**MODELS["llama"], "torch_dtype": "float32"})
        args = ["--model", model, "--print-plan=json", "--num-blocks", "300"]
        self.assertNotEqual(run(["vllm-bench", "run"], *args).stdout, run(["vllm-server"], *args).stdout)
        for dtype in ("auto", "float32", "bfloat16", "float16"):
            self.plans(*args, "--dtype", dtype)

    def test_gguf(self):
        if not GGUF.exists():
            self.skipTest(f"{GGUF} is not there (scripts/setup brings it)")
        for knob in (["--num-blocks", "64"], ["--kv-cache-memory", "1GiB"]):
            self.plans("--model", GGUF, "--print-plan=json", *knob)

    def test_stdout_holds_the_plan_and_nothing_else(self):
        model = self.model(MODELS["llama"])
        for command in PLANNERS:
            for level in ("DEBUG", "error"):
                for log_format in ("text", "json"):
                    result = run(command, "--model", model, "--print-plan=json", "--num-blocks", "300", "--log-level",
                                 level, "--log-format", log_format)
                    self.assertEqual(result.returncode, 0, result)
                    json.loads(result.stdout)
                    self.assertTrue(result.stdout.endswith("}\n"))

    def test_what_does_not_fit_prints_the_plan_and_the_reason(self):
        model = self.model(MODELS["llama"])
        plain = "sanitizers: none" in run(["vllm-server"], "--version").stdout
        text = self.plans("--model", model, "--print-plan=json", "--kv-cache-memory", "900TiB", code=2)
        self.assertFalse(json.loads(text)["fits"])
        for command in PLANNERS:
            args = [str(BIN / command[0]), *command[1:], "--model", str(model), "--print-plan", "--kv-cache-memory", "900TiB"]
            child = subprocess.Popen(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            stdout, stderr = child.stdout.read(), child.stderr.read()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
            child.stdout.close()
            child.stderr.close()
            self.assertEqual(child.returncode, 2)
            self.assertIn("does not fit", stdout)
            self.assertTrue(stderr.startswith(" ".join(command) + ": --kv-cache-memory"), stderr)
            if plain:
                self.assertLess(usage.ru_maxrss, 64 * 1024)  # KiB: nothing of the pool was allocated

    def test_options_from_a_file(self):
        model = self.model(MODELS["llama"])
        config = self.dir / "engine.yaml"
        config.write_text(f"model: {model}\nnum_blocks: 300\nblock-size: 32\nenable-prefix-caching: false\n")
        from_file = self.plans("--config", config, "--print-plan=json")
        self.assertEqual(json.loads(from_file)["block_size"], 32)
        self.assertEqual(from_file, self.plans("--model", model, "--num-blocks", "300", "--block-size", "32", "--print-plan=json"))
        over = json.loads(self.plans("--config", config, "--block-size", "16", "--print-plan=json"))
        self.assertEqual(over["block_size"], 16)
        config.write_text("num-blocks: 300\nblok-size: 32\n")
        for command in PLANNERS:
            self.refused(run(command, "--model", model, "--config", config, "--print-plan"),
                         f"{config}:2: unknown option blok-size; did you mean block-size?")


if __name__ == "__main__":
    missing = [p for p in PROGRAMS if not (BIN / p).exists()]
    if missing:
        print(f"skipped: {BIN} lacks {', '.join(missing)}")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
