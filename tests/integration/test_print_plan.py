#!/usr/bin/env python3
"""--print-plan from outside: the same bytes from every program, refusals before any allocation, memory as the kernel counts it.

Usage: test_print_plan.py BIN_DIR. Exit 77 when no program is built.
"""
import json
import os
import resource
import subprocess
import sys
import tempfile
import unittest

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/bin"
PROGRAMS = [["vllm-server"], ["vllm-cli"], ["vllm-bench", "run"], ["vllm-bench"], ["vllm-sim"], ["vllm-profile"]]
MIB = 1 << 20
GIB = 1 << 30

QWEN3_1_7B = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "hidden_size": 2048,
              "intermediate_size": 6144, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8,
              "head_dim": 128, "max_position_embeddings": 40960, "tie_word_embeddings": True, "torch_dtype": "bfloat16"}
LLAMA_8B = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 128256, "hidden_size": 4096,
            "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
            "max_position_embeddings": 131072, "torch_dtype": "bfloat16"}
DEEPSEEK_V2_LITE = {"architectures": ["DeepseekV2ForCausalLM"], "model_type": "deepseek_v2", "hidden_size": 2048,
                    "intermediate_size": 10944, "num_hidden_layers": 27, "num_attention_heads": 16, "q_lora_rank": None,
                    "n_routed_experts": 64, "num_experts_per_tok": 6, "moe_intermediate_size": 1408,
                    "first_k_dense_replace": 1, "max_position_embeddings": 163840, "torch_dtype": "bfloat16"}


def built():
    return [p for p in PROGRAMS if os.access(os.path.join(BIN, p[0]), os.X_OK)]


class PrintPlan(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory(prefix="vllm-plan-")
        self.addCleanup(tmp.cleanup)
        self.dir = tmp.name

    def model(self, name, config):
        path = os.path.join(self.dir, name)
        os.makedirs(path, exist_ok=True)
        with open(os.path.join(path, "config.json"), "w") as file:
            json.dump(config, file)
        return path

    def run_program(self, program, *args):
        command = [os.path.join(BIN, program[0])] + program[1:] + list(args)
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def plan(self, program, model, *args, expect=0):
        done = self.run_program(program, "--model", model, "--load-format", "dummy", "--print-plan=json", *args)
        self.assertEqual(done.returncode, expect, done.stderr)
        return json.loads(done.stdout)

    def test_all_programs_print_the_same_bytes(self):
        model = self.model("qwen3", QWEN3_1_7B)
        for knob in (["--num-blocks", "64"], ["--kv-cache-memory", "1GiB"], ["--kv-cache-memory-bytes", "1073741824"]):
            for form in ("--print-plan", "--print-plan=text", "--print-plan=json"):
                seen = {}
                for program in built():
                    done = self.run_program(program, "--model", model, "--load-format", "dummy", form, "--block-size", "32",
                                            "--max-model-len", "1024", "--max-num-seqs", "8", *knob)
                    self.assertEqual(done.returncode, 0, f"{program} {done.stderr}")
                    seen[" ".join(program)] = done.stdout
                self.assertEqual(len(set(seen.values())), 1, json.dumps(seen, indent=1))

    def test_the_reported_case(self):
        model = self.model("qwen3", QWEN3_1_7B)
        for program in built():
            plan = self.plan(program, model, "--block-size", "32", "--kv-cache-memory", "1GiB", "--max-model-len", "1024",
                             "--max-num-seqs", "8")
            self.assertEqual((plan["blocks"], plan["usable_blocks"], plan["tokens"]), (292, 291, 9312))
            self.assertEqual(plan["bytes_per_block"], 3670016)
            self.assertLessEqual(plan["pool_bytes"], GIB)
            self.assertTrue(plan["fits"])
            self.assertFalse(plan["measured"])
            for key in ("free_bytes", "total_bytes", "workspace_bytes", "graph_bytes"):
                self.assertIsNone(plan[key], key)

    def test_worked_values(self):
        program = built()[0]
        plan = self.plan(program, self.model("llama", LLAMA_8B), "--device-memory", "80GiB", "--num-blocks", "1000")
        self.assertEqual(plan["bytes_per_block"], 2 * MIB)
        self.assertEqual(plan["max_model_len"], 999 * 16)
        plan = self.plan(program, self.model("deepseek", DEEPSEEK_V2_LITE), "--device-memory", "80GiB", "--block-size", "32",
                         "--num-blocks", "1000", "--tensor-parallel-size", "4")
        self.assertEqual(plan["bytes_per_block"], 972 * 1024)
        self.assertEqual(plan["groups"][0]["kind"], "mla")

    def test_a_machine_that_is_not_here(self):
        model = self.model("llama", LLAMA_8B)
        for program in built():
            plan = self.plan(program, model, "--device-memory", "80GiB", "--tensor-parallel-size", "4")
            self.assertEqual((plan["device"], plan["decided_by"]), ("cuda", "default"))
            self.assertEqual(plan["bytes_per_block"], MIB // 2)
            self.assertEqual((plan["total_bytes"], plan["free_bytes"]), (80 * GIB, 80 * GIB))
            self.assertGreater(plan["weights_bytes"], 8030261248 * 2 // 4 - 2 * MIB)
            taken = sum(plan[k] for k in ("pool_bytes", "weights_bytes", "workspace_bytes", "graph_bytes", "reserve_bytes"))
            self.assertLessEqual(taken, 72 * GIB)
            self.assertGreater(taken, 72 * GIB - plan["bytes_per_block"])
        plan = self.plan(program, model, "--device-memory", "64GiB,integrated")
        self.assertEqual(plan["device"], "integrated")
        self.assertGreaterEqual(plan["reserve_bytes"], 4 * GIB)

    def test_refused_before_allocation(self):
        model = self.model("qwen3", QWEN3_1_7B)
        for program in built():
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            done = self.run_program(program, "--model", model, "--load-format", "dummy", "--print-plan", "--kv-cache-memory", "900TiB",
                                    "--max-model-len", "1024")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn("--kv-cache-memory", done.stderr)
            self.assertIn("does not fit", done.stdout)
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
            self.assertLess(max(peak, before) * 1024, 200 * MIB)
            plan = self.plan(program, model, "--num-blocks", "10", "--max-model-len", "1024", expect=2)
            self.assertEqual((plan["fits"], plan["longest_sequence"]), (False, 144))

    def test_only_the_model_is_needed_and_stdout_is_the_plan(self):
        model = self.model("qwen3", QWEN3_1_7B)
        for program in built():
            done = self.run_program(program, "--model", model, "--load-format", "dummy", "--print-plan")
            self.assertEqual(done.returncode, 0, f"{program} {done.stderr}")
            self.assertTrue(done.stdout.startswith("KV plan for cpu"), done.stdout)
            self.assertIn("decided by the default", done.stdout)

    def test_bad_models(self):
        for config, part in ((dict(QWEN3_1_7B, hidden_size=-1), "hidden_size"),
                             (dict(QWEN3_1_7B, architectures=["GPT2LMHeadModel"]), "GPT2LMHeadModel"),
                             (dict(QWEN3_1_7B, num_hidden_layers=1 << 62), "num_hidden_layers")):
            done = self.run_program(built()[0], "--model", self.model("bad", config), "--print-plan")
            self.assertEqual(done.returncode, 2)
            self.assertIn(part, done.stderr)
            self.assertEqual(done.stdout, "")


if __name__ == "__main__":
    if not built():
        print(f"skipped: no program is built in {BIN}")
        sys.exit(77)
    unittest.main()
