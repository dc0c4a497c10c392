#!/bin/bash
# The tests that need a card: every operator's implementations against the reference, trainings
# against PyTorch's numbers and against the CPU, then the operators under compute-sanitizer. Prints
# one table in Markdown, for docs/gpu-check.md; the logs are left in BUILD/gpu-check.
# Usage: test-gpu.sh [BUILD]. BUILD holds brim and tests/ (a build folder, or a copy of one).
set -uo pipefail
cd "$(dirname "$0")/.."
build=$(cd "${1:-build}" && pwd)
out=$build/gpu-check
mkdir -p "$out"
export BRIM_TEST_DEVICE=cuda BRIM_GOLDEN=${BRIM_GOLDEN-$PWD/tests/golden}
failed=0

card=$(nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2> /dev/null | head -1)
[ -n "$card" ] || { echo "test-gpu: no NVIDIA card is here (nvidia-smi lists none)" >&2; exit 1; }
commit=$(git log -1 --format=%h 2> /dev/null || cat "$build/commit" 2> /dev/null || echo unknown)
echo "Card: $card. Commit: $commit."
echo
echo "| check | result | seconds |"
echo "| --- | --- | --- |"

row() { # NAME LOG COMMAND...: one line of the table
    local name=$1 log=$out/$2 start=$SECONDS result=passed
    "${@:3}" > "$log" 2>&1 || { result="**FAILED**, see $2"; failed=1; }
    local tests
    tests=$(grep -c '^\[       OK \]' "$log" || true)
    [ "$tests" = 0 ] || result="$result ($tests tests)"
    echo "| $name | $result | $((SECONDS - start)) |"
}

row "every operator against the reference" operators.log "$build/tests/test_impl"
row "ResNet-20, ResNet-50 and optimizers against PyTorch" golden.log "$build/tests/test_golden"
row "trainings against the CPU" trainings.log tests/cli_cuda.sh "$build/brim" "$PWD"
if command -v compute-sanitizer > /dev/null; then
    for tool in memcheck racecheck initcheck; do
        row "operators under compute-sanitizer $tool" $tool.log compute-sanitizer --tool $tool \
            --error-exitcode 9 "$build/tests/test_impl"
    done
else
    echo "| compute-sanitizer | not installed here | |"
fi
exit $failed
