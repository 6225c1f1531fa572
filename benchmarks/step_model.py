#!/usr/bin/env python3
"""The tables of docs/step-model.md: a bundle fitted on vLLM's step recordings, and what it predicts beside what was recorded.

Usage: step_model.py BIN_DIR SHARED_DIR [SEEDS]. SHARED_DIR holds reference/vllm-0.26-h200 and reference/workloads.
"""
import json
import os
import subprocess
import sys
import tempfile

BIN, SHARED = sys.argv[1], sys.argv[2]
SEEDS = sys.argv[3] if len(sys.argv) > 3 else "20"
RECORDINGS = os.path.join(SHARED, "reference/vllm-0.26-h200/Llama-3.1-8B-")
WORKLOAD = os.path.join(SHARED, "reference/workloads/sharegpt-llama-3.1-8b-300-sps10.jsonl")
CLEAN = ["replay-clean"] + [f"replay-clean-{i}" for i in range(2, 6)]
OFFLINE = ["offline-clean", "offline-clean-2"]
NAMES = [f"{metric} {statistic}" for metric in ("TTFT", "TPOT", "Latency") for statistic in ("Mean", "Median", "P90", "P95", "P99")]


def percentile(values, q):
    at = q / 100 * (len(values) - 1)
    low = int(at)
    high = min(low + 1, len(values) - 1)
    return values[low] + (at - low) * (values[high] - values[low])


def statistics(name, anchor):
    """The 15 statistics of a recording, in milliseconds."""
    with open(f"{RECORDINGS}{name}/requests.jsonl") as file:
        rows = [json.loads(line) for line in file]
    offset = min(r["queued_ts"] - r["arrival_time"] for r in rows)
    begin = [r["queued_ts"] if anchor == "queued" else r["arrival_time"] + offset for r in rows]
    values = [[(r["first_token_ts"] - b) * 1e3 for r, b in zip(rows, begin)],
              [(r["last_token_ts"] - r["first_token_ts"]) * 1e3 / (r["output_toks"] - 1) for r in rows if r["output_toks"] > 1],
              [(r["last_token_ts"] - b) * 1e3 for r, b in zip(rows, begin)]]
    out = []
    for v in values:
        v.sort()
        out += [sum(v) / len(v)] + [percentile(v, q) for q in (50, 90, 95, 99)]
    return out


def simulated(bundle, *args):
    """Mean and standard deviation of each statistic over the seeds, for both anchors."""
    done = subprocess.run([os.path.join(BIN, "vllm-sim"), "--step-bundle", bundle, "--dataset", WORKLOAD, "--max-num-seqs", "128",
                           "--max-num-batched-tokens", "2048", "--scheduling-depth", "2", "--seed", "0", "--seeds", SEEDS, *args],
                          capture_output=True, text=True, check=True)
    table = {}
    for line in done.stdout.splitlines():
        for name in NAMES:
            if line.strip().startswith(name + " "):
                cells = line.strip()[len(name):].replace("%", "").split()
                table[name] = [float(c) for c in cells]
    return {"pickup": [(table[n][0], table[n][1]) for n in NAMES], "queued": [(table[n][3], table[n][4]) for n in NAMES]}


def compare(title, recordings, sim):
    for anchor in ("pickup", "queued"):
        runs = [statistics(name, anchor) for name in recordings]
        print(f"\n{title}, anchor {anchor}: {len(runs)} recordings, {SEEDS} seeds\n")
        print("| statistic | recorded | sd % | simulated | sd % | diff % | beyond 2 sd |")
        print("|---|---|---|---|---|---|---|")
        for i, name in enumerate(NAMES):
            mean = sum(r[i] for r in runs) / len(runs)
            sd = (sum((r[i] - mean) ** 2 for r in runs) / max(1, len(runs) - 1)) ** 0.5
            value, spread = sim[anchor][i]
            outside = "yes" if len(runs) > 2 and abs(value - mean) > 2 * sd else "no" if len(runs) > 2 else "?"
            print(f"| {name} | {mean:.2f} | {100 * sd / mean:.1f} | {value:.2f} | {100 * spread / value:.1f} | "
                  f"{100 * (value / mean - 1):+.1f} | {outside} |")


def main():
    with tempfile.TemporaryDirectory() as folder:
        bundle = os.path.join(folder, "bundle")
        fit = [os.path.join(BIN, "vllm-profile"), "--from-steps", RECORDINGS + "replay-steps", RECORDINGS + "offline-steps"]
        done = subprocess.run(fit + ["--clean", *[RECORDINGS + n for n in CLEAN + OFFLINE], "--output", bundle],
                              capture_output=True, text=True, check=True)
        print(done.stdout)
        capacity = ["--match-capacity", RECORDINGS + "replay-clean"]
        compare("Clean replays", CLEAN, simulated(bundle, *capacity))
        compare("Clean, all at once", OFFLINE, simulated(bundle, *capacity, "--speed", "inf"))
        for name in ("replay-steps", "offline-steps"):
            speed = ["--speed", "inf"] if name.startswith("offline") else []
            own = simulated(bundle, "--match-capacity", RECORDINGS + name, "--host-scale-from", RECORDINGS + name, *speed)
            compare(f"{name}, host scaled from itself", [name], own)


main()
