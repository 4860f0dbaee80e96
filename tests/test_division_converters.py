"""Quotients and remainders without a product of the operands, which overflows.

Their values are compared on a GPU (operator_models.py). Here, TensorRT-RTX's names of the kernels
tell which operations they do: Torch-TensorRT's converters take the sign of a product.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
from models import blobs
from tensorrt_flavour import rtx_only
from torch import nn

from executorch_tensorrt import export

pytestmark = rtx_only


class Of(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.function(x, y)


FUNCTIONS = {
    "remainder": (lambda x, y: x % y, "Div"),
    "remainder of a number": (lambda x, y: x % 5, "Div"),
    "fmod": (torch.fmod, "Div"),
    "truncated": (lambda x, y: torch.div(x, y, rounding_mode="trunc"), "Div"),
    "truncated, of floats": (
        lambda x, y: torch.div(x.float(), y.float(), rounding_mode="trunc"),
        "DivFlooCeil",
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_no_sign_of_a_product_is_taken(name: str, dtype: torch.dtype) -> None:
    function, expected = FUNCTIONS[name]
    x = torch.ones(4, 8, dtype=dtype)
    [blob] = blobs(export(Of(function), (x, x)))
    kernels = b" ".join(re.findall(rb"function=\{ name=(\w+)", blob.engine)).decode()
    assert expected in kernels
    assert "Sign" not in kernels
