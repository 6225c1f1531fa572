# Shared by the scripts of this folder; sourced, never run.
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
MODEL_FILE="$ROOT/models/SmolLM2-135M-Instruct.Q4_1.gguf"
CACHE_DIR="$ROOT/.cache"
JOBS=$(nproc)

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }
fail() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# stage NAME COMMAND...: runs it, remembers the seconds for stage_table, and lets a failure through.
STAGE_NAMES=()
STAGE_SECONDS=()
stage() {
  local name=$1 begin=$SECONDS rc=0
  shift
  say "$name"
  "$@" || rc=$?
  STAGE_NAMES+=("$name")
  STAGE_SECONDS+=($((SECONDS - begin)))
  if [ "$rc" -ne 0 ]; then
    stage_table
    fail "stage '$name' failed (exit code $rc)"
  fi
}

stage_table() {
  printf '\n%-44s %8s\n' "where the time went" "min:s"
  local i total=0
  for i in "${!STAGE_NAMES[@]}"; do
    printf '%-44s %5d:%02d\n' "${STAGE_NAMES[$i]}" $((STAGE_SECONDS[i] / 60)) $((STAGE_SECONDS[i] % 60))
    total=$((total + STAGE_SECONDS[i]))
  done
  printf '%-44s %5d:%02d\n' "total" $((total / 60)) $((total % 60))
}

build() { # PRESET [TARGET...]
  local preset=$1
  shift
  cmake --preset "$preset" -S "$ROOT" >"$CACHE_DIR/configure-$preset.log" 2>&1 ||
    { cat "$CACHE_DIR/configure-$preset.log"; return 1; }
  cmake --build "$ROOT/build/$preset" -j "$JOBS" ${1:+--target "$@"}
}
