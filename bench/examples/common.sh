# What run.sh and validate.sh share: options, where things are, and the simulation of one example. Sourced by both.

usage() {
  cat <<USAGE
$NAME [<hardware>/<model>...] [options]     (no example named: all of them)
  --examples-root DIR   <hardware>/<model>/{config.json, vllm/, outputs/, validation/}   (bench/examples)
  --configs-root DIR    cluster/, model/, architecture/ of the simulator                  (configs)
  --profiles-root DIR   <hardware>/<model>/<variant>/tpN                                  (profiles)
  --workloads-root DIR  where a recorded dataset is looked up by its file name            (bench/examples/workloads)
  --output-root DIR     where outputs/ and validation/ go: beside vllm/ for our own examples, otherwise
                        bench/results/examples
  --mode compat|native  of the simulator, for examples with a config.json                 (compat)
USAGE
  [[ $NAME == validate.sh ]] && cat <<USAGE
  --arrival-anchor pickup|queued   (pickup)
  --rerun               simulate again, also where outputs/ holds a simulation
  --no-plots            no PNG figures
USAGE
  return 0
}

fail() { printf '%s: %s\n' "$NAME" "$*" >&2; exit 2; }

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BIN=${VLLM_BIN:-$ROOT/build/release/bin}
EXAMPLES_ROOT=$ROOT/bench/examples CONFIGS_ROOT=$ROOT/configs PROFILES_ROOT=$ROOT/profiles
WORKLOADS_ROOT=$ROOT/bench/examples/workloads OUTPUT_ROOT='' MODE=compat ANCHOR=pickup RERUN=0 PLOTS=1
EXAMPLES=()

parse_arguments() {
  while [[ $# -gt 0 ]]; do
    case $1 in
      --help | -h) usage; exit 0 ;;
      --rerun) RERUN=1; shift; continue ;;
      --no-plots) PLOTS=0; shift; continue ;;
      --examples-root | --configs-root | --profiles-root | --workloads-root | --output-root | --mode | --arrival-anchor)
        [[ $# -ge 2 ]] || fail "$1: a value is missing" ;;&
      --examples-root) EXAMPLES_ROOT=$2 ;;
      --configs-root) CONFIGS_ROOT=$2 ;;
      --profiles-root) PROFILES_ROOT=$2 ;;
      --workloads-root) WORKLOADS_ROOT=$2 ;;
      --output-root) OUTPUT_ROOT=$2 ;;
      --mode) MODE=$2 ;;
      --arrival-anchor) ANCHOR=$2 ;;
      --*) fail "unknown option $1; see --help" ;;
      *) EXAMPLES+=("${1%/}"); shift; continue ;;
    esac
    shift 2
  done
  [[ -d $EXAMPLES_ROOT ]] || fail "--examples-root $EXAMPLES_ROOT: there is no such folder"
  EXAMPLES_ROOT=$(cd "$EXAMPLES_ROOT" && pwd)
  # Somebody else's examples are read, never written to, unless it is asked for.
  if [[ -z $OUTPUT_ROOT ]]; then
    OUTPUT_ROOT=$EXAMPLES_ROOT
    [[ $EXAMPLES_ROOT == "$ROOT/bench/examples" ]] || OUTPUT_ROOT=$ROOT/bench/results/examples
  fi
  if [[ ${#EXAMPLES[@]} -eq 0 ]]; then
    local found
    for found in "$EXAMPLES_ROOT"/*/*/vllm/requests.jsonl; do
      [[ -e $found ]] || continue
      found=${found#"$EXAMPLES_ROOT"/}
      EXAMPLES+=("${found%/vllm/requests.jsonl}")
    done
    [[ ${#EXAMPLES[@]} -gt 0 ]] || fail "$EXAMPLES_ROOT: has no <hardware>/<model>/vllm/requests.jsonl"
  fi
  local example
  for example in "${EXAMPLES[@]}"; do
    [[ -e $EXAMPLES_ROOT/$example/vllm/requests.jsonl ]] ||
      fail "$example: $EXAMPLES_ROOT/$example/vllm/requests.jsonl is not there"
  done
}

need_program() { [[ -x $BIN/$1 ]] || fail "$BIN/$1 is not there; build it (scripts/demo does) or set VLLM_BIN"; }

# A value of meta.json: the first of the paths that is there and not null. Usage: meta FILE DEFAULT PATH...
meta() {
  python3 - "$@" <<'PY'
import json, sys
with open(sys.argv[1]) as file:
    root = json.load(file)
for path in sys.argv[3:]:
    value = root
    for key in path.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if value is not None and value != "None":
        print(str(value).lower() if isinstance(value, bool) else value)
        break
else:
    print(sys.argv[2])
PY
}

# The recorded dataset: as it is named, below the project, or by its file name below --workloads-root.
find_dataset() {
  local candidate
  for candidate in "$1" "$ROOT/$1" "$WORKLOADS_ROOT/${1##*/}"; do
    if [[ -f $candidate ]]; then printf '%s\n' "$candidate"; return 0; fi
  done
  return 1
}

# Simulates one example into $OUTPUT_ROOT/<example>/outputs: from its cluster and profiles, or, where there is no
# config.json, from a step bundle that is fitted to its own step log.
simulate_example() {
  local example=$1 dir=$EXAMPLES_ROOT/$1 out=$OUTPUT_ROOT/$1/outputs
  local record=$dir/vllm/meta.json dataset args
  need_program vllm-sim
  [[ -f $record ]] || { printf '%s: %s is not there\n' "$example" "$record" >&2; return 2; }
  local named
  named=$(meta "$record" "" dataset_path dataset)
  dataset=$(find_dataset "$named") || {
    printf '%s: its dataset %s is neither there nor below --workloads-root %s\n' "$example" "$named" "$WORKLOADS_ROOT" >&2
    return 2
  }
  mkdir -p "$out"
  args=(--dataset "$dataset" --num-reqs "$(meta "$record" 0 num_requests)"
    --max-num-seqs "$(meta "$record" 128 scheduler.max_num_seqs engine_kwargs.max_num_seqs)"
    --max-num-batched-tokens "$(meta "$record" 2048 scheduler.max_num_batched_tokens engine_kwargs.max_num_batched_tokens)"
    --output "$out/sim.csv")
  if [[ -f $dir/config.json ]]; then
    local block_size
    block_size=$(meta "$record" "${BLOCK_SIZE:-16}" kv_cache.block_size)
    args+=(--mode "$MODE" --cluster-config "$dir/config.json" --configs-root "$CONFIGS_ROOT" --profiles-root "$PROFILES_ROOT"
      --dtype "$(meta "$record" auto engine_kwargs.dtype)" --kv-cache-dtype "$(meta "$record" auto engine_kwargs.kv_cache_dtype)"
      --block-size "$block_size")
  else
    need_program vllm-profile
    "$BIN/vllm-profile" --from-steps "$dir/vllm" --output "$out/step-bundle" >"$out/fit.log" || {
      printf '%s: has no config.json, and no step bundle could be fitted to its recording\n' "$example" >&2
      return 1
    }
    args+=(--step-bundle "$out/step-bundle" --match-capacity "$dir/vllm"
      --scheduling-depth "$(meta "$record" 2 scheduler.scheduling_depth)")
  fi
  "$BIN/vllm-sim" "${args[@]}" >"$out/sim.log.partial" || {
    printf '%s: vllm-sim failed\n' "$example" >&2
    return 1
  }
  mv "$out/sim.log.partial" "$out/sim.log"
  printf '%s: simulated into %s\n' "$example" "$out"
}
