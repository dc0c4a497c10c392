#!/bin/bash
# The program from outside: trains on the digits, is killed and resumed, and meets broken files.
# Usage: cli_train.sh BRIM SOURCE_ROOT
set -u
brim=$1
digits=$2/examples/digits
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

check() { # NAME COMMAND...: the command must succeed
    local name=$1 out=
    shift
    [ "$1" = grep ] || [ "$1" = test ] || [ "$1" = cmp ] || out=said
    if "$@" > "$dir/${out:-out}" 2>&1; then echo "ok    $name"; else
        echo "FAIL  $name"
        head -5 "$dir/${out:-out}"
        failed=1
    fi
}

# NAME STATUS PATTERN COMMAND...: ends with STATUS and exactly one line on stderr, which matches.
refuses() {
    local name=$1 want=$2 pattern=$3
    shift 3
    "$@" > "$dir/out" 2> "$dir/err" < /dev/null
    local got=$?
    if [ $got -eq "$want" ] && [ "$(wc -l < "$dir/err")" -eq 1 ] && grep -Eq "^brim: .*$pattern" "$dir/err"; then
        echo "ok    $name"
    else
        echo "FAIL  $name: status $got (wants $want), stderr:"
        head -5 "$dir/err"
        failed=1
    fi
}

common=(--data "$digits" --model resnet8 --image-size 8 --channels 1 --flip 0 --batch 64 --threads 1 --workers 1
    --lr 0.1)
fp16=(--epochs 12 --precision fp16 --micro-batch 32 --ema 0.9 --dropout 0.1)

train() { # OUT OPTIONS...
    local out=$1
    shift
    "$brim" train "${common[@]}" --out "$dir/$out" "$@"
}

# Same bits: straight, resumed after an epoch's end was cut off by SIGKILL, resumed after Ctrl-C.
check "train straight" train straight "${fp16[@]}"
check "train again" train again "${fp16[@]}"
check "same bits from run to run" cmp "$dir/straight/last.safetensors" "$dir/again/last.safetensors"
check "same state from run to run" cmp "$dir/straight/state.safetensors" "$dir/again/state.safetensors"

"$brim" train "${common[@]}" --out "$dir/killed" "${fp16[@]}" --save-every 5 > /dev/null 2>&1 &
victim=$!
for ((i = 0; i < 400; i++)); do
    [ -e "$dir/killed/state.safetensors" ] && break
    sleep 0.02
done
sleep 0.0$((RANDOM % 10))
kill -9 $victim 2> /dev/null
wait $victim 2> /dev/null
check "resume after kill -9" train killed "${fp16[@]}" \
    --save-every 5 --resume
check "same bits after kill -9" cmp "$dir/straight/last.safetensors" "$dir/killed/last.safetensors"

"$brim" train "${common[@]}" --out "$dir/stopped" "${fp16[@]}" > "$dir/stopped.out" 2>&1 &
victim=$!
for ((i = 0; i < 400; i++)); do
    grep -q memory "$dir/stopped.out" && break
    sleep 0.02
done
sleep 0.05
kill -INT $victim 2> /dev/null
wait $victim
check "Ctrl-C says how to go on" grep -q -- "--resume" "$dir/stopped.out"
check "resume after Ctrl-C" train stopped "${fp16[@]}" --resume
check "same bits after Ctrl-C" cmp "$dir/straight/last.safetensors" "$dir/stopped/last.safetensors"
check "metrics have one line an update logged" test "$(grep -c '"lr"' "$dir/killed/metrics.jsonl")" -eq \
    "$(grep -c '"lr"' "$dir/straight/metrics.jsonl")"

# A limit of steps inside an epoch (23 updates): a higher one goes on there.
steps=(--schedule constant --epochs 12 --dropout 0.1)
check "30 steps" train whole "${steps[@]}" --steps 30
check "10 steps" train parts "${steps[@]}" --steps 10
cp -r "$dir/parts" "$dir/odd-epoch"
LC_ALL=C sed -i 's/"brim.position":"10 0 /"brim.position":"10 1 /' "$dir/odd-epoch/state.safetensors"
check "an update in another epoch than its number says" timeout 60 "$brim" train "${common[@]}" \
    --out "$dir/odd-epoch" "${steps[@]}" --steps 30 --resume
check "20 more" train parts "${steps[@]}" --steps 30 --resume
check "same bits in parts" cmp "$dir/whole/last.safetensors" "$dir/parts/last.safetensors"

# The configuration that was saved starts the same run.
check "train from config.yaml" "$brim" train --config "$dir/straight/config.yaml" --out "$dir/config"
check "same bits from config.yaml" cmp "$dir/straight/last.safetensors" "$dir/config/last.safetensors"

check "eval" "$brim" eval --data "$digits" --split val --weights "$dir/straight/best.safetensors" --json
check "eval says numbers" grep -q '"top1":0\.' "$dir/said"
check "predict" "$brim" predict --weights "$dir/straight/best.safetensors" --json "$digits/samples"
check "predict names ten files" test "$(grep -c '"probability"' "$dir/said")" -eq 10
check "plan" "$brim" plan --model resnet18 --image-size 64 --batch 256 --json
need=$(sed 's/.*"total_bytes":\([0-9]*\).*/\1/' "$dir/said")
check "plan under a cap" "$brim" plan --model resnet18 --image-size 64 --batch 256 --memory $((need - 50000000))
check "the cap splits the batch" grep -q "micro-batches" "$dir/said"
check "models" "$brim" models resnet50
check "start from weights" train init --epochs 1 --init "$dir/straight/last.safetensors"

# 17 images in batches of 8: one is left, too few for batch norm at 1x1.
for i in {0..16}; do
    printf "\\x0$((i % 10))"
    head -c 3072 /dev/urandom
done > "$dir/odd.bin"
check "a last batch too small for batch norm" "$brim" train --data "$dir/odd.bin" --model resnet18 \
    --image-size 32 --batch 8 --epochs 2 --val-split 0 --out "$dir/odd"
check "it says what it leaves out" grep -q "leaves out 1 of the 17 images" "$dir/said"

# What is wrong is said in one line, with the right status.
refuses "unknown option" 2 "epoch" "$brim" train --data "$digits" --out "$dir/x" --epoch 3
refuses "not a number" 2 "epochs" "$brim" train --data "$digits" --out "$dir/x" --epochs ten
refuses "no data" 1 "nowhere" "$brim" train --data "$dir/nowhere" --out "$dir/x"
refuses "unknown model" 1 "resnet19" "$brim" train --data "$digits" --model resnet19 --out "$dir/x"
refuses "a run is there already" 2 "resume" train straight --epochs 1
refuses "nothing to resume" 1 "nothing to resume" train fresh --epochs 1 --resume
refuses "other options on resume" 2 "batch" train straight --epochs 12 --batch 32 --resume
refuses "too little memory" 1 "memory" train small --epochs 1 --memory 10MiB
refuses "a loss that is no number" 1 "nothing is saved yet" train wild --quiet --epochs 1 --model mlp --lr 1000000
refuses "the same after a checkpoint" 1 "checkpoint is intact" train wilder --quiet --epochs 1 --model mlp --lr 1000000 --save-every 1
refuses "freeze nothing" 1 "freeze" train frozen --epochs 1 --freeze "nothing.*"
head -c 5000 "$dir/straight/last.safetensors" > "$dir/cut.safetensors"
refuses "weights cut off" 1 "cut.safetensors" "$brim" eval --data "$digits" --weights "$dir/cut.safetensors"
refuses "weights of another model" 1 "conv1" train other --epochs 1 --model resnet18 --image-size 32 --init "$dir/straight/last.safetensors"
sed 's/"brim.std":"[0-9.]/"brim.std":"x/' "$dir/straight/best.safetensors" > "$dir/std.safetensors"
refuses "damaged normalisation" 1 "brim.std" "$brim" eval --data "$digits" --weights "$dir/std.safetensors"
refuses "pixels to 255" 2 "255" train scaled --epochs 1 --mean 120,110,100 --std 50,50,50
mkdir -p "$dir/none" "$dir/walk"
cp "$digits/samples/1.png" "$dir/walk"
ln -s .. "$dir/walk/up"
refuses "an empty folder" 1 "empty folder" "$brim" predict --weights "$dir/straight/best.safetensors" "$dir/none"
check "predict" "$brim" predict --weights "$dir/straight/best.safetensors" "$dir/walk"
check "predict follows no loop" test "$(wc -l < "$dir/said")" -eq 1
refuses "no image" 1 "README" "$brim" predict --weights "$dir/straight/best.safetensors" "$digits/README.md"
cp -r "$dir/straight" "$dir/locked"
head -c 5000 "$dir/straight/state.safetensors" > "$dir/locked/state.safetensors"
mkdir -p "$dir/junk/0" "$dir/junk/1"
head -c 500 /dev/urandom | tee "$dir/junk/0/a.png" > "$dir/junk/1/b.png"
"$brim" eval --data "$dir/junk" --weights "$dir/straight/best.safetensors" > "$dir/said" 2>&1
check "images all damaged: status 1" test $? -eq 1
check "images all damaged: said" grep -q "none of its 2 images" "$dir/said"
refuses "state cut off" 1 "state.safetensors" train locked --resume "${fp16[@]}"

# A disk that is full, and one that is read-only: where this user may mount.
if unshare -rm true 2> /dev/null; then
    on_small_disk() { # OPTIONS OF MOUNT, then a command
        mkdir -p "$dir/disk"
        unshare -rm bash -c 'mount -t tmpfs -o "$1" none "$2" && shift 2 && exec "$@"' - "$1" "$dir/disk" "${@:2}"
    }
    refuses "a full disk" 1 "disk is full" on_small_disk size=300k \
        "$brim" train "${common[@]}" --quiet --epochs 1 --out "$dir/disk/run"
    refuses "a read-only disk" 1 "read-only" on_small_disk ro \
        "$brim" train "${common[@]}" --quiet --epochs 1 --out "$dir/disk/run"
fi

exit $failed
