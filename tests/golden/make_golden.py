#!/usr/bin/env python3
"""Makes the .safetensors files of this folder with PyTorch (README.md tells what they hold).

    bench/peers/install.sh VENV && VENV/bin/python tests/golden/make_golden.py [--out DIR]
"""
import argparse
import os

import numpy as np
import safetensors.numpy
import torch
import torchvision

import formula
import models

NORMS = (torch.nn.BatchNorm2d,)


def fill(model, last_norm=None):
    """Weights from the formula, by name."""
    norms = {name for name, m in model.named_modules() if isinstance(m, NORMS)}
    with torch.no_grad():
        for name, p in model.named_parameters():
            owner, kind = name.rsplit(".", 1)
            norm = kind == "weight" and owner in norms
            value = formula.weight(name, tuple(p.shape), norm, last_norm)
            p.copy_(torch.from_numpy(value))
    return model.train()


def groups(model, decay):
    """Weight decay for convolutions and linear weights only, as Brim does."""
    return [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": decay},
            {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0}]


def batch(step, shape, classes, dtype):
    x = torch.from_numpy(formula.images(step, shape)).to(dtype)
    return x, torch.from_numpy(formula.labels(step, shape[0], classes))


def train_cnn(make, last_norm, shape, classes, lr, steps, dtype):
    """The tensors of one fixture, in the given precision, as numpy arrays."""
    model = fill(make(classes), last_norm).to(dtype)
    optimizer = torch.optim.SGD(groups(model, 1e-4), lr=lr, momentum=0.9)
    out, losses = {}, []
    for step in range(steps):
        x, y = batch(step % 4, shape, classes, dtype)
        logits = model(x)
        loss = torch.nn.functional.cross_entropy(logits, y)
        optimizer.zero_grad()
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            out["logits"] = logits.detach().numpy()
            for name, p in model.named_parameters():
                out["grad_norm/" + name] = np.array([p.grad.double().norm().item()])
                out["grad/" + name] = p.grad.flatten()[:4].numpy()
        optimizer.step()
    out["loss"] = np.array(losses)
    for name, p in model.named_parameters():
        out["param_norm/" + name] = np.array([p.detach().double().norm().item()])
    for name, b in model.named_buffers():
        if not name.endswith("num_batches_tracked"):
            out["running/" + name] = b.float().numpy()
    return out


def difference(a, b):
    return float(np.max(np.abs(a - b) / np.maximum(np.abs(b), 1e-12)))


def cnn(name, make, last_norm, shape, classes, lr, steps, folder):
    exact = train_cnn(make, last_norm, shape, classes, lr, steps, torch.float64)
    single = train_cnn(make, last_norm, shape, classes, lr, steps, torch.float32)
    for k in range(0, steps, max(1, steps // 5)):
        print(f"{name} step {k + 1}: loss {exact['loss'][k]:.8f}, float off by "
              f"{difference(single['loss'][k], exact['loss'][k]):.1e}")
    print(f"{name}: worst over {steps} steps {difference(single['loss'], exact['loss']):.1e}")
    exact["loss_f32"] = single["loss"].astype(np.float32)
    save(name, exact, folder, {"shape": ",".join(map(str, shape)), "classes": str(classes),
                               "lr": repr(lr), "last_norm": last_norm})


def train_mlp(make_optimizer, clip, smoothing, dtype):
    classes, shape = 7, (8, 20)
    model = fill(models.mlp(shape[1], 16, classes)).to(dtype)
    optimizer = make_optimizer(model)
    out, losses, norms = {}, [], []
    for step in range(5):
        x, y = batch(step, shape, classes, dtype)
        loss = torch.nn.functional.cross_entropy(model(x), y, label_smoothing=smoothing)
        optimizer.zero_grad()
        loss.backward()
        limit = clip or float("inf")
        norms.append(torch.nn.utils.clip_grad_norm_(model.parameters(), limit).item())
        losses.append(loss.item())
        optimizer.step()
    for name, p in model.named_parameters():
        out["param/" + name] = p.detach().numpy()
    return out | {"loss": np.array(losses), "grad_norm": np.array(norms)}


def optimizers(folder):
    def sgd(**options):
        return lambda model: torch.optim.SGD(groups(model, 0.01), lr=0.1, **options)

    def adamw(model):
        return torch.optim.AdamW(groups(model, 0.05), lr=0.01)

    cases = {"sgd": (sgd(), 0, 0), "momentum": (sgd(momentum=0.9), 0, 0),
             "nesterov": (sgd(momentum=0.9, nesterov=True), 0, 0),
             "clip": (sgd(momentum=0.9), 0.5, 0), "smoothing": (sgd(momentum=0.9), 0, 0.1),
             "adamw": (adamw, 0, 0), "adamw_clip": (adamw, 0.5, 0.1)}
    out = {}
    for name, case in cases.items():
        exact, single = train_mlp(*case, torch.float64), train_mlp(*case, torch.float32)
        print(f"{name}: losses {exact['loss'].round(5)}, gradient norms "
              f"{exact['grad_norm'].round(3)}, float off by "
              f"{difference(single['loss'], exact['loss']):.1e}")
        out |= {f"{name}/{key}": value for key, value in exact.items()}
    save("optimizers", out, folder, {})


def save(name, tensors, folder, metadata):
    path = os.path.join(folder, name + ".safetensors")
    tensors = {key: np.ascontiguousarray(value) for key, value in tensors.items()}
    safetensors.numpy.save_file(tensors, path, metadata | {"torch": torch.__version__})
    print(f"{path}: {os.path.getsize(path)} bytes")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", default=os.path.dirname(os.path.abspath(__file__)))
    args = parser.parse_args()
    torch.set_num_threads(2)
    cnn("resnet20", models.resnet20, "bn2", (16, 3, 32, 32), 10, 0.05, 20, args.out)
    cnn("resnet50", lambda n: torchvision.models.resnet50(num_classes=n), "bn3", (8, 3, 64, 64), 10,
        0.0001, 20, args.out)
    optimizers(args.out)


if __name__ == "__main__":
    main()
