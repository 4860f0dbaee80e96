"""Runs lowered programs with states, by their delegates' CPU fallbacks and without our runtime.

The states, the checks of positions and the guard are handled as docs/blob_format.md says.
"""

from __future__ import annotations

from typing import Any

import torch
from executorch.exir.backend.utils import get_delegates
from models import FallbackProgram
from torch.export.graph_signature import OutputKind

from executorch_tensorrt.backend.delegate_blob import DelegateBlob, IndexCheck, ScalarType, State

DTYPES = {
    ScalarType.INT32: torch.int32,
    ScalarType.INT64: torch.int64,
    ScalarType.FLOAT16: torch.float16,
    ScalarType.FLOAT32: torch.float32,
    ScalarType.BOOL: torch.bool,
    ScalarType.BFLOAT16: torch.bfloat16,
}


class OutOfBounds(Exception):
    """A write of a call is out of its state's bounds; nothing was written."""


def initial_value(state: State) -> torch.Tensor:
    dtype = DTYPES[state.dtype]
    if state.initial is None:
        return torch.zeros(state.shape, dtype=dtype)
    return torch.frombuffer(bytearray(state.initial), dtype=dtype).reshape(state.shape)


def holds(check: IndexCheck, inputs: list[torch.Tensor]) -> bool:
    values = inputs[check.binding].reshape(-1)
    rows = 1 if check.extent is None else inputs[check.extent[0]].shape[check.extent[1]]
    if bool((values < check.least).any()) or bool((values + rows - 1 > check.greatest).any()):
        return False
    return not check.contiguous or bool((values.diff() == 1).all())


class DelegateSession:
    """One delegate's states, and its fallback over them."""

    def __init__(self, blob: DelegateBlob) -> None:
        self.blob = blob
        self.values = {state.name: initial_value(state) for state in blob.states}
        self._fallback = FallbackProgram(blob)

    def __call__(self, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
        for check in self.blob.index_checks:
            if not holds(check, inputs):
                raise OutOfBounds(check)
        results = self._fallback(*inputs, *self.values.values())
        if self.blob.guard is not None and not results.pop().item():
            raise OutOfBounds(self.blob.guard)
        if self.values:
            new_values = results[-len(self.values) :]
            del results[-len(self.values) :]
            self.values = dict(zip(self.values, new_values, strict=True))
        return results


class Session:
    """A lowered `ExportedProgram` with its state from call to call: states and caller's buffers."""

    def __init__(self, edge: Any) -> None:
        self._edge = edge
        self.blobs = [
            DelegateBlob.from_bytes(getattr(edge.graph_module, node.name).processed_bytes)
            for node in get_delegates(edge.graph)
        ]
        self.reset()

    def reset(self) -> None:
        """Everything as in a new session."""
        self._delegates: dict[str, DelegateSession] = {}
        self.buffers = {
            name: value.clone()
            for name, value in {**self._edge.constants, **self._edge.state_dict}.items()
        }

    @property
    def states(self) -> dict[str, torch.Tensor]:
        """Every state of every delegate."""
        return {
            name: value
            for delegate in self._delegates.values()
            for name, value in delegate.values.items()
        }

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        given = iter(inputs)
        placeholders = [
            next(given) if spec.target is None else self.buffers[spec.target]
            for spec in self._edge.graph_signature.input_specs
        ]
        results = _Interpreter(self._edge.graph_module, self._delegates).run(*placeholders)
        answers = []
        for spec, value in zip(self._edge.graph_signature.output_specs, results, strict=True):
            if spec.kind is OutputKind.BUFFER_MUTATION:
                self.buffers[spec.target] = value
            else:
                answers.append(value)
        return answers


class _Interpreter(torch.fx.Interpreter):
    def __init__(self, module: torch.fx.GraphModule, delegates: dict[str, DelegateSession]) -> None:
        super().__init__(module)
        self._delegates = delegates

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is not torch.ops.higher_order.executorch_call_delegate:
            return super().call_function(target, args, kwargs)
        name = self._name_of(args[0])
        blob = DelegateBlob.from_bytes(args[0].processed_bytes)
        if name not in self._delegates:
            self._delegates[name] = DelegateSession(blob)
        assert len(args) - 1 + sum(not binding.is_input for binding in blob.bindings) == (
            blob.num_arguments
        )
        inputs = [args[1 + binding.argument] for binding in blob.bindings if binding.is_input]
        return self._delegates[name](inputs)

    def _name_of(self, lowered: Any) -> str:
        return next(name for name, module in self.module.named_children() if module is lowered)
