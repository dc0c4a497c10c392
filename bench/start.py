#!/usr/bin/env python3
"""How long a training run takes from its start to its first step.

    bench/start.py build/brim DATA [OPTIONS OF TRAIN...]

Starts `brim train` nine times and reads the clock when it says that all is planned and allocated,
and when the first update has been reported (waiting for its images and the update itself
included); prints the median and the extremes of both, in seconds.
"""

import statistics
import subprocess
import sys
import tempfile
import time

ROUNDS = 9


def once(brim, data, options):
    """(ready, first update reported), seconds since the process was started."""
    with tempfile.TemporaryDirectory() as out:
        start = time.monotonic()
        with subprocess.Popen(
            [brim, "train", "--data", data, "--out", f"{out}/run", "--steps", "1", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as run:
            ready = first = None
            for line in run.stdout:
                now = time.monotonic() - start
                if line.startswith("  memory"):
                    ready = ready or now
                elif line.startswith("epoch 1/"):
                    first = first or now
        if run.returncode or ready is None or first is None:
            sys.exit(f"start.py: brim ended with {run.returncode} before its first update")
        return ready, first


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    times = [once(sys.argv[1], sys.argv[2], sys.argv[3:]) for _ in range(ROUNDS)]
    for name, column in zip(("ready", "first update reported"), zip(*times)):
        print(f"{name:22}{statistics.median(column):7.3f} s  ({min(column):.3f} to {max(column):.3f})")


if __name__ == "__main__":
    main()
