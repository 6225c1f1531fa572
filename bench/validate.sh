#!/usr/bin/env bash
# Compares a recorded run with a simulation of it (docs/validate.md):
#   bench/validate.sh <bench_dir> <sim_csv> <sim_log> [prefix]
# ARRIVAL_ANCHOR (pickup), OUTPUT_SUBDIR (validation), TITLE, WORKLOADS_ROOT, NO_PLOTS (0), FORCE (0) and LOG_LEVEL
# (INFO) are environment variables.
set -euo pipefail

if [[ $# -lt 3 || $# -gt 4 ]]; then
  printf 'validate.sh: takes <bench_dir> <sim_csv> <sim_log> [prefix], got %d arguments\n' $# >&2
  exit 2
fi

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VLLM_BENCH=${VLLM_BENCH:-$ROOT/build/release/bin/vllm-bench}
if [[ ! -x $VLLM_BENCH ]]; then
  printf 'validate.sh: %s is not there; build it (scripts/demo does) or set VLLM_BENCH\n' "$VLLM_BENCH" >&2
  exit 2
fi

args=(validate --bench-dir "$1" --sim-csv "$2" --sim-log "$3" --prefix "${4:-}"
  --arrival-anchor "${ARRIVAL_ANCHOR:-pickup}" --output-subdir "${OUTPUT_SUBDIR:-validation}" --log-level "${LOG_LEVEL:-INFO}")
[[ -n ${TITLE:-} ]] && args+=(--title "$TITLE")
[[ -n ${WORKLOADS_ROOT:-} ]] && args+=(--workloads-root "$WORKLOADS_ROOT")

# A switch is 0 or 1; anything else is a mistake, not "off".
switch() {
  case $2 in
    0) ;;
    1) args+=("$3") ;;
    *) printf 'validate.sh: %s=%s: accepted is 0 or 1\n' "$1" "$2" >&2; exit 2 ;;
  esac
}
switch NO_PLOTS "${NO_PLOTS:-0}" --no-plots
switch FORCE "${FORCE:-0}" --force

exec "$VLLM_BENCH" "${args[@]}"
