#!/usr/bin/env bash
# Compares the examples' recordings with their simulations; one that has none yet is simulated first
# (docs/validate.md). validate.sh --help shows the options.
set -euo pipefail
NAME=validate.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
parse_arguments "$@"
need_program vllm-bench

# The simulation that was made last, or the one that came with the example.
validate_example() {
  local example=$1 dir=$EXAMPLES_ROOT/$1 out=$OUTPUT_ROOT/$1 sim args
  sim=$out/outputs
  if [[ $RERUN == 1 ]] || [[ ! -f $sim/sim.csv && ! -f $dir/outputs/sim.csv ]]; then
    simulate_example "$example" || return 1
  fi
  [[ -f $sim/sim.csv ]] || sim=$dir/outputs
  mkdir -p "$out/validation"
  args=(validate --bench-dir "$dir/vllm" --sim-csv "$sim/sim.csv" --sim-log "$sim/sim.log"
    --output-subdir "$(cd "$out/validation" && pwd)" --title "${example##*/} on ${example%%/*}"
    --workloads-root "$WORKLOADS_ROOT" --arrival-anchor "$ANCHOR")
  [[ $PLOTS == 1 ]] || args+=(--no-plots)
  printf '== %s\n' "$example"
  "$BIN/vllm-bench" "${args[@]}"
}

failed=0
for example in "${EXAMPLES[@]}"; do
  validate_example "$example" || failed=1
done
exit $failed
