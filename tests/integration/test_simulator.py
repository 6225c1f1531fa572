#!/usr/bin/env python3
"""vllm-sim against the reference simulator's recorded outputs, where they are: `shared/reference` beside the checkout.

Usage: test_simulator.py BIN_DIR; exit 77: nothing to compare with.
"""
import csv
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
REFERENCE = os.path.join(os.path.dirname(ROOT), "shared", "reference")
EXAMPLES = ["RTXPRO6000/Llama-3.1-8B", "RTXPRO6000/Qwen3-32B"]
DATASETS = {"RTXPRO6000/Llama-3.1-8B": "sharegpt-llama-3.1-8b-300-sps10.jsonl",
            "RTXPRO6000/Qwen3-32B": "sharegpt-qwen3-32b-300-sps10.jsonl"}
# Output, cluster configuration, makespan (the largest end_time).
RUNS = [("example_single_run.csv", "single_node_single_instance", 1663996645),
        ("example_multi_run.csv", "single_node_multi_instance", 1664893230),
        ("example_dp_run.csv", "single_node_dp_instance", 1444267327),
        ("example_pp_run.csv", "single_node_pp_instance", 1770875992),
        ("example_moe_run.csv", "single_node_moe_single_instance", 1945309759)]
# Recorded as numbers only.
MAKESPANS = [("single_node_tp_pp_instance", 1469287243)]


def simulate(binary, reference, cluster, dataset, num_reqs, output, *more):
    command = [binary, "--mode", "compat", "--cluster-config", cluster, "--configs-root", f"{reference}/configs",
               "--profiles-root", f"{reference}/perf", "--dataset", f"{reference}/workloads/{dataset}",
               "--num-reqs", str(num_reqs), "--dtype", "bfloat16", "--block-size", "16", "--output", output, *more]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, f"{command}: {run.stderr}"
    return run


def comparable(log):
    """Without what may differ: run id, paths and wall time."""
    kept = []
    for line in log.split("\n"):
        if re.search(r"Run ID|inputs root|Cluster config|  • Dataset|Total simulation time|Saving each request", line):
            line = line.split(":")[0]
        kept.append(line)
    return kept


def makespan(path):
    with open(path, newline="") as f:
        return max(int(row["end_time"]) for row in csv.DictReader(f))


def main():
    binary = os.path.join(sys.argv[1], "vllm-sim")
    reference = REFERENCE
    if not os.path.isdir(reference):
        print("skipped: no reference data beside the checkout")
        return 77
    failures = 0
    with tempfile.TemporaryDirectory() as tmp:
        out = os.path.join(tmp, "sim.csv")

        def check(name, good):
            nonlocal failures
            failures += 0 if good else 1
            print(f"{'ok' if good else 'DIFFERS'}: {name}")

        for example in EXAMPLES:
            folder = f"{reference}/examples/{example}"
            log = simulate(binary, reference, f"{folder}/config.json", DATASETS[example], 300, out, "--kv-cache-dtype",
                           "auto", "--max-num-seqs", "128", "--max-num-batched-tokens", "2048").stdout
            check(f"{example} sim.csv", open(out, "rb").read() == open(f"{folder}/outputs/sim.csv", "rb").read())
            recorded = open(f"{folder}/outputs/sim.log", encoding="utf-8").read()
            check(f"{example} sim.log", comparable(log) == comparable(recorded))
        # A budget beyond the profile: the reference's log has no line about it, so ours says it on stderr.
        folder = f"{reference}/examples/{EXAMPLES[0]}"
        run = simulate(binary, reference, f"{folder}/config.json", DATASETS[EXAMPLES[0]], 40, out,
                       "--max-num-batched-tokens", "8192")
        check("look-ups outside the profile stand beside a compat log",
              "Outside of the profile" in run.stderr and "Outside of the profile" not in run.stdout)
        for name, cluster, ns in RUNS:
            simulate(binary, reference, f"{reference}/configs/cluster/{cluster}.json", "example_trace.jsonl", 10, out)
            check(name, open(out, "rb").read() == open(f"{reference}/outputs/{name}", "rb").read())
            check(f"{name} makespan", makespan(out) == ns)
        for cluster, ns in MAKESPANS:
            simulate(binary, reference, f"{reference}/configs/cluster/{cluster}.json", "example_trace.jsonl", 10, out)
            check(f"{cluster} makespan", makespan(out) == ns)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
