#!/usr/bin/env python3
"""Speed and memory of vllm-sim: whole processes, one at a time.

Usage: sim_bench.py BIN_DIR [--reference DIR] [--million] [--repeat N]
Needs the reference data (default: shared/reference beside the checkout). Prints a table for docs/simulator.md: seconds of the
fastest of N runs, peak resident memory, simulated seconds for a second.
"""
import argparse
import csv
import json
import os
import random
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def write_rows(path, count, rate, lengths):
    rng = random.Random(1)
    at = 0.0
    with open(path, "w") as f:
        for i in range(count):
            at += rng.expovariate(rate)
            tokens_in, tokens_out = lengths(rng)
            f.write(json.dumps({"input_toks": tokens_in, "output_toks": tokens_out, "arrival_time_ns": int(at * 1e9)}) + "\n")


def repeat_rows(source, path, times):
    """The rows several times, one span after the other."""
    rows = [json.loads(line) for line in open(source)]
    span = rows[-1]["arrival_time_ns"] + 100_000_000
    with open(path, "w") as f:
        for k in range(times):
            for row in rows:
                f.write(json.dumps(dict(row, arrival_time_ns=row["arrival_time_ns"] + k * span), separators=(",", ":")) + "\n")


def run(command):
    """Wall seconds, peak RSS in MiB."""
    started = time.perf_counter()
    pid = os.fork()
    if pid == 0:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        os.execv(command[0], command)
    _, status, usage = os.wait4(pid, 0)
    seconds = time.perf_counter() - started
    if status != 0:
        sys.exit(f"{' '.join(command)}: exit status {status}")
    return seconds, usage.ru_maxrss / 1024


def makespan(path):
    with open(path, newline="") as f:
        return max(int(row["end_time"]) for row in csv.DictReader(f)) / 1e9


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir")
    parser.add_argument("--reference", default=os.path.join(os.path.dirname(ROOT), "shared", "reference"))
    parser.add_argument("--million", action="store_true", help="also a million requests (minutes)")
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    ref = args.reference
    llama, qwen = f"{ref}/examples/RTXPRO6000/Llama-3.1-8B/config.json", f"{ref}/examples/RTXPRO6000/Qwen3-32B/config.json"
    clusters = f"{ref}/configs/cluster"
    with tempfile.TemporaryDirectory() as tmp:
        trace = f"{ref}/workloads/sharegpt-llama-3.1-8b-300-sps10.jsonl"
        qwen_trace = f"{ref}/workloads/sharegpt-qwen3-32b-300-sps10.jsonl"
        long_trace, million = f"{tmp}/3000.jsonl", f"{tmp}/1m.jsonl"
        repeat_rows(trace, long_trace, 10)
        cases = [("Llama-3.1-8B, tp 1, 300 requests", llama, trace, []), ("Qwen3-32B, tp 2, 300 requests", qwen, qwen_trace, []),
                 ("two instances, 300 requests", f"{clusters}/single_node_multi_instance.json", trace, []),
                 ("dp 2 x ep 2, 300 requests", f"{clusters}/single_node_moe_dp_ep_instance.json", qwen_trace, []),
                 ("pp 4, 300 requests", f"{clusters}/single_node_pp_instance.json", trace, []),
                 ("Llama-3.1-8B, tp 1, 3000 requests", llama, long_trace, [])]
        if args.million:
            write_rows(million, 1_000_000, 60, lambda rng: (128, 32))
            cases.append(("a million requests, 128 in, 32 out", llama, million, ["--no-itl"]))
        print("| case | mode | seconds | peak MiB | simulated s / s |\n|---|---|---|---|---|")
        for name, cluster, dataset, more in cases:
            for mode in ("compat", "native"):
                out = f"{tmp}/sim.csv"
                command = [os.path.join(args.bin_dir, "vllm-sim"), "--mode", mode, "--cluster-config", cluster, "--configs-root",
                           f"{ref}/configs", "--profiles-root", f"{ref}/perf", "--dataset", dataset, "--output", out] + more
                results = [run(command) for _ in range(1 if dataset == million else args.repeat)]
                seconds = min(s for s, _ in results)
                memory = max(m for _, m in results)
                print(f"| {name} | {mode} | {seconds:.3f} | {memory:.0f} | {makespan(out) / seconds:,.0f} |", flush=True)


if __name__ == "__main__":
    main()
