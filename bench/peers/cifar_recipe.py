#!/usr/bin/env python3
"""A short CIFAR-10 recipe in PyTorch, to compare accuracies with Brim's.

    cifar_recipe.py DATA [--epochs 6] [--seeds 0,1,2] [--limit N] [--threads N]

DATA holds cifar10-train-*.tar.gz (WebDataset pairs) and cifar10-test.tar.gz (class folders).
resnet20 (option A shortcuts, Kaiming-normal weights, as tests/golden/models.py), batch 128, SGD
with momentum 0.9 and weight decay 5e-4 on the weights of convolutions and of the linear layer only,
one-cycle learning rate by steps (cosine; peak 0.2 after 30 % of the steps, from 1/25 of it, to
1e-4 of that start), momentum constant; random crop with 4 zero pixels around, random flip; images
/255, mean .4914 .4822 .4465, std .2470 .2435 .2616; the last, smaller batch of an epoch is used.
Prints one JSON line a seed: {"seed", "epochs", "top1", "loss", "seconds"}.
"""
import argparse
import glob
import io
import json
import os
import sys
import tarfile
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tests/golden"))

CLASSES = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]


def decode(data):
    import numpy
    from PIL import Image
    return numpy.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


def read_train(folder):
    images, labels = [], []
    for name in sorted(glob.glob(os.path.join(folder, "cifar10-train-*.tar.gz"))):
        pairs = {}
        with tarfile.open(name) as tar:
            for member in tar:
                if member.isfile():
                    key, kind = os.path.splitext(os.path.basename(member.name))
                    pairs.setdefault(key, {})[kind] = tar.extractfile(member).read()
        for key in sorted(pairs):
            images.append(decode(pairs[key][".jpg"]))
            labels.append(int(pairs[key][".cls"]))
    return images, labels


def read_test(folder):
    images, labels = [], []
    with tarfile.open(os.path.join(folder, "cifar10-test.tar.gz")) as tar:
        for member in tar:
            if member.isfile() and member.name.endswith(".png"):
                images.append(decode(tar.extractfile(member).read()))
                labels.append(CLASSES.index(member.name.split("/")[-2]))
    return images, labels


def augment(torch, x):
    """Crop of the image padded by 4, and a flip, drawn for each image. x: [N,3,32,32] float."""
    n = x.shape[0]
    padded = torch.nn.functional.pad(x, (4, 4, 4, 4))
    rows = torch.randint(9, (n, 1)) + torch.arange(32)
    cols = torch.randint(9, (n, 1)) + torch.arange(32)
    flip = torch.rand(n, 1) < 0.5
    cols = torch.where(flip, cols.flip(1), cols)
    i = torch.arange(n)[:, None, None]
    return padded.permute(0, 2, 3, 1)[i, rows[:, :, None], cols[:, None, :]].permute(0, 3, 1, 2)


def run(torch, seed, epochs, train, test):
    import models

    torch.manual_seed(seed)
    model = models.resnet20().to(memory_format=torch.channels_last)
    for module in model.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Linear)):
            torch.nn.init.kaiming_normal_(module.weight)
    (x, y), (test_x, test_y) = train, test
    decay = [p for p in model.parameters() if p.dim() > 1]
    plain = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.SGD([{"params": decay, "weight_decay": 5e-4},
                                 {"params": plain, "weight_decay": 0}], lr=0.1, momentum=0.9)
    steps = -(-len(x) // 128)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.2, total_steps=steps * epochs, pct_start=0.3, cycle_momentum=False)
    start = time.time()
    for epoch in range(epochs):
        model.train()
        for part in torch.randperm(len(x)).split(128):
            batch = augment(torch, x[part]).contiguous(memory_format=torch.channels_last)
            loss = torch.nn.functional.cross_entropy(model(batch), y[part])
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        print(f"seed {seed} epoch {epoch + 1} loss {loss.item():.3f} {time.time() - start:.0f} s",
              file=sys.stderr, flush=True)
    model.eval()
    with torch.no_grad():
        logits = torch.cat([model(part) for part in test_x.split(500)])
    return {"seed": seed, "epochs": epochs,
            "top1": round((logits.argmax(1) == test_y).double().mean().item() * 100, 2),
            "loss": round(torch.nn.functional.cross_entropy(logits, test_y).item(), 4),
            "seconds": round(time.time() - start, 1)}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", default="0,1,2")
    parser.add_argument("--limit", type=int, default=0, help="only the first N images of each set")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    import numpy
    import torch
    torch.set_num_threads(args.threads)

    def tensors(images, labels):
        x = torch.from_numpy(numpy.stack(images[:args.limit or None])).permute(0, 3, 1, 2).float()
        mean, std = (torch.tensor(v).view(3, 1, 1) for v in
                     ([.4914, .4822, .4465], [.2470, .2435, .2616]))
        return (x / 255 - mean) / std, torch.tensor(labels[:args.limit or None])

    train, test = tensors(*read_train(args.data)), tensors(*read_test(args.data))
    for seed in map(int, args.seeds.split(",")):
        print(json.dumps(run(torch, seed, args.epochs, train, test)), flush=True)


if __name__ == "__main__":
    main()
