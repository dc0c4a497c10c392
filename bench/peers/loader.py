#!/usr/bin/env python3
"""Decode and augment with Pillow and torchvision on one core: the other side of bench/loader.sh.

    loader.py DIR [--size 224] [--seconds 10] [--images N]

DIR is a folder of class folders of JPEG files. Each image is opened, decoded (with Pillow's
draft mode off, as torchvision's ImageFolder does), RandomResizedCrop(size), flipped at random and
made a uint8 tensor. Prints one JSON line with images_per_s_per_core. The files are read once before
the clock starts, so that the disk does not count.
"""
import argparse
import itertools
import json
import os
import time


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("dir")
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--images", type=int, default=0, help="use only the first N files")
    args = parser.parse_args()

    os.environ["OMP_NUM_THREADS"] = "1"
    import PIL
    import torch
    import torchvision
    from torchvision import transforms
    from torchvision.datasets.folder import default_loader
    torch.set_num_threads(1)
    torch.manual_seed(0)

    files = sorted(os.path.join(d, f) for d, _, names in os.walk(args.dir) for f in names
                   if f.lower().endswith((".jpg", ".jpeg")))
    files = files[:args.images or None]
    if not files:
        raise SystemExit(f"{args.dir}: no JPEG file")
    transform = transforms.Compose([transforms.RandomResizedCrop(args.size),
                                    transforms.RandomHorizontalFlip(), transforms.PILToTensor()])
    for f in files:
        transform(default_loader(f))

    done, start = 0, time.perf_counter()
    for f in itertools.cycle(files):
        transform(default_loader(f))
        done += 1
        elapsed = time.perf_counter() - start
        if elapsed >= args.seconds:
            break
    print(json.dumps({"what": "pillow+torchvision", "size": args.size, "files": len(files),
                      "images": done, "images_per_s_per_core": round(done / elapsed, 1),
                      "pillow": PIL.__version__, "torchvision": torchvision.__version__}))


if __name__ == "__main__":
    main()
