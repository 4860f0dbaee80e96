"""Exports the classifier that server.py serves: python export_classifier.py model.pte"""

from __future__ import annotations

import argparse

import torch
from shapes import CLASSES, FEATURES, MAX_BATCH
from torch import nn

import executorch_tensorrt as ett


def classifier() -> nn.Module:
    """Rows of features [batch, 16] to the classes' probabilities [batch, 4], float32."""
    torch.manual_seed(0)
    layers = [nn.Linear(FEATURES, 64), nn.GELU(), nn.Linear(64, CLASSES), nn.Softmax(dim=-1)]
    return nn.Sequential(*layers).eval()


def export(path: str) -> None:
    program = ett.export(
        classifier(),
        (torch.zeros(4, FEATURES),),
        profiles=[
            ett.OptimizationProfile("single", {"input": [1, FEATURES]}),
            ett.OptimizationProfile("batch", {"input": [(2, 8, MAX_BATCH), FEATURES]}),
        ],
        options=ett.CompileOptions(cpu_fallback=True),
    )
    program.save(path)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pte")
    export(parser.parse_args().pte)
