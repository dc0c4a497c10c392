#!/bin/bash
# Trains a small ResNet on the handwritten digits of examples/digits: a real run in under a minute.
# Usage: demo.sh [BUILD]; the run folder is runs/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}

rm -rf runs/demo
set -x
"$build/brim" train --model resnet8 --data examples/digits --image-size 16 --channels 1 --flip 0 \
    --epochs 12 --batch 64 --micro-batch 32 --lr 0.2 --schedule onecycle --weight-decay 5e-4 \
    --precision auto --out runs/demo
"$build/brim" eval --data examples/digits --split val --weights runs/demo/best.safetensors
"$build/brim" predict --weights runs/demo/best.safetensors examples/digits/samples

{ set +x; } 2> /dev/null
top1=$("$build/brim" eval --data examples/digits --split val --weights runs/demo/best.safetensors --json |
    sed 's/.*"top1":\([0-9.]*\).*/\1/')
awk -v x="$top1" 'BEGIN { exit !(x >= 0.98) }' || { echo "demo: top-1 is $top1, below 0.98" >&2; exit 1; }
