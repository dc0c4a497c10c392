"""Numbers that Python and C compute alike, so that no weights need to be stored.

Element i (row-major, in PyTorch's shape) of the tensor NAME comes from
    word(NAME, i) = philox4x32_10(key = fnv1a64(NAME), counter_hi = 0, counter_lo = i / 4).v[i % 4]
    unit(NAME, i) = (word >> 8) * 2^-24                 in [0, 1), exact in float
    c             = unit - 0.5f                         exact in float
(src/base/rng.h: brim_philox4x32, brim_u32_to_unit; brim_hash_text). Then, in float:
    rank 4, a convolution [O,I,kh,kw]   c * s,  s = (float)(2 * sqrt(6.0 / (O * kh * kw)))
    rank 2, a linear weight [O,I]       c * s,  s = (float)(2 * sqrt(3.0 / I))
    rank 1, NAME is a norm's weight     1 + 0.125f * c  (the product is exact)
    ... of the last norm of a block     that times 0.0625f (exact)
    rank 1, any bias                    0.125f * c
    images "x.STEP"                     4 * c
    labels "y.STEP" [N]                 word % classes
s is computed in double and rounded to float once; 6 = 3 * 2 makes the variance He's for the number
of outputs, 3 makes it 1 / I. Running means start at 0, running variances at 1. The small last norms
(bn2 in resnet20, bn3 in resnet50) keep a step's rounding errors from growing: with 1 there, twenty
steps in float and in double end more than 10 % apart, and no two programs could be compared.
"""
import math

import numpy as np


def fnv1a64(text):
    h = 0xcbf29ce484222325
    for byte in text.encode():
        h = (h ^ byte) * 0x100000001b3 & 0xffffffffffffffff
    return h


def words(name, count):
    """uint32[count]"""
    mask, shift = np.uint64(0xffffffff), np.uint64(32)
    key = fnv1a64(name)
    k0, k1 = key & 0xffffffff, key >> 32
    block = np.arange((count + 3) // 4, dtype=np.uint64)
    c0, c1 = block & mask, block >> shift
    c2, c3 = np.zeros_like(block), np.zeros_like(block)
    for _ in range(10):
        p0, p1 = np.uint64(0xD2511F53) * c0, np.uint64(0xCD9E8D57) * c2
        c0, c1, c2, c3 = ((p1 >> shift) ^ c1 ^ np.uint64(k0), p1 & mask,
                          (p0 >> shift) ^ c3 ^ np.uint64(k1), p0 & mask)
        k0, k1 = (k0 + 0x9E3779B9) & 0xffffffff, (k1 + 0xBB67AE85) & 0xffffffff
    return np.stack([c0, c1, c2, c3], axis=1).reshape(-1)[:count].astype(np.uint32)


def centred(name, shape):
    """float32[shape] in [-0.5, 0.5)"""
    w = words(name, math.prod(shape))
    return ((w >> np.uint32(8)).astype(np.float32) * np.float32(2**-24)
            - np.float32(0.5)).reshape(shape)


def weight(name, shape, norm, last_norm):
    """norm: whether a rank-1 NAME.weight belongs to a norm (the only rank-1 weights there are);
    last_norm: the last norm's name in a block."""
    c = centred(name, shape)
    if len(shape) == 4:
        return c * np.float32(2 * math.sqrt(6.0 / (shape[0] * shape[2] * shape[3])))
    if len(shape) == 2:
        return c * np.float32(2 * math.sqrt(3.0 / shape[1]))
    small = np.float32(0.125) * c
    if not norm:
        return small
    scale = 0.0625 if name.endswith(f".{last_norm}.weight") else 1
    return (np.float32(1) + small) * np.float32(scale)


def images(step, shape):
    return np.float32(4) * centred(f"x.{step}", shape)


def labels(step, count, classes):
    return (words(f"y.{step}", count) % np.uint32(classes)).astype(np.int64)
