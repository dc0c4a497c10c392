#!/usr/bin/env python3
"""Decode and augment with Pillow and torchvision on one core: the other side of bench/loader.sh.

    loader.py DIR [SIZE]

DIR is a folder of class folders of JPEG files. Each image is opened and decoded as torchvision's
ImageFolder does, RandomResizedCrop(SIZE), flipped at random and made a uint8 tensor. The files are
read once before the clock starts, so that the disk does not count. Speaks take_turns.py's protocol;
a step is one image.
"""
import itertools
import os
import sys
import time


def main():
    if len(sys.argv) < 2:
        sys.exit("usage: loader.py DIR [SIZE]")
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch
    from torchvision import transforms
    from torchvision.datasets.folder import default_loader
    torch.set_num_threads(1)
    torch.manual_seed(0)

    files = sorted(os.path.join(d, f) for d, _, names in os.walk(sys.argv[1]) for f in names
                   if f.lower().endswith((".jpg", ".jpeg")))
    if not files:
        sys.exit(f"{sys.argv[1]}: no JPEG file")
    transform = transforms.Compose([
        transforms.RandomResizedCrop(int(sys.argv[2]) if len(sys.argv) > 2 else 224),
        transforms.RandomHorizontalFlip(), transforms.PILToTensor()])
    for f in files:
        transform(default_loader(f))
    turn = itertools.cycle(files)
    print("ready", flush=True)
    for line in sys.stdin:
        n = int(line)
        start = time.perf_counter()
        for _ in range(n):
            transform(default_loader(next(turn)))
        print(f"{(time.perf_counter() - start) * 1e3 / n:.6f}", flush=True)


if __name__ == "__main__":
    main()
