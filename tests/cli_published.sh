#!/bin/bash
# Published CIFAR-10 weights give the published accuracy and the logits that came with them.
# Usage: cli_published.sh BRIM; needs the folder in BRIM_TEST_DATA.
set -u
brim=$1
if [ -z "${BRIM_TEST_DATA:-}" ]; then
    echo "skipped: BRIM_TEST_DATA is not set"
    exit 77
fi
weights=$BRIM_TEST_DATA/weights
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0

# Largest difference between a table of logits and what brim wrote: ARCHIVE:FILE, label, logits.
largest_difference() {
    awk -F '\t' 'NR == FNR { if (FNR > 1) { want[$1] = $0; n++ } next }
        { sub(/.*:/, "", $1) }
        $1 in want {
            found++
            split(want[$1], w, "\t")
            for (k = 2; k <= 11; k++) { d = w[k] - $(k + 1); if (d < 0) d = -d; if (d > most) most = d }
        }
        END { if (n == 0 || found != n) most = 1e9; printf "%.2e\n", most }' "$1" "$2"
}

published() { # MODEL TOP1
    "$brim" eval --data "$BRIM_TEST_DATA/classification/cifar10/cifar10-test.tar.gz" --model "$1" \
        --weights "$weights/$1-cifar10.safetensors" --logits "$dir/$1.tsv" > "$dir/said" 2>&1
    local off
    off=$(largest_difference "$weights/$1-cifar10.logits.tsv" "$dir/$1.tsv")
    if grep -Eq "top-1 +$2 %" "$dir/said" && awk "BEGIN { exit !($off < 1e-4) }"; then
        echo "ok    $1: $2 %, logits within $off"
    else
        echo "FAIL  $1 (wants $2 %, logits within 1e-4): off by $off"
        head -4 "$dir/said"
        failed=1
    fi
}

published resnet20 91.73
published resnet56 93.39
exit $failed
