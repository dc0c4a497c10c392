#!/bin/bash
# Trains a small ResNet on the handwritten digits of examples/digits: a real run in under a minute.
# Usage: demo.sh [BUILD]; the run folder is runs/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
build=${1:-build}

rm -rf runs/demo
set -x
"$build/brim" train --model resnet20 --data examples/digits --epochs 10 --batch 64 \
    --micro-batch 32 --precision auto --out runs/demo
