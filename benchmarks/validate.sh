#!/usr/bin/env bash
# How long `vllm-bench validate --no-plots` takes as a whole process on 300 requests. Makes a recording and a simulation
# of that size (SIM_CSV, SIM_LOG and BENCH_DIR name others), runs REPEATS (20) times on core CORE (0), and prints the times
# and, where perf is there, the functions that take most of it. Environment: BIN (build/release/bin).
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
BIN=${BIN:-$ROOT/build/release/bin}
REPEATS=${REPEATS:-20}
CORE=${CORE:-0}
WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

if [[ -z ${BENCH_DIR:-} ]]; then
  BENCH_DIR=$WORK/run SIM_CSV=$WORK/sim.csv SIM_LOG=$WORK/sim.log
  mkdir "$BENCH_DIR"
  python3 - "$BENCH_DIR" "$SIM_CSV" "$SIM_LOG" <<'PYTHON'
import json, random, sys
run, csv_path, log_path = sys.argv[1:]
rng = random.Random(1)
with open(run + "/requests.jsonl", "w") as requests, open(csv_path, "w", newline="") as csv:
    csv.write("instance id,request id,model,input,output,arrival,end_time,latency,queuing_delay,TTFT,TPOT,ITL\r\n")
    arrival = 0.0
    for i in range(300):
        arrival += rng.expovariate(10)
        output, ttft = rng.randrange(512, 1024), rng.uniform(0.1, 2)
        itl = [int(rng.uniform(20e6, 40e6)) for _ in range(output - 1)]
        last = arrival + ttft + sum(itl) / 1e9
        requests.write(json.dumps({"request_id": f"bench-{i}", "input_toks": 800, "output_toks": output, "arrival_time": 1.7e9 + arrival,
                                   "queued_ts": 500 + arrival, "scheduled_ts": 500 + arrival, "first_token_ts": 500 + arrival + ttft,
                                   "last_token_ts": 500 + last}) + "\n")
        latency = int(ttft * 1e9) + sum(itl)
        csv.write(f'0,{i},m,800,{output},{int(arrival * 1e9)},{int(arrival * 1e9) + latency},{latency},0,{int(ttft * 1e9)},'
                  f'{sum(itl) // (output - 1)},"{itl}"\r\n')
with open(run + "/timeseries.csv", "w") as file:
    file.write("t,prompt_throughput,gen_throughput,running,waiting,kv_cache_pct\r\n")
    for t in range(1, 101):
        file.write(f"{t}.0,4000.0,2000.0,100,3,50.0\r\n")
with open(log_path, "w") as file:
    for t in range(1, 101):
        file.write(f"[{t}.0s] Avg prompt throughput: 4000.0 tokens/s, Avg generation throughput: 2000.0 tokens/s\n"
                   "        ├─Running Instance[0]: 100 reqs, Waiting: 3 reqs, Total # 1 NPUs\n")
PYTHON
fi

printf 'machine: %s, core %s, load average %s; %s requests, sim.csv of %s bytes\n' \
  "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$CORE" "$(cut -d' ' -f1 /proc/loadavg)" \
  "$(wc -l < "$BENCH_DIR/requests.jsonl")" "$(wc -c < "$SIM_CSV")"
COMMAND=("$BIN/vllm-bench" validate --bench-dir "$BENCH_DIR" --sim-csv "$SIM_CSV" --sim-log "$SIM_LOG" --no-plots
  --output-subdir "$WORK/out" --force)
python3 - "$CORE" "$REPEATS" "${COMMAND[@]}" <<'PYTHON'
import os, statistics, subprocess, sys, time
os.sched_setaffinity(0, {int(sys.argv[1])})
wall, cpu = [], []
for _ in range(int(sys.argv[2])):
    begin, before = time.monotonic(), os.times()
    subprocess.run(sys.argv[3:], check=True, stdout=subprocess.DEVNULL)
    after = os.times()
    wall.append((time.monotonic() - begin) * 1000)
    cpu.append((after.children_user + after.children_system - before.children_user - before.children_system) * 1000)
print(f"whole process: wall {min(wall):.1f} / {statistics.median(wall):.1f} / {max(wall):.1f} ms (least, median, most), "
      f"CPU mean {statistics.mean(cpu):.1f} ms")
PYTHON
if command -v perf > /dev/null && perf record -q -F 20000 -o "$WORK/perf" "${COMMAND[@]}" > /dev/null 2>&1; then
  printf 'share of the CPU time, by library and by function:\n'
  perf report -i "$WORK/perf" --stdio --sort dso 2> /dev/null | grep -v '^#' | grep -v '^$' | head -8
  perf report -i "$WORK/perf" --stdio --sort symbol 2> /dev/null | grep -v '^#' | grep -v '^$' | cut -c1-110 | head -12
fi
