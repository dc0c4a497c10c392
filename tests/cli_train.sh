#!/bin/bash
# The program from outside: trains on the digits, is killed and resumed, and meets broken files.
# Usage: cli_train.sh BRIM SOURCE_ROOT
set -u
brim=$1
digits=$2/examples/digits
. "$(dirname "$0")/cli_common.sh"

sum_of() { # FILE TENSOR: a checksum of its bytes
    local at head
    head=$(od -An -tu8 -N8 "$1" | tr -d ' ')
    at=($(head -c $((head + 8)) "$1" | tail -c +9 | grep -ao "\"$2\":{[^}]*}" | head -1 |
        sed 's/.*"data_offsets":\[\([0-9]*\),\([0-9]*\)\].*/\1 \2/'))
    tail -c +$((head + 9 + at[0])) "$1" | head -c $((at[1] - at[0])) | sha256sum
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

# Struck five times in a row: first somewhere behind its first checkpoint, then wherever it then is,
# be it reading, computing or in the middle of a checkpoint.
struck=0 resume=
for ((k = 0; k < 5; k++)); do
    "$brim" train "${common[@]}" --out "$dir/struck" "${fp16[@]}" --save-every 2 $resume > /dev/null 2>&1 &
    victim=$!
    for ((i = 0; i < 400; i++)); do
        [ -e "$dir/struck/state.safetensors" ] && break
        sleep 0.02
    done
    resume=--resume
    sleep 0.$(printf %03d $((RANDOM % 120 + 50)))
    kill -9 $victim 2> /dev/null
    wait $victim 2> /dev/null
    [ $? -eq 137 ] && struck=$((struck + 1))
done
check "killed five times" test $struck -eq 5
check "resume after all that" train struck "${fp16[@]}" --resume
check "the same bits" cmp "$dir/straight/last.safetensors" "$dir/struck/last.safetensors"
check "the same state" cmp "$dir/straight/state.safetensors" "$dir/struck/state.safetensors"

for out in two also-two; do check "train with two threads" train $out --steps 30 --dropout 0.1 --threads 2; done
check "same bits with two threads" cmp "$dir/two/last.safetensors" "$dir/also-two/last.safetensors"
check "same state with two threads" cmp "$dir/two/state.safetensors" "$dir/also-two/state.safetensors"

"$brim" train "${common[@]}" --out "$dir/stopped" "${fp16[@]}" > "$dir/stopped.out" 2>&1 &
victim=$!
for ((i = 0; i < 400; i++)); do
    grep -q memory "$dir/stopped.out" && break
    sleep 0.02
done
sleep 0.05
kill -INT $victim 2> /dev/null
wait $victim
env --default-signal=HUP "$brim" train "${common[@]}" --out "$dir/hung" "${fp16[@]}" > "$dir/hung.out" 2>&1 &
victim=$!
for ((i = 0; i < 400; i++)); do
    grep -q memory "$dir/hung.out" && break
    sleep 0.02
done
sleep 0.05
kill -HUP $victim 2> /dev/null
wait $victim
check "Ctrl-C says how to go on" grep -q -- "--resume" "$dir/stopped.out"
check "its weights are the averaged ones" bash -c "$(declare -f sum_of); \
    [ \"\$(sum_of $dir/stopped/last.safetensors conv1.weight)\" = \
      \"\$(sum_of $dir/stopped/state.safetensors ema:conv1.weight)\" ]"
check "resume after Ctrl-C" train stopped "${fp16[@]}" --resume
check "same bits after Ctrl-C" cmp "$dir/straight/last.safetensors" "$dir/stopped/last.safetensors"
check "the terminal goes away: saved" grep -q "stopped at update" "$dir/hung.out"
check "resume after it" train hung "${fp16[@]}" --resume
check "same bits after it" cmp "$dir/straight/last.safetensors" "$dir/hung/last.safetensors"
losses() { sed -n 's/.*\("step":[0-9]*\).*\("loss":[^,]*,"top1":[^,]*\),.*/\1 \2/p' "$1"; }
check "metrics have the losses of the whole run" test "$(losses "$dir/killed/metrics.jsonl")" = \
    "$(losses "$dir/straight/metrics.jsonl")"
check "metrics of the run struck five times, too" test "$(losses "$dir/struck/metrics.jsonl")" = \
    "$(losses "$dir/straight/metrics.jsonl")"
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
# What a killed run logged behind its last checkpoint, the last line cut off.
printf '%s\n%s' '{"step":20,"epoch":1,"loss":9,"top1":0,"lr":0.1}' '{"step":21,"epo' >> "$dir/parts/metrics.jsonl"
check "20 more" train parts "${steps[@]}" --steps 30 --resume
check "same bits in parts" cmp "$dir/whole/last.safetensors" "$dir/parts/last.safetensors"
check "each update is logged once" test "$(losses "$dir/parts/metrics.jsonl")" = "$(losses "$dir/whole/metrics.jsonl")"

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
refuses "other options on resume" 2 "batch: 64 = 2 x 32 and cannot go on with 32" train straight --batch 32 --resume
cp "$dir/straight/config.yaml" "$dir/config.was"
for change in "--precision fp32" "--optimizer adamw" "--ema 0" "--freeze linear.*" "--dropout 0.2" "--mixup 0.2" \
    "--seed 3" "--init $dir/straight/last.safetensors"; do
    refuses "$change on resume" 2 "started with .* and cannot go on with" train straight $change --resume
done
check "the refused left the options as they were" cmp "$dir/straight/config.yaml" "$dir/config.was"
cp -r "$digits" "$dir/others"
mv "$dir/others/train-images-idx3-ubyte.gz" "$dir/others/was.gz"
gunzip < "$dir/others/was.gz" | LC_ALL=C tr '\377' '\376' | gzip > "$dir/others/train-images-idx3-ubyte.gz"
refuses "other images of the same number" 2 "images: .* cannot go on" train straight --data "$dir/others" --resume
check "resume what has ended" "$brim" train --out "$dir/straight" --resume
check "nothing left to do" grep -q "nothing left to do" "$dir/said"
check "no files that were not written are named" test "$(grep -c "are in" "$dir/said")" -eq 0
check "go on with another rate" "$brim" train --out "$dir/straight" --resume --epochs 13 --lr 0.01
check "it says what changed" grep -q "changed since: epochs: 13, lr: 0.01" "$dir/said"
refuses "too little memory" 1 "memory" train small --epochs 1 --memory 10MiB
refuses "a loss that is no number" 1 "nothing is saved yet" train wild --quiet --epochs 1 --model mlp --lr 1000000
refuses "the same after a checkpoint" 1 "checkpoint is intact" train wilder --quiet --epochs 1 --model mlp --lr 1000000 --save-every 1
refuses "freeze nothing" 1 "freeze" train frozen --epochs 1 --freeze "nothing.*"
head -c 5000 "$dir/straight/last.safetensors" > "$dir/cut.safetensors"
refuses "weights cut off" 1 "cut.safetensors" "$brim" eval --data "$digits" --weights "$dir/cut.safetensors"
refuses "weights of another model" 1 "conv1" train other --epochs 1 --model resnet18 --image-size 32 --init "$dir/straight/last.safetensors"
sed 's/"brim.std":"[0-9.]/"brim.std":"x/' "$dir/straight/best.safetensors" > "$dir/std.safetensors"
refuses "damaged normalisation" 1 "brim.std" "$brim" eval --data "$digits" --weights "$dir/std.safetensors"
sed 's/"brim.image":"8,8,1"/"brim.image":"8,8,7"/' "$dir/straight/best.safetensors" > "$dir/image.safetensors"
refuses "damaged image size" 1 "brim.image" "$brim" predict --weights "$dir/image.safetensors" "$digits/samples/1.png"
refuses "one-cycle with a warm-up" 2 "warms up by itself" train warm --epochs 1 --schedule onecycle --warmup 1
refuses "a mean that is both" 2 "go together" train both --epochs 1 --mean imagenet --std 1
check "ImageNet's normalisation" train imagenet --epochs 1 --mean imagenet
check "it is in the weights" grep -aq '"brim.mean":"0.485000014,' "$dir/imagenet/last.safetensors"
check "weights bring their own" train again2 --epochs 1 --init "$dir/imagenet/last.safetensors"
check "it goes on with it" grep -aq '"brim.mean":"0.485000014,' "$dir/again2/last.safetensors"
check "a confusion matrix" test "$(wc -l < "$dir/straight/confusion.csv")" -eq 11
check "of all validation images" test "$(tail -n +2 "$dir/straight/confusion.csv" | tr ',' '\n' |
    awk '{ n += $1 } END { print n }')" -eq 355
check "plan of a set" "$brim" plan --data "$digits" --model resnet8 --image-size 8 --batch 64 --json
planned=$(sed 's/.*"total_bytes":\([0-9]*\).*/\1/' "$dir/said")
check "plan without it" "$brim" plan --classes 10 --model resnet8 --image-size 8 --batch 64 --json
check "the set's memory counts" test "$planned" -gt "$(sed 's/.*"total_bytes":\([0-9]*\).*/\1/' "$dir/said")"
refuses "pixels to 255" 2 "255" train scaled --epochs 1 --mean 120,110,100 --std 50,50,50
mkdir -p "$dir/none" "$dir/walk"
cp "$digits/samples/1.png" "$dir/walk"
ln -s .. "$dir/walk/up"
refuses "an empty folder" 1 "empty folder" "$brim" predict --weights "$dir/straight/best.safetensors" "$dir/none"
check "predict" "$brim" predict --weights "$dir/straight/best.safetensors" "$dir/walk"
check "predict follows no loop" test "$(wc -l < "$dir/said")" -eq 1
printf -v odd '%s/walk/a\033[31m\nb.png' "$dir"
mv "$dir/walk/1.png" "$odd"
check "predict" "$brim" predict --weights "$dir/straight/best.safetensors" "$dir/walk"
check "predict prints no byte that steers the terminal" grep -q 'a?\[31m?b.png  ' "$dir/said"
if (ulimit -v 4000000 && "$brim" --version > /dev/null 2>&1); then # not with a sanitizer's address space
    check "predict asks for the memory of the files that there are" bash -c "ulimit -v 4000000 && '$brim' predict --batch 100000 \
        --weights '$dir/straight/best.safetensors' '$dir/walk'"
    check "eval asks for the memory of the set" bash -c "ulimit -v 4000000 && '$brim' eval --batch 100000 \
        --data '$digits' --weights '$dir/straight/best.safetensors'"
fi
refuses "logits to nowhere" 1 "nowhere.*No such file|folder" "$brim" eval --data "$digits" \
    --weights "$dir/straight/best.safetensors" --logits "$dir/nowhere/x"
refuses "logits to a full disk" 1 "full" "$brim" eval --data "$digits" \
    --weights "$dir/straight/best.safetensors" --logits /dev/full
refuses "passes to a full disk" 1 "full" "$brim" plan --model mlp --dump-passes /dev/full
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
else
    echo "skip  a full disk, a read-only disk: this user may not mount"
fi

exit $failed
