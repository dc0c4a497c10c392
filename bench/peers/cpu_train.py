#!/usr/bin/env python3
"""Training steps of PyTorch on the CPU, timed: the other side of bench/cpu.sh.

    cpu_train.py [--work W,...] [--precision P,...] [--mode M,...] [--threads N] [--seconds S]
        one JSON line a combination: {"work", "precision", "mode", "threads", "batch", "steps",
        "first_ms", "median_ms", "min_ms", "torch"}; first_ms is the first step, with compilation
    cpu_train.py --serve --work W --precision P --mode M [--threads N] [--warmup N]
        prints "ready" once warm; then for each line on stdin, a number N, runs N steps and prints
        their mean in milliseconds; ends at end of file. Two such programs can take turns in one
        run, so that both see the same machine.

W: resnet18-32 (batch 128), resnet18-224 (batch 32), mlp (784-1024-1024-10, batch 128).
P: fp32, bf16 (autocast).  M: eager, compile.
One step is zero_grad, forward, mean cross-entropy, backward, SGD (momentum 0.9, weight decay 1e-4,
fused). Images are channels-last, as the weights are. The batch stays the same and in memory.
"""
import argparse
import contextlib
import json
import os
import statistics
import sys
import time

WORKS = {"resnet18-32": (128, 32, 10), "resnet18-224": (32, 224, 1000), "mlp": (128, 0, 10)}


def make_step(torch, work, precision, mode):
    """A function that runs one training step."""
    import torchvision

    batch, size, classes = WORKS[work]
    torch.manual_seed(0)
    if work == "mlp":
        model = torch.nn.Sequential(
            torch.nn.Linear(784, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024),
            torch.nn.ReLU(), torch.nn.Linear(1024, classes))
        x = torch.randn(batch, 784)
    else:
        model = torchvision.models.resnet18(num_classes=classes)
        model = model.to(memory_format=torch.channels_last)
        x = torch.randn(batch, 3, size, size).to(memory_format=torch.channels_last)
    y = torch.randint(classes, (batch,))
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=1e-4,
                                fused=True)
    forward = torch.compile(model) if mode == "compile" else model

    def autocast():
        if precision == "bf16":
            return torch.autocast("cpu", dtype=torch.bfloat16)
        return contextlib.nullcontext()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast():
            loss = torch.nn.functional.cross_entropy(forward(x), y)
        loss.backward()
        optimizer.step()

    return step


def timed_ms(step):
    start = time.perf_counter()
    step()
    return (time.perf_counter() - start) * 1e3


def serve(step, warmup):
    for _ in range(warmup):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        n = int(line)
        start = time.perf_counter()
        for _ in range(n):
            step()
        print(f"{(time.perf_counter() - start) * 1e3 / n:.4f}", flush=True)


def measure(step, seconds, warmup):
    """(first step, all timed steps) in ms: at least five steps, for about the given time."""
    first = timed_ms(step)
    for _ in range(warmup):
        step()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        times.append(timed_ms(step))
    return first, times


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", default=",".join(WORKS))
    parser.add_argument("--precision", default="fp32,bf16")
    parser.add_argument("--mode", default="eager,compile")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--serve", action="store_true")
    args = parser.parse_args()

    os.environ["OMP_NUM_THREADS"] = str(args.threads)
    import torch
    torch.set_num_threads(args.threads)

    if args.serve:
        serve(make_step(torch, args.work, args.precision, args.mode), args.warmup)
        return
    for work in args.work.split(","):
        for precision in args.precision.split(","):
            for mode in args.mode.split(","):
                torch.compiler.reset()
                step = make_step(torch, work, precision, mode)
                first, times = measure(step, args.seconds, args.warmup)
                print(json.dumps({
                    "work": work, "precision": precision, "mode": mode, "threads": args.threads,
                    "batch": WORKS[work][0], "steps": len(times), "first_ms": round(first, 1),
                    "median_ms": round(statistics.median(times), 3),
                    "min_ms": round(min(times), 3), "torch": torch.__version__}), flush=True)


if __name__ == "__main__":
    main()
