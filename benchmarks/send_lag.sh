#!/usr/bin/env bash
# How punctual the bench itself is: 10,000 requests a second through the null executor, everything on one core. Prints
# the send lag of each repeat and exits 1 if none of them keeps P99 <= 1 ms. Environment: RATE (10000), SECONDS_LONG
# (3), CORE (0), REPEATS (3), BIN (build/release/bin).
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
RATE=${RATE:-10000}
SECONDS_LONG=${SECONDS_LONG:-3}
CORE=${CORE:-0}
REPEATS=${REPEATS:-3}
BIN=${BIN:-$ROOT/build/release/bin}

WORK=$(mktemp -d)
trap 'rm -rf "$WORK"' EXIT

# A model of which only the configuration is ever read.
cat > "$WORK/config.json" <<'JSON'
{"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 32000, "hidden_size": 64,
 "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "max_position_embeddings": 2048, "torch_dtype": "bfloat16"}
JSON

"$BIN/vllm-workload" --output "$WORK/workload.jsonl" --num-reqs "$((RATE * SECONDS_LONG))" --rate "$RATE" \
  --vocab-size 32000 --input-len-min 16 --input-len-max 64 --output-len-min 1 --output-len-max 4 --log-level WARNING > /dev/null

printf 'machine: %s, core %s; %s requests/s for %s s, null executor\n' \
  "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -1)" "$CORE" "$RATE" "$SECONDS_LONG"
kept=1
for ((i = 1; i <= REPEATS; ++i)); do
  taskset -c "$CORE" "$BIN/vllm-bench" run --model "$WORK" --load-format dummy --null-executor --num-blocks 4096 \
    --dataset "$WORK/workload.jsonl" --output-dir "$WORK/run-$i" --no-plots --log-level WARNING > /dev/null
  python3 - "$WORK/run-$i/meta.json" "$i" <<'PYTHON' && kept=0
import json, sys
meta = json.load(open(sys.argv[1]))
lag = meta["send_lag"]
print(f"run {sys.argv[2]}: send lag P50 {lag['p50_ms']:.3f} ms, P99 {lag['p99_ms']:.3f} ms, max {lag['max_ms']:.3f} ms; "
      f"offered {meta['offered_request_rate']:.0f}/s, achieved {meta['achieved_request_rate']:.0f}/s")
sys.exit(0 if lag["p99_ms"] <= 1.0 else 1)
PYTHON
done
exit "$kept"
