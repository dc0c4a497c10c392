#!/usr/bin/env python3
"""Makes image_ops.safetensors with torchvision on Pillow images (README.md tells what it holds).

    bench/peers/install.sh VENV && VENV/bin/python tests/golden/image_ops.py [--out DIR]
"""
import argparse
import os

import numpy as np
import safetensors.numpy
from PIL import Image
from torchvision.transforms import InterpolationMode
from torchvision.transforms import autoaugment
from torchvision.transforms import functional as F

BILINEAR = InterpolationMode.BILINEAR


def inputs():
    """A picture of ramps in a part of the range, noise, and flat colours with a gap in between."""
    rng = np.random.default_rng(1)
    y, x, c = np.mgrid[0:17, 0:23, 0:3]
    ramps = 40 + ((x * (7 + 4 * c) + y * (11 - 3 * c)) // 2 + rng.integers(0, 16, x.shape)) % 160
    flat = np.where((x // 5 + y // 4) % 3 == 0, 230 - 60 * c, 17 + 9 * c)
    noise = rng.integers(0, 256, x.shape)
    rgb = {"ramps": ramps, "flat": flat, "noise": noise}
    images = {k: Image.fromarray(v.astype(np.uint8)) for k, v in rgb.items()}
    images["grey"] = images["ramps"].convert("L")
    return images


def resizes(im):
    sizes = [(23, 9), (11, 17), (10, 8), (4, 3), (1, 1), (46, 34), (25, 40), (24, 18)]
    for w, h in sizes:
        yield f"resize/{w} {h}", F.resize(im, [h, w], BILINEAR, antialias=True)
    for x, y, w, h, ow, oh in [(3, 2, 17, 13, 9, 8), (0, 0, 7, 17, 14, 14), (10, 5, 1, 1, 6, 6),
                               (4, 4, 16, 12, 16, 12)]:
        crop = F.resized_crop(im, y, x, h, w, [oh, ow], BILINEAR, antialias=True)
        yield f"crop/{x} {y} {w} {h} {ow} {oh}", crop
    for box, size in [((2.5, 1.25, 20.5, 15.75), (10, 8)), ((0.1, 3.3, 22.9, 14.9), (20, 18))]:
        key = " ".join(map(str, box + size))
        yield f"box/{key}", im.resize(size, Image.Resampling.BILINEAR, box=box)


def colours(im):
    for f in [0, 0.3, 1, 1.4, 2.5]:
        yield f"brightness/{f}", F.adjust_brightness(im, f)
        yield f"contrast/{f}", F.adjust_contrast(im, f)
        yield f"saturation/{f}", F.adjust_saturation(im, f)
        yield f"sharpness/{f}", F.adjust_sharpness(im, f)
    for f in [-0.5, -0.2, 0.03, 0.1, 0.5]:
        yield f"hue/{f}", F.adjust_hue(im, f)


def randaugments(im):
    space = autoaugment.RandAugment()._augmentation_space(31, (im.height, im.width))
    for op, (magnitudes, signed) in space.items():
        for m in [9, 30]:
            for sign in [1, -1] if signed else [1]:
                value = float(magnitudes[m].item()) if magnitudes.ndim > 0 else 0.0
                out = autoaugment._apply_op(im, op, sign * value,
                                            interpolation=InterpolationMode.NEAREST, fill=None)
                yield f"randaugment/{op} {m} {sign}", out


def main():
    args = argparse.ArgumentParser(description=__doc__)
    args.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    out = args.parse_args().out
    tensors = {}
    for name, im in inputs().items():
        tensors[name] = np.array(im)
        kinds = [resizes(im)]
        if name != "noise":
            kinds += [colours(im)]
        if name in ("ramps", "grey"):
            kinds += [randaugments(im)]
        for kind in kinds:
            for key, made in kind:
                tensors[f"{name}/{key}"] = np.array(made)
    safetensors.numpy.save_file(tensors, os.path.join(out, "image_ops.safetensors"))
    print(f"{len(tensors)} tensors, {sum(t.nbytes for t in tensors.values())} bytes")


if __name__ == "__main__":
    main()
