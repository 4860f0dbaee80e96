"""Chooses the subgraphs of an edge program that become TensorRT engines."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence

import torch
from executorch.exir.backend.backend_details import BackendDetails
from executorch.exir.backend.partitioner import DelegationSpec, Partitioner, PartitionResult
from executorch.exir.backend.utils import tag_constant_data
from torch.export import ExportedProgram
from torch.fx import GraphModule, Node

from executorch_tensorrt.backend.aten_graph import is_edge_program, node_values
from executorch_tensorrt.backend.compile_options import CompileOptions
from executorch_tensorrt.backend.compile_specs import compile_specs
from executorch_tensorrt.backend.partition_report import MethodReport
from executorch_tensorrt.backend.size_inputs import can_rebuild, size_sources
from executorch_tensorrt.backend.symbol_ranges import ProfileSymbols, size_expr
from executorch_tensorrt.backend.tensorrt_backend import TensorRTBackend
from executorch_tensorrt.backend.tensorrt_import import import_tensorrt
from executorch_tensorrt.profiles import OptimizationProfile, check_profiles

from .item_slices import replace_item_slices
from .method_report import method_report
from .node_support import NodeSupport, describe, is_channels_last, is_computation, is_size_node
from .owned_state import own_mutated_buffers
from .profile_ranges import resolve_profiles, warn_uncovered_sizes
from .proposal import maker, propose_partitions

logger = logging.getLogger("executorch_tensorrt")

aten = torch.ops.aten

# Operators with converters of their own, better than what ExecuTorch would decompose them to.
_KEPT_WHOLE = {
    aten.scaled_dot_product_attention.default,
    aten.linear.default,
    aten.matmul.default,
    aten.mv.default,
    aten.dot.default,
    aten.gelu.default,
    aten.elu.default,
    aten.leaky_relu.default,
    aten.hardsigmoid.default,
    aten.hardtanh.default,
    aten.softplus.default,
    aten.glu.default,
    aten.native_layer_norm.default,
    aten.native_group_norm.default,
    aten.upsample_nearest1d.vec,
    aten.upsample_linear1d.vec,
    aten.upsample_nearest2d.vec,
    aten.upsample_bilinear2d.vec,
    aten.upsample_bicubic2d.vec,
    aten.upsample_nearest3d.vec,
    aten.upsample_trilinear3d.vec,
    aten.adaptive_avg_pool1d.default,
    aten.adaptive_avg_pool2d.default,
    aten.max_pool2d.default,
    aten.reflection_pad2d.default,
    aten.replication_pad2d.default,
    aten.pixel_shuffle.default,
    aten.pixel_unshuffle.default,
    aten.embedding_bag.default,
    aten._embedding_bag.default,
    aten.grid_sampler.default,
    aten.roll.default,
    aten.index_select.default,
    aten.tile.default,
}


_SIZE_TYPES = (torch.SymInt, torch.SymFloat, torch.SymBool, int, float)


class TensorRTPartitioner(Partitioner):
    """Partitions a program for TensorRT, with named optimization profiles.

    Use it with `to_edge_transform_and_lower(program, partitioner=[TensorRTPartitioner(profiles)])`.
    Every delegate of a method gets all the profiles, by name and in order.

    Args:
        profiles: What shapes the program's inputs may have; at least one for a dynamic program.
        options: How the engines are built.
        default_profile: The name of the profile that the method uses where neither a call, a pin
            nor the runtime's options name one. None: by input shape.

    Attributes:
        reasons: After partitioning, why each node outside was not taken, and why a buffer that the
            program writes stays with the caller: name of the node or the buffer -> reason.

    Raises:
        TypeError: `profiles` is no list of OptimizationProfile, or `options` no CompileOptions.
        ValueError: Two profiles have one name, or none has that of `default_profile`; when
            partitioning: a profile does not fit the program, with the input, the dim and the
            numbers, or an option the TensorRT.
    """

    def __init__(
        self,
        profiles: Sequence[OptimizationProfile] = (),
        *,
        options: CompileOptions = CompileOptions(),  # noqa: B008 (it is frozen)
        default_profile: str | None = None,
    ) -> None:
        super().__init__()
        if not isinstance(options, CompileOptions):
            raise TypeError(f"options must be CompileOptions, got {type(options).__name__}")
        self.profiles = check_profiles(profiles)
        self.options = options
        self.default_profile = default_profile
        names = [profile.name for profile in self.profiles]
        if default_profile is not None and default_profile not in names:
            raise ValueError(
                f"default_profile {default_profile!r} is no profile's name; the profiles are "
                f"{', '.join(names) or 'none'}"
            )
        self.reasons: dict[str, str] = {}

    def transform_for_pre_decomposition(self, exported_program: ExportedProgram) -> ExportedProgram:
        """Replaces slices from a number that `.item()` gives; see `replace_item_slices`.

        Checks profiles and options first, so that wrong ones fail before lowering.
        """
        self.options.check_flavour(import_tensorrt().flavour)
        resolved = resolve_profiles(exported_program, self.profiles)
        warn_uncovered_sizes(exported_program, resolved)
        return replace_item_slices(exported_program)

    def ops_to_not_decompose(
        self, ep: ExportedProgram
    ) -> tuple[list[torch._ops.OpOverload], Callable[[Node], bool] | None]:
        """Operators that stay whole: of `_KEPT_WHOLE`, those the program has and all are taken.

        ExecuTorch asks several times, the last time of the lowered program, where an operator
        in the answer must not be left over: hence none is named there.
        """
        if is_edge_program(ep):
            return [], None
        present = {node.target for node in ep.graph.nodes} & _KEPT_WHOLE
        if not present:
            return [], None
        taken = _PartitionSearch(ep, resolve_profiles(ep, self.profiles), self.options).run()
        inside = {node for nodes in taken for node in nodes}
        refused = {node.target for node in ep.graph.nodes if node not in inside}
        # Branches of control flow are never partitioned, so nothing there would take the operator.
        in_branches = {
            node.target
            for module in ep.graph_module.modules()
            if isinstance(module, GraphModule) and module is not ep.graph_module
            for node in module.graph.nodes
        }
        return sorted(present - refused - in_branches, key=str), None

    def report(self, edge_program: ExportedProgram) -> MethodReport:
        """What `partition` would take of an edge program and why not the rest; tags nothing.

        Raises:
            ValueError: A profile does not fit the program.
        """
        profiles = resolve_profiles(edge_program, self.profiles)
        search = _PartitionSearch(edge_program, profiles, self.options)
        partitions = search.run()
        return method_report(edge_program, partitions, search.reasons())

    def partition(self, exported_program: ExportedProgram) -> PartitionResult:
        """Tags the nodes of each partition, and the constants that only it uses.

        Raises:
            ValueError: A profile does not fit the program.
            RuntimeError: Another backend of the same name would build the partitions.
        """
        _check_backend()
        profiles = resolve_profiles(exported_program, self.profiles)
        search = _PartitionSearch(exported_program, profiles, self.options)
        partitions = search.run()
        self.reasons = search.described_reasons()
        report = method_report(exported_program, partitions, search.reasons())
        for index, nodes in enumerate(partitions):
            for node in nodes:
                node.meta["delegation_tag"] = f"tensorrt_{index}"
        tag_constant_data(exported_program)
        left = own_mutated_buffers(exported_program)
        self.reasons.update(
            {fqn: f"buffer '{fqn}' stays with the caller: {why}" for fqn, why in left.items()}
        )
        tags = {}
        for index, nodes in enumerate(partitions):
            whole = _is_whole(exported_program, nodes, left)
            tags[f"tensorrt_{index}"] = DelegationSpec(
                TensorRTBackend.__name__,
                compile_specs(
                    profiles,
                    self.options,
                    whole_method=whole,
                    default_profile=self.default_profile,
                    report=report if index == 0 else None,
                ),
            )
        _report(exported_program, partitions, self.reasons)
        return PartitionResult(exported_program, tags)


class _PartitionSearch:
    """Proposes partitions, and refuses nodes until every proposed partition can be an engine."""

    def __init__(
        self,
        program: ExportedProgram,
        profiles: Sequence[ProfileSymbols],
        options: CompileOptions,
    ) -> None:
        self._program = program
        self._options = options
        self._excluded: dict[Node, str] = {}
        self._support = NodeSupport(program, _symbols(profiles), options, self._excluded)

    def run(self) -> list[list[Node]]:
        """The partitions' nodes, in the program's order."""
        while True:
            partitions = propose_partitions(self._program.graph, self._support.takes)
            refused: dict[Node, str] = {}
            for nodes in partitions:
                refused.update(self._misfits(nodes))
            if not refused:
                return partitions
            # An element goes with its tuple; refused alone it would be proposed again and again.
            self._excluded.update({maker(node): why for node, why in refused.items()})

    def reasons(self) -> dict[Node, str]:
        """Why each node that computes something was not taken."""
        computing = (node for node in self._program.graph.nodes if node.op == "call_function")
        reasons = ((node, self._support.reason(node)) for node in computing)
        return {node: reason for node, reason in reasons if reason is not None}

    def described_reasons(self) -> dict[str, str]:
        """`reasons`, by node name, with the operator before each."""
        return {node.name: f"{describe(node)}: {why}" for node, why in self.reasons().items()}

    def _misfits(self, nodes: Sequence[Node]) -> dict[Node, str]:
        """The nodes that a partition cannot have, with the reason; the rest is proposed anew."""
        inside = set(nodes)
        misfits: dict[Node, str] = {}
        for node in nodes:
            if all(user in inside for user in node.users):
                continue
            if any(isinstance(value, _SIZE_TYPES) for value in node_values(node)):
                misfits[node] = "its size is used outside the partition"
            elif self._support.is_foldable(node):
                misfits[node] = "a constant that is used outside the partition"
        if misfits:
            return misfits
        computing = sum(is_computation(node) for node in nodes)
        if not computing:
            return dict.fromkeys(nodes, "computes no tensor in a partition")
        outer = {arg: None for node in nodes for arg in node.all_input_nodes if arg not in inside}
        tensors = [node for node in outer if self._is_tensor_input(node)]
        if not tensors:
            return dict.fromkeys(nodes, "its partition would have no tensor input")
        misfits = (
            self._channels_last(nodes, inside)
            or self._foreign_sizes(nodes, inside)
            or self._unknown_sizes(nodes, outer, tensors)
        )
        least = self._options.min_partition_operators
        if not misfits and computing < least:
            reason = f"its partition has {computing} operators; min_partition_operators is {least}"
            return dict.fromkeys(nodes, reason)
        return misfits

    def _channels_last(self, nodes: Sequence[Node], inside: set[Node]) -> dict[Node, str]:
        """Nodes around a channels-last tensor that crosses the border, and those that it leads to.

        Inside an engine the memory format is TensorRT's affair.
        """
        if not is_edge_program(self._program):
            return {}

        def laid_out(node: Node) -> bool:
            return self._is_tensor_input(node) and any(map(is_channels_last, node_values(node)))

        reached: set[Node] = set()
        waiting = [
            node
            for node in nodes
            if (laid_out(node) and any(user not in inside for user in node.users))
            or any(arg not in inside and laid_out(arg) for arg in node.all_input_nodes)
        ]
        while waiting:
            node = waiting.pop()
            if node in inside and node not in reached:
                reached.add(node)
                waiting.extend(node.users if laid_out(node) else ())
                waiting.extend(arg for arg in node.all_input_nodes if laid_out(arg))
        return dict.fromkeys(reached, "channels-last memory format at the partition's border")

    def _is_tensor_input(self, node: Node) -> bool:
        return not self._support.is_foldable(node) and any(
            isinstance(value, torch.Tensor) for value in node_values(node)
        )

    def _foreign_sizes(self, nodes: Sequence[Node], inside: set[Node]) -> dict[Node, str]:
        """Sizes of tensors that the partition needs for nothing else and has from its own too."""
        own = {
            arg
            for node in nodes
            if not is_size_node(node)
            for arg in node.all_input_nodes
            if arg not in inside and self._is_tensor_input(arg)
        }
        sources = size_sources(own)
        return {
            node: "the size of a tensor that its partition does not compute with"
            for node in nodes
            if is_size_node(node)
            and any(
                arg not in inside and arg not in own and self._is_tensor_input(arg)
                for arg in node.all_input_nodes
            )
            and isinstance(node.meta["val"], torch.SymInt)
            and can_rebuild(size_expr(node.meta["val"]), sources)
        }

    def _unknown_sizes(
        self, nodes: Sequence[Node], outer: Iterable[Node], tensors: Sequence[Node]
    ) -> dict[Node, str]:
        """Users of sizes from outside that no tensor input of the partition gives."""
        sources = size_sources(tensors)
        misfits: dict[Node, str] = {}
        for size in outer:
            value = size.meta.get("val")
            if isinstance(value, torch.Tensor | list | tuple):
                continue
            if isinstance(value, torch.SymInt) and can_rebuild(size_expr(value), sources):
                continue
            for node in nodes:
                if size in node.all_input_nodes:
                    misfits[node] = f"needs {value}, which no tensor input of its partition gives"
        return misfits


def _is_whole(program: ExportedProgram, nodes: Sequence[Node], left: Mapping[str, str]) -> bool:
    """Whether nothing but this partition will touch the program's inputs and outputs."""
    inside = set(nodes)
    if left or program.graph_signature.user_inputs_to_mutate:
        return False  # ExecuTorch copies those outside the delegate
    computing = (node for node in program.graph.nodes if node.op == "call_function")
    outputs = program.graph.output_node().all_input_nodes
    return all(node in inside for node in (*computing, *outputs))


def _symbols(profiles: Sequence[ProfileSymbols]) -> set[str]:
    return set().union(*(profile.symbols for profile in profiles))


def _check_backend() -> None:
    """ExecuTorch finds a backend by its class's name, and takes the last of several."""
    named = [cls for cls in BackendDetails.__subclasses__() if cls.__name__ == "TensorRTBackend"]
    if named and named[-1] is not TensorRTBackend:
        raise RuntimeError(
            f"'{named[-1].__module__}' defines a backend named TensorRTBackend too, and ExecuTorch "
            "would use that one; do not import it in the process that exports"
        )


def _report(
    program: ExportedProgram, partitions: Sequence[Sequence[Node]], reasons: dict[str, str]
) -> None:
    for reason in reasons.values():
        logger.debug("outside TensorRT: %s", reason)
    taken = sum(is_computation(node) for nodes in partitions for node in nodes)
    total = sum(is_computation(node) for node in program.graph.nodes)
    logger.info("TensorRT takes %d of %d operators in %d partitions", taken, total, len(partitions))
    if not partitions:
        why = "; ".join(sorted(set(reasons.values()))[:3]) or "the program computes nothing"
        warnings.warn(
            f"TensorRT takes no node of the program, so it will run on the CPU alone: {why}",
            stacklevel=2,
        )
