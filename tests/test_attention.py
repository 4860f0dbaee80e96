"""Attention where TensorRT's layer is not what PyTorch's operator is."""

from __future__ import annotations

import math
from typing import Any

import attention_models
import pytest
import torch
from model_case import Case, made
from models import blobs, engine_graphs
from torch import nn

import executorch_tensorrt as ett
from executorch_tensorrt import CompileOptions, export
from executorch_tensorrt.backend.attention import answer_masked_queries

aten = torch.ops.aten
MASKED = {
    "bool": attention_models.queries_without_keys,
    "additive": attention_models.queries_without_keys_in_an_additive_mask,
}
each_mask = pytest.mark.parametrize("kind", MASKED)


def exported(case: Case, **options: Any) -> Any:
    return export(
        case.model,
        case.example(),
        profiles=case.optimization_profiles(),
        options=CompileOptions(**options),
    )


def engine_graph(case: Case, monkeypatch: pytest.MonkeyPatch) -> torch.fx.GraphModule:
    """The graph that the engine of the case is built of."""
    graphs = engine_graphs(monkeypatch)
    assert len(blobs(exported(case))) == 1
    return graphs[0]


def fallback(case: Case) -> Any:
    """The case's one partition, to be called on the CPU."""
    program = exported(case, cpu_fallback=True)
    assert len(blobs(program)) == 1
    return ett.load(program.buffer, device="cpu")["forward"]


def attentions(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    target = aten.scaled_dot_product_attention.default
    return list(module.graph.find_nodes(op="call_function", target=target))


class AsTensorRT(torch.fx.Interpreter):
    """Attention as TensorRT computes it: a plain softmax."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        if target is not aten.scaled_dot_product_attention.default:
            return super().call_function(target, args, kwargs)
        query, key, value, mask = args[:4]
        scores = query @ key.transpose(-1, -2) / math.sqrt(query.shape[-1])
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask
        return torch.softmax(scores, -1) @ value


@torch.no_grad()
@each_mask
def test_where_a_mask_leaves_no_key_the_answer_is_pytorchs(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = made(MASKED[kind])
    module = engine_graph(case, monkeypatch)
    inputs = case.example()
    [right] = case.answers(inputs)
    assert right.isfinite().all()
    [answer] = AsTensorRT(module).run(*inputs)
    torch.testing.assert_close(answer, right)

    for attention in attentions(module):
        [answer] = attention.users
        answer.replace_all_uses_with(attention)
    assert AsTensorRT(module).run(*inputs)[0].isnan().any()


@each_mask
def test_layers_with_one_mask_share_what_is_known_of_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = attentions(engine_graph(made(MASKED[kind]), monkeypatch))
    [one], [other] = first.users, second.users
    assert one.args[0] is other.args[0]


class Constant(nn.Module):
    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("mask", mask)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.scaled_dot_product_attention(x, x, x, self.mask) * 2


@pytest.mark.parametrize(
    ("mask", "left_alone"),
    [
        (torch.ones(4, 4).tril().bool(), True),
        (torch.zeros(4, 4).masked_fill(torch.ones(4, 4).triu(1).bool(), -math.inf), True),
        (torch.ones(4, 4).tril(-1).bool(), False),
    ],
)
def test_a_constant_mask_that_leaves_each_query_a_key_is_left_alone(
    mask: torch.Tensor, left_alone: bool
) -> None:
    program = torch.export.export(Constant(mask), (torch.randn(1, 2, 4, 8),))
    graph = torch.fx.Graph()
    x, given = graph.placeholder("x"), graph.get_attr("mask")
    mode = next(n.meta["val"].fake_mode for n in program.graph.nodes if "val" in n.meta)
    x.meta["val"] = mode.from_tensor(torch.randn(1, 2, 4, 8))
    given.meta["val"] = mode.from_tensor(mask)
    attention = graph.call_function(aten.scaled_dot_product_attention.default, (x, x, x, given))
    attention.meta["val"] = x.meta["val"]
    graph.output([attention])
    module = torch.fx.GraphModule(Constant(mask), graph)
    answer_masked_queries(module)
    assert (graph.output_node().args[0] == [attention]) is left_alone


@torch.no_grad()
def test_half_precision_is_masked_in_half_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    case = made(attention_models.queries_without_keys)
    half = Case(
        case.model.half(),
        {**case.inputs, "x": attention_models.Values(("b", "s", 16), torch.float16)},
        case.profiles,
    )
    module = engine_graph(half, monkeypatch)
    inputs = half.example()
    [answer] = AsTensorRT(module).run(*inputs)
    assert answer.dtype == torch.float16
    torch.testing.assert_close(answer, half.answers(inputs)[0], atol=2e-2, rtol=2e-2)


@torch.no_grad()
def test_a_causal_mask_over_more_keys_than_queries_begins_at_the_first_of_both() -> None:
    """TensorRT's, as Torch-TensorRT asks for it, ends at the last of both."""
    case = made(attention_models.causal_over_more_keys)
    method = fallback(case)
    for profile in case.profiles:
        for index in range(4):
            inputs = case.inputs_of(profile, index)
            [answer] = method(*inputs)
            torch.testing.assert_close(torch.as_tensor(answer), case.answers(inputs)[0])


@torch.no_grad()
def test_attentions_of_one_query_have_different_multiples_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """TensorRT-RTX 1.6 would crash, and this process with it."""
    case = made(attention_models.one_query_of_several_attentions)
    module = engine_graph(case, monkeypatch)
    scales = {node.kwargs.get("scale") for node in attentions(module)}
    assert len(scales) == 3
    inputs = case.example()
    for answer, right in zip(module(*inputs), case.answers(inputs), strict=True):
        torch.testing.assert_close(answer, right)


@torch.no_grad()
def test_a_shared_query_that_is_also_keys_is_attended_to_by_smaller_operators() -> None:
    """TensorRT-RTX 1.6 would crash, with multiples of the query too."""
    case = made(attention_models.query_that_is_keys)
    method = fallback(case)
    inputs = case.example()
    [answer] = method(*inputs)
    torch.testing.assert_close(torch.as_tensor(answer), case.answers(inputs)[0])
