#!/usr/bin/env python3
"""What each mended fault changes: vllm-sim against the recordings, fault by fault.

Usage: sim_accuracy.py BIN_DIR [--reference DIR]
Prints, for each recorded example, a table of all 15 statistics for docs/simulator.md: the recording, the differences of compat mode,
of native mode, and of native mode with one fault kept at a time. Nothing is fitted. Anchor: queued.
"""
import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
EXAMPLES = [("RTXPRO6000/Llama-3.1-8B", "sharegpt-llama-3.1-8b-300-sps10.jsonl"),
            ("RTXPRO6000/Qwen3-32B", "sharegpt-qwen3-32b-300-sps10.jsonl")]
FAULTS = ["polls", "pool", "vocabulary", "skew-key", "skew-cap"]
STATS = [("Mean", None), ("P50", 50), ("P90", 90), ("P95", 95), ("P99", 99)]


def statistics(values):
    values = sorted(values)

    def percentile(q):
        at = q / 100 * (len(values) - 1)
        low = int(at)
        high = min(low + 1, len(values) - 1)
        return values[low] + (values[high] - values[low]) * (at - low)

    return [sum(values) / len(values) if q is None else percentile(q) for _, q in STATS]


def recorded(path):
    ttft, tpot, latency = [], [], []
    for line in open(path):
        row = json.loads(line)
        ttft.append((row["first_token_ts"] - row["queued_ts"]) * 1000)
        latency.append((row["last_token_ts"] - row["queued_ts"]) * 1000)
        if row["output_toks"] > 1:
            tpot.append((row["last_token_ts"] - row["first_token_ts"]) / (row["output_toks"] - 1) * 1000)
    return statistics(ttft) + statistics(tpot) + statistics(latency)


def simulated(binary, ref, example, dataset, more):
    with tempfile.TemporaryDirectory() as tmp:
        out = f"{tmp}/sim.csv"
        command = [binary, "--cluster-config", f"{ref}/examples/{example}/config.json", "--configs-root", f"{ref}/configs",
                   "--profiles-root", f"{ref}/perf", "--dataset", f"{ref}/workloads/{dataset}", "--output", out] + more
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(run.stderr)
        with open(out, newline="") as f:
            rows = list(csv.DictReader(f))
    columns = [[int(row[name]) / 1e6 for row in rows] for name in ("TTFT", "TPOT", "latency")]
    return sum((statistics(column) for column in columns), [])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir")
    parser.add_argument("--reference", default=os.path.join(os.path.dirname(ROOT), "shared", "reference"))
    args = parser.parse_args()
    binary = os.path.join(args.bin_dir, "vllm-sim")
    for example, dataset in EXAMPLES:
        real = recorded(f"{args.reference}/examples/{example}/vllm/requests.jsonl")
        runs = [("compat", ["--mode", "compat"]), ("native", [])]
        runs += [(f"with {fault}", ["--keep-faults", fault]) for fault in FAULTS]
        results = [(name, simulated(binary, args.reference, example, dataset, more)) for name, more in runs]
        print(f"\n{example}\n\n| statistic (ms) | recorded | " + " | ".join(name for name, _ in results) + " |")
        print("|---" * (2 + len(results)) + "|")
        for i, value in enumerate(real):
            name = f"{('TTFT', 'TPOT', 'latency')[i // 5]} {STATS[i % 5][0]}"
            cells = [f"{(result[i] - value) / value * 100:+.1f} %" for _, result in results]
            print(f"| {name} | {value:,.1f} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
