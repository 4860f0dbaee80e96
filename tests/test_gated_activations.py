"""Gates of linear layers are made of small operators: TensorRT-RTX 1.6 loses their biases."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from models import engine_graphs, seeded
from operator_models import Gated, gelu_by_tanh
from tensorrt_flavour import RTX
from torch import nn
from torch.nn import functional

from executorch_tensorrt import export
from executorch_tensorrt.backend import converters, partition
from executorch_tensorrt.backend.engine import EngineBuildError
from executorch_tensorrt.backend.gated_activations import refuse_lost_bias

aten = torch.ops.aten
rtx_1_6_only = pytest.mark.skipif(
    not RTX or converters.tensorrt.version > (1, 7),
    reason="not TensorRT-RTX 1.6",
)
each_gate = pytest.mark.parametrize(
    "activation", [functional.gelu, gelu_by_tanh, functional.relu], ids=["gelu", "tanh", "relu"]
)


def engine_graph(
    model: nn.Module, x: torch.Tensor, monkeypatch: pytest.MonkeyPatch
) -> torch.fx.GraphModule:
    graphs = engine_graphs(monkeypatch)
    export(model, (x,))
    [graph] = graphs
    return graph


def targets(module: torch.fx.GraphModule) -> set[Any]:
    return {node.target for node in module.graph.nodes}


@torch.no_grad()
@each_gate
@pytest.mark.parametrize("halves", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_gate_is_computed_as_pytorch_does(
    activation: Any, halves: bool, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = seeded(Gated, activation, halves=halves).to(dtype)
    x = (torch.randn(4, 32) * 3).to(dtype)
    module = engine_graph(model, x, monkeypatch)  # that it was built says that no bias is lost
    assert not targets(module) & {aten.gelu.default, aten.relu.default}
    [answer] = module(x)
    assert answer.dtype == dtype
    tolerance = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}[dtype]
    torch.testing.assert_close(answer, model(x), atol=tolerance, rtol=tolerance)


@rtx_1_6_only
@each_gate
def test_an_engine_that_would_lose_a_bias_is_refused(
    activation: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is what happens to a gate as it is."""
    monkeypatch.setattr(partition, "spell_out_gates", lambda module: None)
    with pytest.raises(EngineBuildError, match=r"leaves out the bias of '.*linear.*cpu_operators"):
        export(seeded(Gated, activation, halves=True), (torch.randn(16, 32),))


@rtx_1_6_only
def test_a_lost_bias_is_found_across_blocks_of_a_plan() -> None:
    kernel = b'  fully_connected={ name="up" output={"y"} gelu=false bias=true quantize=false }\n'
    for before in (0, (1 << 24) - 40, (1 << 24) + 5):
        with pytest.raises(EngineBuildError, match="bias of 'up'"):
            refuse_lost_bias(memoryview(bytes(before) + kernel + bytes(100)))
    refuse_lost_bias(memoryview(kernel.replace(b" bias=true", b" bias=false")))


class Convolved(nn.Module):
    """ReLU of a convolution, scaled by a channel's weight, as in MobileNet."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution, self.weigh = nn.Conv2d(3, 8, 1), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.relu(self.convolution(x))
        return x * torch.sigmoid(self.weigh(x.mean((2, 3))))[:, :, None, None]


class Perceptron(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(functional.gelu(self.up(x))) * 2


@pytest.mark.parametrize(
    ("model", "shape", "operator"),
    [
        (Convolved, (1, 3, 4, 4), aten.relu.default),
        (Perceptron, (2, 8), aten.gelu.default),
    ],
)
def test_other_activations_stay_what_tensorrt_fuses(
    model: type[nn.Module],
    shape: tuple[int, ...],
    operator: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert operator in targets(engine_graph(seeded(model), torch.randn(shape), monkeypatch))
