#!/bin/bash
# The numbers and names that commands print, against each other and against known ones; and what
# they say of models and sets that do not fit together.
# Usage: cli_reports.sh BRIM SOURCE_ROOT
set -u
brim=$1
digits=$2/examples/digits
. "$(dirname "$0")/cli_common.sh"

number() { # KEY FILE: of the JSON in it
    sed -n "s/.*\"$1\":\([-0-9.e+]*\).*/\1/p" "$2"
}

holds() { # NAME EXPRESSION: one of awk
    if awk "BEGIN { exit !($2) }"; then echo "ok    $1"; else
        echo "FAIL  $1: $2"
        failed=1
    fi
}

small=(--image-size 8 --threads 1 --workers 1)

# ---- plan ----

plan() { # NAME OPTIONS...: leaves the JSON in $dir/NAME
    local name=$1
    shift
    check "plan $*" "$brim" plan "$@" --json
    cp "$dir/said" "$dir/$name"
}
plan whole --model resnet18 --image-size 64 --batch 256
for known in batch=256 micro_batch=256 accumulation=1 parameters=11689512 weights_bytes=46758048 half_bytes=0 \
    input_bytes=$((5 * 256 * (64 * 64 * 3 + 24))); do
    check "plan: $known" test "$(number "${known%=*}" "$dir/whole")" = "${known#*=}"
done
plan split --model resnet18 --image-size 64 --batch 256 --micro-batch 32
plan capped --model resnet18 --image-size 64 --batch 256 --memory 400MiB
plan half --model resnet18 --image-size 64 --batch 256 --precision bf16
plan adamw --model resnet18 --image-size 64 --batch 256 --optimizer adamw
plan inference --model resnet18 --image-size 64 --batch 256 --inference
for name in whole split capped half adamw inference; do
    f=$dir/$name
    holds "$name: the parts are the whole" "$(number arena_bytes "$f") + $(number input_bytes "$f") + \
        $(number library_bytes "$f") == $(number total_bytes "$f")"
    holds "$name: the arena has room for its parts" "$(number weights_bytes "$f") + $(number half_bytes "$f") + \
        $(number state_bytes "$f") + $(number step_bytes "$f") <= $(number arena_bytes "$f")"
done
holds "micro-batches of 32" "$(number micro_batch "$dir/split") == 32 && $(number accumulation "$dir/split") == 8"
holds "the cap holds" "$(number total_bytes "$dir/capped") <= 400 * 1048576 && $(number micro_batch "$dir/capped") < 256"
holds "and splits the batch" "$(number micro_batch "$dir/capped") * $(number accumulation "$dir/capped") == 256"
holds "bf16 has copies of half the size" "$(number half_bytes "$dir/half") > 23e6 && $(number half_bytes "$dir/half") < 24e6"
holds "AdamW has two numbers a weight" "$(number state_bytes "$dir/adamw") - $(number state_bytes "$dir/whole") == 46758048"
holds "inference has no momentum" "$(number state_bytes "$dir/inference") < 46758048"
holds "and less to compute" "3 * $(number flops_per_sample "$dir/inference") > $(number flops_per_sample "$dir/whole") && \
    2 * $(number flops_per_sample "$dir/inference") < $(number flops_per_sample "$dir/whole")"

# ---- train ----

check "train" "$brim" train --data "$digits" --model resnet8 --channels 1 "${small[@]}" --flip 0 --epochs 2 \
    --dump-passes "$dir/passes" --out "$dir/run"
check "it prints its progress" grep -Eq "^epoch 1/2  1/[0-9]+  loss [0-9.]+  top-1 [0-9.]+ %  lr 0.1 .* img/s .* left" "$dir/said"
check "it writes the graph after each pass" test "$(sed -n 's/^==== \(.*\) ====$/\1/p' "$dir/passes" | tr '\n' ' ')" = \
    "built fuse_forward autodiff optimizer dce layout fuse_pointwise "
check "as text" grep -q "^param linear.weight f32\[10,64\]" "$dir/passes"
weights=$dir/run/last.safetensors

# ---- eval ----

for part in all train val; do
    check "eval --split $part" "$brim" eval --data "$digits" --split $part --weights "$weights" --json
    cp "$dir/said" "$dir/$part"
done
for known in all=1797 train=1442 val=355; do
    check "$known images" test "$(number images "$dir/${known%=*}")" = "${known#*=}"
done
for key in loss top1 top5; do
    holds "$key of both parts is that of the whole" "($(number $key "$dir/all") * 1797 - $(number $key "$dir/train") * 1442 - \
        $(number $key "$dir/val") * 355) ^ 2 < 1e-6"
done
check "eval in words" "$brim" eval --data "$digits" --split val --weights "$weights" --logits "$dir/logits"
cp "$dir/said" "$dir/words"
top1=$(number top1 "$dir/val") top5=$(number top5 "$dir/val")
check "the same loss" grep -q "^  loss  *$(printf %.6f "$(number loss "$dir/val")")\$" "$dir/words"
check "the same top-1" grep -q "^  top-1  *$(awk "BEGIN { printf \"%.2f\", 100 * $top1 }") %" "$dir/words"
check "the same top-5" grep -q "^  top-5  *$(awk "BEGIN { printf \"%.2f\", 100 * $top5 }") %" "$dir/words"
holds "the matrix has every image, and the hits on its diagonal" "$(awk '/^  [0-9] +[0-9]/ {
    for (k = 0; k < 10; k++) all += $(k + 2); hits += $($1 + 2) }
    END { print all " == 355 && (" hits }' "$dir/words") / 355 - $top1) ^ 2 < 1e-12"
holds "the logits have them, too" "$(awk -F '\t' '{ best = 3; for (k = 4; k <= 12; k++) if ($k > $best) best = k
    hits += best - 3 == $2 } END { print "(" hits "/" NR }' "$dir/logits") - $top1) ^ 2 < 1e-12"

# ---- predict ----

# File, then class and probability by turns.
table() {
    sed 's/{"file":"\([^"]*\)","classes":\[/\1 /; s/{"class":"\([^"]*\)","index":[0-9]*,"probability":\([^}]*\)},*/ \1 \2/g; s/\]}//' "$1"
}
for top in 10 3; do
    check "predict --top $top" "$brim" predict --weights "$weights" --top $top --json "$digits/samples"
    table "$dir/said" > "$dir/table"
    check "$top classes a line, the likeliest first" awk -v top=$top '{ sum = 0; if (NF != 2 * top + 1) exit 1
        for (k = 3; k <= NF; k += 2) { sum += $k; if (k > 3 && $k > $(k - 2)) exit 1 }
        if (sum > 1.000001 || (top == 10 && sum < 0.999999) || $3 < 0.1) exit 1 }' "$dir/table"
done

# Nine images learned by heart: each is of the class of its folder, by the folder's name.
for class in "ant 1 2 3" "bee 4 5 6" "cat 7 8 9"; do
    read -r name images <<< "$class"
    mkdir -p "$dir/set/$name"
    for i in $images; do cp "$digits/samples/$i.png" "$dir/set/$name"; done
done
learn() { # OUT OPTIONS...
    local out=$1
    shift
    "$brim" train --data "$dir/set" --model mlp "${small[@]}" --augment none --batch 9 --epochs 40 --lr 0.05 \
        --val-split 0 --out "$dir/$out" "$@"
}
check "learn nine images" learn names
check "predict them" "$brim" predict --weights "$dir/names/last.safetensors" --json "$dir/set"
table "$dir/said" > "$dir/table"
check "each by the name of its folder" awk '{ split($1, part, "/"); n = split($1, part, "/")
    if ($2 != part[n - 1]) exit 1 } END { exit NR != 9 }' "$dir/table"

# A tenth that is damaged is no image of an evaluation.
cp -r "$dir/set" "$dir/flawed"
head -c 60 "$digits/samples/0.png" > "$dir/flawed/ant/0.png"
check "eval with a damaged image" "$brim" eval --data "$dir/flawed" --weights "$dir/names/last.safetensors" --json
sed -n '/^{/p' "$dir/said" > "$dir/flaw"
for known in images=9 damaged=1 top1=1; do
    check "$known" test "$(number "${known%=*}" "$dir/flaw")" = "${known#*=}"
done

# ---- what does not fit together ----

cp -r "$dir/set" "$dir/more"
mv "$dir/more/cat" "$dir/more/dog"
refuses "eval with a class that the model does not know" 1 "dog" "$brim" eval --data "$dir/more" \
    --weights "$dir/names/last.safetensors"
refuses "eval with more classes than the model has" 1 "class" "$brim" eval --data "$digits" \
    --weights "$dir/names/last.safetensors"
refuses "validation with a class that training does not have" 1 "dog" learn x --quiet --val-data "$dir/more"
check "nothing is left of it" test ! -e "$dir/x/last.safetensors"
read -r at _ < <(tensor_place "$weights" layer1.0.conv1.weight)
cp "$weights" "$dir/nan.safetensors"
printf '\0\0\300\177' | dd of="$dir/nan.safetensors" bs=1 seek=$((at + 8)) conv=notrunc status=none
refuses "eval with a NaN in the weights" 1 "layer1.0.conv1.weight: element 2 is -?nan" "$brim" eval --data "$digits" \
    --weights "$dir/nan.safetensors"
refuses "predict with it" 1 "layer1.0.conv1.weight: element 2 is -?nan" "$brim" predict \
    --weights "$dir/nan.safetensors" "$digits/samples/1.png"
refuses "train from it" 1 "layer1.0.conv1.weight: element 2 is -?nan" "$brim" train --data "$digits" --model resnet8 \
    --channels 1 "${small[@]}" --quiet --steps 1 --init "$dir/nan.safetensors" --out "$dir/y"

exit $failed
