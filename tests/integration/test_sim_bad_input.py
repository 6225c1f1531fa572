#!/usr/bin/env python3
"""What vllm-sim refuses: bundles, clusters, models and workloads that are damaged or do not fit each other.

Every refusal is exit code 2 and one sentence on stderr that names file and field; a good run of the same small world is 0.
Usage: test_sim_bad_input.py BIN_DIR. Exit 77 when vllm-sim is not built.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest

BIN = sys.argv.pop(1) if len(sys.argv) > 1 else "build/release/bin"
SIM = os.path.join(BIN, "vllm-sim")

MODEL = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 4,
         "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 512, "vocab_size": 1024,
         "max_position_embeddings": 4096, "torch_dtype": "bfloat16"}
ARCHITECTURE = """
sequence:
  prologue: [embedding]
  pre_attn: [layernorm, qkv_proj, attention]
  post_attn: [o_proj, layernorm]
  mlp_dense: [gate_up_proj, down_proj]
  head: [final_layernorm, lm_head, sampler]
catalog:
  dense: {embedding: {}, layernorm: {tp_stable: true}, qkv_proj: {}, o_proj: {}, gate_up_proj: {}, down_proj: {}, final_layernorm: {}}
  per_sequence: {lm_head: {}, sampler: {tp_stable: true}}
  attention: {attention: {}}
"""
DENSE = ["embedding", "layernorm", "qkv_proj", "o_proj", "gate_up_proj", "down_proj", "final_layernorm"]


def curves(column, layers, keys):
    rows = [f"layer,{column},time_us"]
    rows += [f"{layer},{key},{5 + key * 0.01:.3f}" for layer in layers for key in keys]
    return "\n".join(rows) + "\n"


def attention():
    rows = ["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"]
    for pc in (0, 16, 64, 512):
        for nd in (0, 1, 4, 16):
            if pc + nd == 0:
                continue
            for kp in (0, 64, 512) if pc else (0,):
                for kd in (16, 64, 256, 1024) if nd else (0,):
                    rows.append(f"{pc},{kp},{nd},{kd},{3 + pc * 0.05 + nd * kd * 0.001:.4f}")
    return "\n".join(rows) + "\n"


class BadInput(unittest.TestCase):
    def setUp(self):
        tmp = tempfile.TemporaryDirectory(prefix="vllm-sim-")
        self.addCleanup(tmp.cleanup)
        self.dir = tmp.name
        self.put("configs/model/small.json", json.dumps(MODEL))
        self.put("configs/architecture/llama.yaml", ARCHITECTURE)
        self.put("profiles/CARD/small/bf16/meta.yaml", "model: small\ntp_degrees: [1]\nskew_fit: {enabled: false}\n")
        self.put("profiles/CARD/small/bf16/tp1/dense.csv", curves("tokens", DENSE, (1, 2, 4, 8, 64, 512)))
        self.put("profiles/CARD/small/bf16/tp1/per_sequence.csv", curves("sequences", ["lm_head", "sampler"], (1, 2, 16)))
        self.put("profiles/CARD/small/bf16/tp1/attention.csv", attention())
        self.instance = {"model_name": "small", "hardware": "CARD",
                         "npu_mem": {"mem_size": 4, "mem_bw": 1000, "mem_latency": 0}, "pd_type": None}
        self.cluster = {"num_nodes": 1, "link_bw": 16, "link_latency": 1000,
                        "nodes": [{"num_instances": 1, "cpu_mem": {"mem_size": 64, "mem_bw": 256, "mem_latency": 0},
                                   "instances": [self.instance]}]}
        self.rows = [{"input_toks": 40 + i, "output_toks": 8, "arrival_time_ns": i * 1000000} for i in range(8)]

    def path(self, name):
        return os.path.join(self.dir, name)

    def put(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as file:
            file.write(text)

    def edit(self, name, old, new):
        with open(self.path(name)) as file:
            text = file.read()
        self.assertIn(old, text)
        self.put(name, text.replace(old, new, 1))

    def run_sim(self, *args):
        self.put("cluster.json", json.dumps(self.cluster))
        self.put("workload.jsonl", "".join(json.dumps(row) + "\n" for row in self.rows))
        command = [SIM, "--cluster-config", self.path("cluster.json"), "--configs-root", self.path("configs"),
                   "--profiles-root", self.path("profiles"), "--dataset", self.path("workload.jsonl"),
                   "--output", self.path("sim.csv")] + list(args)
        return subprocess.run(command, capture_output=True, text=True, timeout=120)

    def refuse(self, *says, args=()):
        for mode in ("native", "compat"):
            done = self.run_sim("--mode", mode, *args)
            self.assertEqual(done.returncode, 2, f"{mode}: {done.stdout[-300:]} {done.stderr}")
            for words in says:
                self.assertIn(words, done.stderr)
            self.assertEqual(done.stderr.strip().count("\n"), 0, done.stderr)
            self.assertFalse(os.path.exists(self.path("sim.csv")))

    def test_a_good_world_runs_twice_the_same(self):
        for mode in ("native", "compat"):
            texts = []
            for _ in range(2):
                done = self.run_sim("--mode", mode)
                self.assertEqual(done.returncode, 0, done.stderr)
                with open(self.path("sim.csv"), "rb") as file:
                    texts.append(file.read())
            self.assertEqual(texts[0], texts[1])
            self.assertEqual(texts[0].count(b"\r\n"), 9)

    def test_bundles(self):
        dense, attn = "profiles/CARD/small/bf16/tp1/dense.csv", "profiles/CARD/small/bf16/tp1/attention.csv"
        cases = [(dense, "o_proj,64,5.640\n", "", ("dense.csv", "'o_proj'", "tokens 64", "hole")),
                 (dense, "qkv_proj,1,5.010", "qkv_proj,1,nan", ("dense.csv:14", "'time_us' is 'nan'")),
                 (dense, "qkv_proj,1,5.010", "qkv_proj,1,-5", ("dense.csv:14", "'time_us' is -5")),
                 (dense, "layer,tokens", "layer,token", ("dense.csv:1", "'tokens'")),
                 (attn, "16,64,4,64,", "16,64,4,63,", ("attention.csv",)),
                 (attn, "16,64,4,64,", "16,64,four,64,", ("attention.csv:", "'n_decode' is 'four'"))]
        for name, old, new, says in cases:
            with open(self.path(name)) as file:
                before = file.read()
            self.edit(name, old, new)
            if says != ("attention.csv",):  # a key of its own in a row is no damage
                self.refuse(*says)
            self.put(name, before)
        self.put(dense, curves("tokens", DENSE[:-1], (1, 2, 4)))
        self.refuse("dense.csv", "'final_layernorm'")
        os.remove(self.path(attn))
        self.refuse("attention.csv: no such file")

    def test_degrees_variants_and_hardware_that_were_not_profiled(self):
        self.instance["tp_size"] = 2
        self.refuse("degree 2 was not profiled", "accepted is 1")
        del self.instance["tp_size"]
        self.instance["hardware"] = "OTHER"
        self.refuse("OTHER/small/bf16: no such profile bundle")
        self.instance["hardware"] = "CARD"
        self.refuse("CARD/small/fp8: no such profile bundle", args=("--dtype", "fp8"))

    def test_clusters(self):
        self.instance["npu_mem"]["mem_size"] = 0.001
        self.refuse("cluster.json: nodes[0].instances[0]")
        self.instance["npu_mem"]["mem_size"] = 4
        self.instance["model_name"] = "nobody"
        self.refuse("cluster.json: 'nodes[0].instances[0].model_name' is 'nobody'")
        self.instance["model_name"] = "small"
        self.instance["pd_type"] = "prefill"
        self.refuse("'nodes[0].instances[0].pd_type' is 'prefill'", "not built yet")
        self.instance["pd_type"] = None
        self.cluster["cxl_mem"] = {"mem_size": 1}
        self.refuse("cluster.json: 'cxl_mem'")
        del self.cluster["cxl_mem"]
        self.cluster["num_nodes"] = 2
        self.refuse("cluster.json: 'num_nodes' is 2")

    def test_keys_that_nobody_reads(self):
        self.instance["colour"] = "red"
        done = self.run_sim("--mode", "native")
        self.assertEqual(done.returncode, 2)
        self.assertIn("nodes[0].instances[0].colour", done.stderr)
        done = self.run_sim("--mode", "compat")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nodes[0].instances[0].colour", done.stdout + done.stderr)

    def test_workloads(self):
        good = list(self.rows)
        self.rows = []
        self.refuse("workload.jsonl")
        self.rows = [good[1], good[0]]
        self.refuse("workload.jsonl", "arrival_time_ns")
        self.rows = [{"input_toks": 4, "arrival_time_ns": 0}]
        self.refuse("workload.jsonl:1", "output_toks")


if __name__ == "__main__":
    if not os.access(SIM, os.X_OK):
        sys.exit(77)
    unittest.main(verbosity=1)
