#!/bin/bash
# Makes a Python virtual environment with PyTorch to measure against; Brim itself never needs it.
# Usage: install.sh DIR     (about 6 GB: PyPI's x86-64 build of PyTorch carries CUDA)
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 DIR" >&2; exit 2; }
python3 -m venv "$1"
"$1/bin/pip" install --no-cache-dir torch torchvision safetensors numpy
"$1/bin/python" -c 'import torch, torchvision; print("PyTorch", torch.__version__,
    "torchvision", torchvision.__version__, "CPU:", torch.backends.cpu.get_cpu_capability())'
