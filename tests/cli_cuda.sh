#!/bin/bash
# The program on a card: trains as the CPU does. With the libraries of fake_cuda/ the card is
# emulated, and bad days are had, too: what is wrong with a driver or a card is said in one line.
# Usage: cli_cuda.sh BRIM SOURCE_ROOT [FAKE_LIBRARIES]
set -u
brim=$1
digits=$2/examples/digits
fake=${3-}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
export BRIM_CUDA_LIBS=$fake BRIM_CACHE=${BRIM_CACHE-$dir/cache}

check() { # NAME COMMAND...: the command must succeed
    local name=$1
    shift
    if "$@" > "$dir/said" 2>&1; then echo "ok    $name"; else
        echo "FAIL  $name"
        tail -5 "$dir/said"
        failed=1
    fi
}

# NAME PATTERN [FAKE SETTINGS]: training on the card ends with status 1 and one line on stderr.
refuses() {
    rm -rf "$dir/x"
    BRIM_FAKE_CUDA=${3-} "$brim" train "${common[@]}" --quiet --epochs 1 --device cuda --out "$dir/x" \
        > "$dir/out" 2> "$dir/err"
    local got=$?
    if [ $got -eq 1 ] && [ "$(wc -l < "$dir/err")" -eq 1 ] && grep -Eq "^brim: train: .*$2" "$dir/err"; then
        echo "ok    $1"
    else
        echo "FAIL  $1: status $got, stderr:"
        head -5 "$dir/err"
        failed=1
    fi
}

common=(--data "$digits" --model resnet8 --image-size 8 --channels 1 --flip 0 --batch 32 --threads 1 --workers 1
    --lr 0.05 --log-every 1)
train() { # OUT OPTIONS...
    "$brim" train "${common[@]}" --quiet --out "$dir/$1" "${@:2}"
}

# Loss and top-1 of each step; NAME LIMIT: the largest difference between two runs' losses.
losses() { sed -n 's/.*"step":\([0-9]*\).*"loss":\([^,]*\),.*/\1 \2/p' "$dir/$1/metrics.jsonl"; }
close() {
    paste <(losses "$1") <(losses "$2") | awk -v limit="$3" '
        { d = $2 - $4; if (d < 0) d = -d; if ($1 != $3 || d > limit) bad = 1; n++ }
        END { exit bad || n < 4 }'
}

# On the same numbers as the CPU, in every precision, with everything that a step may hold.
for precision in fp32 bf16 fp16; do
    options=(--steps 4 --epochs 1 --precision $precision --micro-batch 16 --ema 0.9 --dropout 0.1 --clip 1
        --label-smoothing 0.1 --mixup 0.2)
    limit=0.02
    [ $precision = fp32 ] && limit=0.00001
    check "$precision on the CPU" train cpu-$precision "${options[@]}"
    check "$precision on the card" train cuda-$precision "${options[@]}" --device cuda
    check "the same losses in $precision" close cpu-$precision cuda-$precision $limit
done
check "the same again" train again --steps 4 --epochs 1 --precision fp16 --micro-batch 16 --ema 0.9 --dropout 0.1 \
    --clip 1 --label-smoothing 0.1 --mixup 0.2 --device cuda
check "same bits" cmp "$dir/again/state.safetensors" "$dir/cuda-fp16/state.safetensors"
check "AdamW on the CPU" train cpu-adamw --steps 4 --epochs 1 --optimizer adamw --lr 0.001
check "AdamW on the card" train cuda-adamw --steps 4 --epochs 1 --optimizer adamw --lr 0.001 --device cuda
check "the same losses with AdamW" close cpu-adamw cuda-adamw 0.00001

# What was trained here goes on there, and answers alike.
check "go on with a run of the card" train cuda-adamw --steps 6 --epochs 1 --optimizer adamw --lr 0.001 --device cuda --resume
check "eval on the card" "$brim" eval --data "$digits" --split val --weights "$dir/cuda-fp32/last.safetensors" --device cuda --json
cp "$dir/said" "$dir/eval-cuda"
check "eval on the CPU" "$brim" eval --data "$digits" --split val --weights "$dir/cuda-fp32/last.safetensors" --json
number() { sed 's/.*"loss":\([0-9.]*\).*/\1/' "$1"; }
check "the same loss" awk -v a="$(number "$dir/said")" -v b="$(number "$dir/eval-cuda")" \
    'BEGIN { d = a - b; exit !(d < 0.0001 && d > -0.0001 && a > 0) }'
check "predict on the card" "$brim" predict --weights "$dir/cuda-fp32/last.safetensors" --device cuda "$digits/samples"

[ -n "$fake" ] || exit $failed

# Bad days.
BRIM_CUDA_LIBS=/nowhere refuses "no driver" "NVIDIA's driver .*/nowhere.*install"
mkdir "$dir/driver-only"
cp "$fake"/libcuda.so.1 "$dir/driver-only"
BRIM_CUDA_LIBS=$dir/driver-only refuses "no compiler" "NVRTC .*pip install"
refuses "no card" "no NVIDIA card is visible" "cards=0"
refuses "an old driver" "for CUDA 11.4, .*525 or later" "driver=11040"
refuses "an old card" "compute capability 6.1, .*7.5" "cc=61"
refuses "a busy card" "another process has the card" "busy=1"
refuses "too little memory on the card" "2.14 MiB are needed .* 97.7 KiB .*process 1\) holds 5.00 GiB .*--memory 0MiB" "mem=100000"
refuses "a card that fails while computing" "failed while computing.*Xid" "lost=100"
check "a run before the card fails" train lost --epochs 1 --steps 8 --device cuda
BRIM_FAKE_CUDA="lost=700" "$brim" train "${common[@]}" --quiet --out "$dir/lost" --epochs 1 --steps 40 --device cuda \
    --resume > "$dir/out" 2> "$dir/err"
check "the card fails later" grep -q "failed while computing" "$dir/err"
check "the last checkpoint stands" train lost --epochs 1 --steps 9 --resume --device cuda
exit $failed
