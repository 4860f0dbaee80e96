"""A partition as an ExecuTorch program of its own, for machines without a GPU."""

from __future__ import annotations

import logging
import operator
import time
import warnings
from collections.abc import Sequence

import torch
from executorch.exir import (
    EdgeCompileConfig,
    EdgeProgramManager,
    ExecutorchBackendConfig,
    ExecutorchProgramManager,
    to_edge_transform_and_lower,
)
from executorch.exir.passes import MemoryPlanningPass
from torch._export.verifier import Verifier
from torch.export import ExportedProgram
from torch.export.exported_program import ModuleCallEntry, ModuleCallSignature
from torch.export.graph_signature import (
    ExportGraphSignature,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    TensorArgument,
)
from torch.fx import GraphModule, Node
from torch.utils import _pytree as pytree
from torch.utils._sympy.value_ranges import bound_sympy

from .aten_graph import aten_graph
from .fallback_precision import accumulate_in_float32
from .size_inputs import replace_size_inputs
from .state import owned_states, put_states_last
from .state_writes import Guarded, add_guard
from .symbol_ranges import size_expr

aten = torch.ops.aten

logger = logging.getLogger("executorch_tensorrt")


class FallbackBuildError(RuntimeError):
    """A partition cannot have a CPU fallback; the message names the operators."""


def build_fallback_program(partition: ExportedProgram, guarded: Sequence[Guarded] = ()) -> bytes:
    """The partition as a `.pte` whose one method, "forward", computes it on the CPU.

    Its inputs are the partition's tensor inputs in order, then the values of its states; its
    outputs the partition's, then the states' new values, then the guard if anything is guarded.
    XNNPACK computes what it can, ExecuTorch's portable kernels the rest.

    Raises:
        FallbackBuildError: The partition needs an operator that ExecuTorch has no CPU kernel for.
    """
    started = time.perf_counter()
    _check_convolutions(partition)
    try:
        manager, kind = _lower(_aten_program(partition, guarded), xnnpack=True), "XNNPACK"
    except Exception as error:  # Whatever XNNPACK's partitioner stumbles over, portable ops do.
        logger.warning("XNNPACK cannot lower the CPU fallback (%s); using portable kernels", error)
        manager, kind = _lower(_aten_program(partition, guarded), xnnpack=False), "portable"
    # Inputs are the caller's memory; they are used where they are.
    planning = MemoryPlanningPass(alloc_graph_input=False)
    executable = manager.to_executorch(ExecutorchBackendConfig(memory_planning_pass=planning))
    _check_kernels(executable)
    data = executable.buffer
    logger.info(
        "built a CPU fallback program (%s) of %.1f MB in %.1f s",
        kind,
        len(data) / 1e6,
        time.perf_counter() - started,
    )
    return bytes(data)


def _lower(program: ExportedProgram, *, xnnpack: bool) -> EdgeProgramManager:
    partitioners = []
    if xnnpack:
        from executorch.backends.xnnpack.partition.xnnpack_partitioner import XnnpackPartitioner

        partitioners.append(XnnpackPartitioner())
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return to_edge_transform_and_lower(
            program,
            partitioner=partitioners,
            compile_config=EdgeCompileConfig(_check_ir_validity=False),
        )


def missing_kernels(program: ExecutorchProgramManager) -> list[str]:
    """Operators of a program's methods that ExecuTorch's runtime has no CPU kernel for."""
    from executorch.runtime import Runtime

    known = set(Runtime.get().operator_registry.operator_names)
    used = {
        f"{operator.name}.{operator.overload}" if operator.overload else operator.name
        for plan in program.executorch_program.execution_plan
        for operator in plan.operators
    }
    return sorted(used - known)


def _check_kernels(program: ExecutorchProgramManager) -> None:
    """A program with an operator that nothing computes would fail when loaded; say so now."""
    missing = missing_kernels(program)
    if missing:
        raise FallbackBuildError(
            f"cpu_fallback=True: ExecuTorch has no CPU kernel for {', '.join(missing)}; rewrite "
            "the model without it, or export with cpu_fallback=False"
        )


def _check_convolutions(partition: ExportedProgram) -> None:
    """ExecuTorch's kernel of convolutions refuses three dims only when it is called."""
    for node in partition.graph.nodes:
        if node.op != "call_function" or "convolution" not in str(node.target):
            continue
        if node.args[0].meta["val"].dim() == 5:
            raise FallbackBuildError(
                f"cpu_fallback=True: ExecuTorch's CPU kernel convolves along one or two dims, and "
                f"'{node.name}' does along three; export with cpu_fallback=False"
            )


def _aten_program(partition: ExportedProgram, guarded: Sequence[Guarded]) -> ExportedProgram:
    """The partition in ATen operators, so that it can be decomposed as ExecuTorch's kernels need.

    TensorRT's partitioner kept operators whole (attention, linear) for which there is no kernel.
    """
    module, nodes = aten_graph(partition, constants_as_attributes=False)
    replace_size_inputs(module)
    put_states_last(partition, module, nodes)
    if guarded:
        add_guard(module, guarded, nodes)
    _copy_attention_results(module)
    _make_remainders_positive(module)
    _round_remainders_down(module)
    accumulate_in_float32(module)
    specs = {
        nodes[old].name: spec
        for old, spec in zip(
            partition.graph.find_nodes(op="placeholder"),
            partition.graph_signature.input_specs,
            strict=True,
        )
    }
    mutated = {nodes[state.input].name for state in owned_states(partition)}
    inputs = []
    for node in module.graph.find_nodes(op="placeholder"):
        spec, argument = specs[node.name], TensorArgument(node.name)
        inputs.append(
            InputSpec(InputKind.USER_INPUT, argument, None)
            if node.name in mutated
            else InputSpec(spec.kind, argument, _distinct(spec.target), spec.persistent)
        )
    targets = {spec.target for spec in inputs}
    outputs = [
        OutputSpec(OutputKind.USER_OUTPUT, TensorArgument(node.name), None)
        for node in module.graph.output_node().args[0]
    ]
    signature = ExportGraphSignature(inputs, outputs)
    in_spec = pytree.tree_flatten((tuple(signature.user_inputs), {}))[1]
    out_spec = pytree.tree_flatten(list(signature.user_outputs))[1]
    return ExportedProgram(
        root=module,
        graph=module.graph,
        graph_signature=signature,
        state_dict={
            _distinct(name): _frozen(value)
            for name, value in partition.state_dict.items()
            if _distinct(name) in targets
        },
        range_constraints=partition.range_constraints,
        module_call_graph=[
            ModuleCallEntry("", ModuleCallSignature([], [], in_spec=in_spec, out_spec=out_spec))
        ],
        constants={
            _distinct(name): value
            for name, value in partition.constants.items()
            if _distinct(name) in targets
        },
        verifiers=[Verifier],
    )


def _distinct(target: str | None) -> str | None:
    """A constant's name, apart from those that ExecuTorch gives the numbers it makes tensors of.

    It counts them anew in the fallback, and takes the one of two values with the same name.
    """
    return f"partition{target}" if (target or "").startswith("_lifted_tensor_constant") else target


def _make_remainders_positive(module: GraphModule) -> None:
    """Adds the divisor before a size's remainder is taken, as often as it takes.

    ExecuTorch's runtime computes remainders of negative numbers as C does, not as Python does.
    """
    graph = module.graph
    for node in graph.find_nodes(op="call_function", target=operator.mod):
        left, right = node.args
        value = left.meta.get("val") if isinstance(left, Node) else left
        if not isinstance(right, int) or not isinstance(value, torch.SymInt):
            continue
        low = bound_sympy(size_expr(value), value.node.shape_env.var_to_range).lower
        if low.is_Integer and low < 0:
            with graph.inserting_before(node):
                raised = graph.call_function(operator.add, (left, -(int(low) // right) * right))
            raised.meta["val"] = value + raised.args[1]
            node.args = (raised, right)
    module.recompile()


def _round_remainders_down(module: GraphModule) -> None:
    """Computes remainders of integers from quotients that are rounded down.

    ExecuTorch's kernel gives them the dividend's sign, as C does, not the divisor's.
    """
    graph = module.graph
    for node in list(graph.nodes):
        if node.target not in (aten.remainder.Scalar, aten.remainder.Tensor):
            continue
        value = node.meta["val"]
        if value.is_floating_point():
            continue
        overload = "Scalar" if node.target is aten.remainder.Scalar else "Tensor"
        divide, multiply = getattr(aten.div, f"{overload}_mode"), getattr(aten.mul, overload)
        left, right = node.args
        with graph.inserting_before(node):
            quotient = graph.call_function(divide, (left, right), {"rounding_mode": "floor"})
            product = graph.call_function(multiply, (quotient, right))
            remainder = graph.call_function(aten.sub.Tensor, (left, product))
        for new in (quotient, product, remainder):
            new.meta["val"] = value
        node.replace_all_uses_with(remainder)
        graph.erase_node(node)
    module.recompile()


def _copy_attention_results(module: GraphModule) -> None:
    """Copies what attention gives, so that its strides are known whatever becomes of it.

    Attention kept whole and attention decomposed give results of different strides, and ExecuTorch
    makes views of the reshapes that follow for the first, then decomposes to the second.
    """
    graph = module.graph
    for node in graph.find_nodes(
        op="call_function", target=aten.scaled_dot_product_attention.default
    ):
        with graph.inserting_after(node):
            copied = graph.call_function(
                aten.clone.default, (node,), {"memory_format": torch.contiguous_format}
            )
        node.replace_all_uses_with(
            copied, delete_user_cb=lambda user, copied=copied: user is not copied
        )
        copied.meta["val"] = node.meta["val"].clone(memory_format=torch.contiguous_format)
    module.recompile()


def _frozen(value: torch.Tensor) -> torch.Tensor:
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(value.detach(), requires_grad=False)
    return value.detach()
