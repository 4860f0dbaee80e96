"""Small models that several tests share, and a way to run an exported program without a GPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from executorch.exir import ExecutorchProgramManager
from executorch.exir.backend.utils import get_delegates
from executorch.runtime import Runtime
from torch import nn

from executorch_tensorrt.backend.delegate_blob import DelegateBlob

if TYPE_CHECKING:
    import pytest


class Block(nn.Module):
    """A transformer block with causal attention: [batch, sequence, width] to the same."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = [
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(self.norm1(x)).chunk(3, dim=-1)
        ]
        mixed = F.scaled_dot_product_attention(*split, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """Token ids [batch, sequence] int64 to logits [batch, sequence, vocabulary]."""

    VOCABULARY = 50

    def __init__(self, layers: int = 2, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(self.VOCABULARY, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.head = nn.Linear(width, self.VOCABULARY)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Mlp(nn.Module):
    """[batch, 8] to [batch, 8]."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(F.relu(self.first(x)))


class GraphBreak(nn.Module):
    """Two halves with an operator between that TensorRT does not take: [batch, 8] to [batch, 8].

    The second half works on twice the batch, so that the two delegates' input ranges differ.
    """

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        twice = torch.cat([self.first(x), x])
        summed = torch.cumsum(twice.to(torch.float64), dim=1)
        return F.relu(self.second(summed.to(x.dtype)))


class Unsupported(nn.Module):
    """Nothing that TensorRT takes: float64 arithmetic, [batch, 8] float64 to the same."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2.0 + x


def seeded(model: type[nn.Module], *args: Any, **kwargs: Any) -> nn.Module:
    """A model in eval mode with the same weights every time."""
    torch.manual_seed(0)
    return model(*args, **kwargs).eval()


def blobs(program: ExecutorchProgramManager, method: str = "forward") -> list[DelegateBlob]:
    """The delegate blobs of an exported program, in call order."""
    exported = program.exported_program(method)
    modules = [getattr(exported.graph_module, node.name) for node in get_delegates(exported.graph)]
    return [DelegateBlob.from_bytes(module.processed_bytes) for module in modules]


def engine_graphs(monkeypatch: pytest.MonkeyPatch) -> list[torch.fx.GraphModule]:
    """Filled with the graphs that engines are built of from here on."""
    from executorch_tensorrt.backend import tensorrt_backend

    graphs: list[torch.fx.GraphModule] = []
    made = tensorrt_backend.engine_graph

    def kept(partition: Any) -> torch.fx.GraphModule:
        graphs.append(made(partition))
        return graphs[-1]

    monkeypatch.setattr(tensorrt_backend, "engine_graph", kept)
    return graphs


class FallbackProgram:
    """A delegate's CPU fallback, executed on its own by ExecuTorch's stock runtime."""

    def __init__(self, blob: DelegateBlob) -> None:
        assert blob.fallback is not None
        # The runtime reads from the buffer as long as the program lives.
        self._data = bytes(blob.fallback)
        self._program = Runtime.get().load_program(self._data)
        self._method = self._program.load_method("forward")

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        contiguous = [value.contiguous() for value in inputs]
        return [output.clone() for output in self._method.execute(contiguous)]


class _WithFallbacks(torch.fx.Interpreter):
    """Runs the graph outside the delegates in eager PyTorch, and the delegates' fallbacks."""

    def __init__(self, edge_module: torch.fx.GraphModule) -> None:
        super().__init__(edge_module)
        self.delegates = 0

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is not torch.ops.higher_order.executorch_call_delegate:
            return super().call_function(target, args, kwargs)
        self.delegates += 1
        blob = DelegateBlob.from_bytes(args[0].processed_bytes)
        inputs = [args[1 + binding.argument] for binding in blob.bindings if binding.is_input]
        return FallbackProgram(blob)(*inputs)


def run_with_fallbacks(edge: Any, *inputs: torch.Tensor) -> list[torch.Tensor]:
    """Outputs of a lowered `ExportedProgram` whose delegates carry CPU fallbacks."""
    placeholders = [
        edge.state_dict.get(spec.target, edge.constants.get(spec.target))
        for spec in edge.graph_signature.input_specs
        if spec.target is not None
    ]
    return list(_WithFallbacks(edge.graph_module).run(*placeholders, *inputs))
