#!/bin/bash
# Every option of brim train that changes what is learned does so: the weights after two updates
# differ from those without it. Those that must not change it do not.
# Usage: cli_options.sh BRIM SOURCE_ROOT
set -u
brim=$1
digits=$2/examples/digits
. "$(dirname "$0")/cli_common.sh"

common=(--data "$digits" --model resnet8 --image-size 8 --channels 1 --batch 32 --steps 2 --schedule constant
    --threads 1 --workers 1 --val-split 0 --mean 0.3 --std 0.4 --quiet)

trained() { # OPTIONS...: prints the weights' file of such a run, which is made only once
    local out
    out="$dir/run$(printf ' %s' "$@" | tr / _)"
    [ -e "$out" ] || "$brim" train "${common[@]}" "$@" --out "$out" > "$dir/said" 2>&1 || {
        echo "FAIL  brim train $*: $(head -1 "$dir/said")" >&2
        mkdir -p "$out"
    }
    echo "$out/last.safetensors"
}

# The tensors alone: the header tells normalisation and the like.
weights() { # FILE
    tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1"
}

compare() { # same|other NAME FILE FILE
    local got=other
    [ -s "$3" ] && [ -s "$4" ] || got=missing
    [ $got = other ] && cmp -s <(weights "$3") <(weights "$4") && got=same
    if [ $got = "$1" ]; then echo "ok    $2"; else
        echo "FAIL  $2: $got weights"
        failed=1
    fi
}

# Colours for what has no effect on the grey digits.
for i in {0..39}; do
    printf "\\x0$((i % 10))"
    head -c 3072 /dev/urandom
done > "$dir/colour.bin"

set -f # patterns are for the program
# same|other | options of both | option of one of them
while IFS='|' read -r want both one; do
    # shellcheck disable=SC2086 # words
    compare "$want" "${both:+${both/$dir\//} with }$one" "$(trained $both)" "$(trained $both $one)"
done << TABLE
other||--clip 0.01
other||--label-smoothing 0.2
other||--weight-decay 0.1
other|--weight-decay 0.1|--decay-all
other||--lr 0.05
other||--momentum 0.5
other||--nesterov
other||--optimizer adamw
other|--optimizer adamw|--beta1 0.5
other|--optimizer adamw|--beta2 0.9
other|--optimizer adamw|--weight-decay 0.5
other||--schedule cosine
other|--schedule cosine|--min-lr 0.5
other||--schedule onecycle
other||--warmup 1
other||--schedule step --step-epochs 0.01
other|--schedule step --step-epochs 0.01|--gamma 0.5
other||--ema 0.9
other||--freeze layer1.*
other||--dropout 0.5
other||--seed 1
other||--batch 16
other||--micro-batch 8
other||--precision bf16
other||--precision fp16
other||--steps 1
other||--mean 0.5 --std 0.2
other||--augment none
other||--augment resized-crop
other|--augment resized-crop|--crop-scale 0.9
other||--flip 0
other|--augment none|--flip 1
other|--augment none|--jitter 0.5,0,0,0
other|--augment none|--jitter 0,0.5,0,0
other|--augment none --channels 3 --data $dir/colour.bin|--jitter 0,0,0.5,0
other|--augment none --channels 3 --data $dir/colour.bin|--jitter 0,0,0,0.5
other|--augment none|--randaugment 2,9
other|--augment none --randaugment 2,9|--randaugment 2,20
other|--augment none|--mixup 1
other|--augment none|--cutmix 1
same||--workers 0
same||--workers 3
same||--save-every 1
same||--log-every 1
same||--memory 1GiB
same||--no-nesterov --clip 0 --dropout 0 --mixup 0 --cutmix 0 --ema 0 --label-smoothing 0 --seed 0
TABLE

set +f

# With --lr 0 the weights stay what they were at the start.
start=$(trained --lr 0)
frozen=$(trained --freeze "layer1.*" --freeze conv1.weight)
for name in conv1.weight layer1.0.conv1.weight layer1.0.conv2.weight layer1.0.bn1.weight layer1.0.bn2.bias; do
    check "$name is frozen" test "$(tensor_sum "$frozen" $name)" = "$(tensor_sum "$start" $name)"
done
for name in bn1.weight layer2.0.conv1.weight layer3.0.conv2.weight linear.weight linear.bias; do
    check "$name is not" test "$(tensor_sum "$frozen" $name)" != "$(tensor_sum "$start" $name)"
done

# Weights to start from: all of them, and all but a head of another size.
from=$(trained --seed 1)
mkdir -p "$dir/three/a" "$dir/three/b" "$dir/three/c"
cp "$digits"/samples/[123].png "$dir/three/a"
cp "$digits"/samples/[456].png "$dir/three/b"
cp "$digits"/samples/[789].png "$dir/three/c"
whole=$(trained --lr 0 --init "$from")
headless=$(trained --lr 0 --init "$from" --data "$dir/three" --batch 9 --steps 1)
for name in conv1.weight layer3.0.bn2.bias linear.weight linear.bias; do
    check "--init takes $name" test "$(tensor_sum "$whole" $name)" = "$(tensor_sum "$from" $name)"
done
for name in conv1.weight layer2.0.conv1.weight layer3.0.bn2.bias; do
    check "--init takes $name under another head" test "$(tensor_sum "$headless" $name)" = \
        "$(tensor_sum "$from" $name)"
done
check "the head was one of ten classes" test "$(tensor_shape "$from" linear.weight)" = "[10,64]"
check "the head is one of three classes" test "$(tensor_shape "$headless" linear.weight)" = "[3,64]"
check "and its bias" test "$(tensor_shape "$headless" linear.bias)" = "[3]"

exit $failed
