#!/usr/bin/env bash
# Replays a workload through a model; every knob is an environment variable with a default (docs/bench.md).
set -euo pipefail

if [[ $# -gt 0 ]]; then
  printf 'bench.sh: takes no arguments, got %s; every knob is an environment variable, see docs/bench.md\n' "$1" >&2
  exit 2
fi

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Defaults are written relative to where one stands, so that meta.json says the same on every machine.
from_root() { realpath --relative-to="$PWD" "$ROOT/$1"; }

MODEL=${MODEL:-$(from_root models/SmolLM2-135M-Instruct.Q4_1.gguf)}
DATASET=${DATASET:-$(from_root bench/examples/workloads/smollm2-64.jsonl)}
RUN_ID=${RUN_ID:-$(date +%Y%m%d-%H%M%S)}
OUTPUT_DIR=${OUTPUT_DIR:-$(from_root "bench/results/$RUN_ID")}
TP=${TP:-1}
DP=${DP:-1}
EXPERT_PARALLEL=${EXPERT_PARALLEL:-0}
DISABLE_CUSTOM_ALL_REDUCE=${DISABLE_CUSTOM_ALL_REDUCE:-0}
MAX_NUM_SEQS=${MAX_NUM_SEQS:-128}
MAX_NUM_BATCHED_TOKENS=${MAX_NUM_BATCHED_TOKENS:-2048}
MAX_MODEL_LEN=${MAX_MODEL_LEN:-}
DTYPE=${DTYPE:-bfloat16}
KV_CACHE_DTYPE=${KV_CACHE_DTYPE:-auto}
SEED=${SEED:-42}
LOAD_FORMAT=${LOAD_FORMAT:-auto}
RESOLVE_ONLY=${RESOLVE_ONLY:-0}
SKIP_TOKENIZER_INIT=${SKIP_TOKENIZER_INIT:-0}
ENFORCE_EAGER=${ENFORCE_EAGER:-0}
TICK_SECONDS=${TICK_SECONDS:-1.0}
NUM_REQS=${NUM_REQS:-0}
LOG_LEVEL=${LOG_LEVEL:-INFO}
# Where the program is, if it was built elsewhere.
VLLM_BENCH=${VLLM_BENCH:-$ROOT/build/release/bin/vllm-bench}

if [[ ! -x $VLLM_BENCH ]]; then
  printf 'bench.sh: %s is not there; build it (scripts/demo does) or set VLLM_BENCH\n' "$VLLM_BENCH" >&2
  exit 2
fi

args=(run --model "$MODEL" --dataset "$DATASET" --output-dir "$OUTPUT_DIR"
  --tensor-parallel-size "$TP" --data-parallel-size "$DP"
  --max-num-seqs "$MAX_NUM_SEQS" --max-num-batched-tokens "$MAX_NUM_BATCHED_TOKENS"
  --dtype "$DTYPE" --kv-cache-dtype "$KV_CACHE_DTYPE" --seed "$SEED" --load-format "$LOAD_FORMAT"
  --tick-seconds "$TICK_SECONDS" --num-reqs "$NUM_REQS" --log-level "$LOG_LEVEL")
[[ -n $MAX_MODEL_LEN ]] && args+=(--max-model-len "$MAX_MODEL_LEN")

# A switch is 0 or 1; anything else is a mistake, not "off".
switch() {
  case $2 in
    0) ;;
    1) args+=("$3") ;;
    *) printf 'bench.sh: %s=%s: accepted is 0 or 1\n' "$1" "$2" >&2; exit 2 ;;
  esac
}
switch EXPERT_PARALLEL "$EXPERT_PARALLEL" --enable-expert-parallel
switch DISABLE_CUSTOM_ALL_REDUCE "$DISABLE_CUSTOM_ALL_REDUCE" --disable-custom-all-reduce
switch RESOLVE_ONLY "$RESOLVE_ONLY" --resolve-only
switch SKIP_TOKENIZER_INIT "$SKIP_TOKENIZER_INIT" --skip-tokenizer-init
switch ENFORCE_EAGER "$ENFORCE_EAGER" --enforce-eager

exec "$VLLM_BENCH" "${args[@]}"
