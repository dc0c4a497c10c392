#!/usr/bin/env python3
"""Times programs against each other in one run: they stay loaded and take turns.

    take_turns.py --rounds R --seconds S NAME=COMMAND NAME=COMMAND...

Each command prints "ready" when it is warm and then answers each line on stdin, a number N of
steps, with their mean time in milliseconds (bench/train_step.c, bench/peers/cpu_train.py). A round
gives each program a turn of about S seconds, in an order that rotates; the ratios are medians of
the rounds' own ratios, so that what else the machine does meets all of them alike. Prints one JSON
line: {"ms": {NAME: median}, "ratio": {NAME: median of its ms over the first's in that round},
"spread": {NAME: [lowest, highest ratio]}}.
"""
import argparse
import json
import statistics
import subprocess
import sys


class Program:
    def __init__(self, name, command):
        self.name = name
        self.process = subprocess.Popen(command, shell=True, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE)
        for line in self.process.stdout:
            if line.strip() == "ready":
                return
        sys.exit(f"take_turns: {name} ended before it was ready: {command}")

    def run(self, steps):
        print(steps, file=self.process.stdin, flush=True)
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"take_turns: {self.name} ended early")
        return float(line)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("program", nargs="+", metavar="NAME=COMMAND")
    args = parser.parse_args()
    programs = [Program(*p.split("=", 1)) for p in args.program]
    steps = [max(1, round(args.seconds * 1e3 / p.run(2))) for p in programs]
    rounds = []
    for r in range(args.rounds):
        times = {}
        for k in range(len(programs)):
            i = (k + r) % len(programs)
            times[programs[i].name] = programs[i].run(steps[i])
        rounds.append(times)
    for p in programs:
        p.close()
    first = programs[0].name
    ratios = {p.name: [t[p.name] / t[first] for t in rounds] for p in programs[1:]}
    print(json.dumps({
        "ms": {p.name: round(statistics.median(t[p.name] for t in rounds), 3) for p in programs},
        "ratio": {n: round(statistics.median(r), 2) for n, r in ratios.items()},
        "spread": {n: [round(min(r), 2), round(max(r), 2)] for n, r in ratios.items()}}))


if __name__ == "__main__":
    main()
