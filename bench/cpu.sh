#!/bin/bash
# Training steps on the CPU, Brim beside PyTorch eager and compiled, taking turns in one run.
#
#     bench/cpu.sh [-p PYTHON] [-t THREADS] [-r ROUNDS] [-s SECONDS] [-b TRAIN_STEP] [WORK:PRECISION...]
#
# PYTHON is one that has PyTorch (bench/peers/install.sh makes it). Prints one JSON line for each
# WORK:PRECISION; a ratio above 1 says how many times faster Brim is. TRAIN_STEP: the program, built
# by ninja -C build bench/train_step.
set -euo pipefail
cd "$(dirname "$0")/.."
python=python3 threads=$(nproc) rounds=7 seconds=2 program=build/bench/train_step
while getopts p:t:r:s:b: opt; do
    case $opt in
    p) python=$OPTARG ;;
    t) threads=$OPTARG ;;
    r) rounds=$OPTARG ;;
    s) seconds=$OPTARG ;;
    b) program=$OPTARG ;;
    *) sed -n '2,8s/^# \{0,1\}//p' "$0" >&2; exit 2 ;;
    esac
done
shift $((OPTIND - 1))
[ $# -gt 0 ] || set -- {mlp,resnet18-32,resnet18-224}:{fp32,bf16}
# A thread that waits must not spin through the other program's turn.
export OMP_NUM_THREADS=$threads GOMP_SPINCOUNT=20000
lscpu | sed -n 's/^Model name: */# /p'
for job; do
    work=${job%:*} precision=${job#*:}
    peer="$python bench/peers/cpu_train.py --serve --work $work --precision $precision --threads $threads"
    printf '{"work": "%s", "precision": "%s", "threads": %d, "result": ' "$work" "$precision" "$threads"
    "$python" bench/take_turns.py --rounds "$rounds" --seconds "$seconds" \
        "brim=$program $work $precision cpu $threads" \
        "eager=$peer --mode eager" "compile=$peer --mode compile" | tr -d '\n'
    echo '}'
done
