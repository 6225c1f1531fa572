#!/usr/bin/env bash
# Simulates the examples again, with what their recordings say about dataset, limits and types (docs/validate.md).
# run.sh --help shows the options.
set -euo pipefail
NAME=run.sh
. "$(dirname "${BASH_SOURCE[0]}")/common.sh"
parse_arguments "$@"

failed=0
for example in "${EXAMPLES[@]}"; do
  simulate_example "$example" || failed=1
done
exit $failed
