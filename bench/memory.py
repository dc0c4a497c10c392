#!/usr/bin/env python3
"""Planned memory beside what the process really held: brim plan, then three steps of brim train.

    memory.py BRIM DATA [STEPS]

BRIM is the program, DATA a set of images, STEPS how many updates are made (3; an epoch's fill the cache of decoded images). Prints a line a case: the plan's
total, the peak resident memory of the training (the kernel's count), their difference, and the
tolerance of 5 % + 50 MiB.
"""
import json
import os
import subprocess
import sys
import tempfile

CASES = [
    "--model resnet18 --batch 32", "--model resnet18 --batch 32 --precision bf16",
    "--model resnet18 --batch 32 --precision fp16", "--model resnet50 --batch 32",
    "--model resnet50 --batch 64 --precision bf16", "--model resnet50 --batch 64 --memory 2GiB",
    "--model resnet18 --batch 64 --optimizer adamw", "--model resnet20 --batch 128",
    "--model mlp --batch 128",
]


def main():
    if len(sys.argv) < 3:
        sys.exit("usage: memory.py BRIM DATA [STEPS]")
    brim, data = sys.argv[1:3]
    steps = sys.argv[3] if len(sys.argv) > 3 else "3"
    print(f"{'case':50} {'plan MiB':>9} {'peak MiB':>9} {'more':>7}  within")
    for case in CASES:
        out = subprocess.run([brim, "plan", "--data", data, "--val-split", "0.2", "--json", *case.split()],
                             check=True, capture_output=True, text=True).stdout
        plan = json.loads(out)["total_bytes"] / 2**20
        with tempfile.TemporaryDirectory() as folder:
            pid = os.posix_spawnp(brim, [brim, "train", "--data", data, "--val-split", "0.2",
                                         "--steps", steps, "--quiet", "--out", folder + "/run",
                                         *case.split()], os.environ)
            _, status, usage = os.wait4(pid, 0)
        if status:
            sys.exit(f"{case}: the training failed")
        peak = usage.ru_maxrss / 2**10
        print(f"{case:50} {plan:9.0f} {peak:9.0f} {peak - plan:+7.0f}  "
              f"{'yes' if abs(peak - plan) <= plan * 0.05 + 50 else 'NO'}", flush=True)


if __name__ == "__main__":
    main()
