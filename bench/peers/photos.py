#!/usr/bin/env python3
"""Makes photos of one size for bench/loader.sh from photos of any size.

    photos.py FROM TO [WIDTH HEIGHT [QUALITY]]

Every JPEG under FROM, cut to the shape WIDTH:HEIGHT (500 x 375) around its centre, resized with
Lanczos and saved with QUALITY (92, 4:2:0) in TO/photos/. Prints their number and mean size.
"""
import os
import sys

from PIL import Image, ImageOps


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: photos.py FROM TO [WIDTH HEIGHT [QUALITY]]")
    numbers = [int(a) for a in sys.argv[3:]]
    size = tuple(numbers[:2]) or (500, 375)
    quality = numbers[2] if len(numbers) > 2 else 92
    out = os.path.join(sys.argv[2], "photos")
    os.makedirs(out, exist_ok=True)
    files = sorted(os.path.join(d, f) for d, _, names in os.walk(sys.argv[1]) for f in names
                   if f.lower().endswith((".jpg", ".jpeg")))
    total = 0
    for i, f in enumerate(files):
        image = ImageOps.fit(Image.open(f).convert("RGB"), size, Image.LANCZOS)
        path = os.path.join(out, f"{i:05}.jpg")
        image.save(path, quality=quality)
        total += os.path.getsize(path)
    print(f"{len(files)} photos of {size[0]} x {size[1]}, {total / max(1, len(files)) / 1e3:.1f} kB each")


if __name__ == "__main__":
    main()
