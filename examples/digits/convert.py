#!/usr/bin/env python3
"""Makes the IDX files of this folder from scikit-learn's copy of the UCI optical digits.

    apt-get download python3-sklearn && dpkg-deb -x python3-sklearn_*.deb skl
    ./convert.py skl/usr/lib/python3/dist-packages/sklearn/datasets/data/digits.csv.gz

A line of the CSV holds 64 pixels in 0..16, row by row, and the digit. Every fifth sample of each
digit, in the file's order, is held out, so the split is fixed and stratified.
"""
import gzip
import os
import struct
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))


def write_gz(name, data):
    with open(os.path.join(HERE, name), "wb") as raw:
        with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=9, mtime=0) as f:
            f.write(data)


def write_idx(prefix, samples):
    pixels = b"".join(image for image, _ in samples)
    labels = bytes(digit for _, digit in samples)
    write_gz(prefix + "-images-idx3-ubyte.gz",
             struct.pack(">4I", 0x803, len(samples), 8, 8) + pixels)
    write_gz(prefix + "-labels-idx1-ubyte.gz", struct.pack(">2I", 0x801, len(samples)) + labels)


def write_png(name, image):
    def chunk(kind, body):
        return (struct.pack(">I", len(body)) + kind + body
                + struct.pack(">I", zlib.crc32(kind + body)))

    rows = b"".join(b"\0" + image[8 * y:8 * y + 8] for y in range(8))
    with open(os.path.join(HERE, "samples", name), "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", 8, 8, 8, 0, 0, 0, 0))
                + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b""))


def main():
    train, held_out, seen = [], [], [0] * 10
    with gzip.open(sys.argv[1], "rt") as f:
        for line in f:
            *pixels, digit = map(int, line.split(","))
            assert len(pixels) == 64 and 0 <= min(pixels) and max(pixels) <= 16 and 0 <= digit <= 9
            image = bytes((p * 255 + 8) // 16 for p in pixels)
            (held_out if seen[digit] % 5 == 4 else train).append((image, digit))
            seen[digit] += 1
    write_idx("train", train)
    write_idx("val", held_out)
    os.makedirs(os.path.join(HERE, "samples"), exist_ok=True)
    for digit in range(10):
        write_png(f"{digit}.png", next(image for image, d in held_out if d == digit))
    print(f"{len(train)} to train on, {len(held_out)} held out")


if __name__ == "__main__":
    main()
