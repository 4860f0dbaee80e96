"""A partition's graph to a serialized TensorRT engine."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import math
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._subclasses.fake_tensor import is_fake, unset_fake_temporarily
from torch.fx import GraphModule, Node

from .aten_graph import add_tensor_metadata
from .build_progress import build_with_progress
from .builder_config import configure, save_timing_cache, use_timing_cache
from .compile_options import CompileOptions
from .delegate_blob import Flavour, ShapeRange
from .engine import Engine, EngineBuildError
from .gated_activations import refuse_lost_bias
from .symbol_ranges import ProfileSymbols

logger = logging.getLogger("executorch_tensorrt")

aten = torch.ops.aten

# Converters of these take a Python number as second operand where the graph has a 0-d constant.
_NUMBER_OPERAND = {
    aten.add.Tensor,
    aten.sub.Tensor,
    aten.mul.Tensor,
    aten.div.Tensor,
    aten.div.Tensor_mode,
    aten.remainder.Tensor,
    aten.fmod.Tensor,
    aten.pow.Tensor_Tensor,
    aten.eq.Tensor,
    aten.ne.Tensor,
    aten.lt.Tensor,
    aten.le.Tensor,
    aten.gt.Tensor,
    aten.ge.Tensor,
    aten.floor_divide.default,
}


def distinct_ranges(
    inputs: Sequence[torch.Tensor], profiles: Sequence[ProfileSymbols]
) -> tuple[list[tuple[ShapeRange, ...]], list[int]]:
    """Every input's shape range under each profile, each combination once, and each profile's.

    Returns:
        The distinct combinations, in the order of their first profile, which are the engine's
        profiles; and for every profile the index of its own.
    """
    distinct: dict[tuple[ShapeRange, ...], int] = {}
    indices = []
    for profile in profiles:
        ranges = tuple(shape_range(value, profile) for value in inputs)
        indices.append(distinct.setdefault(ranges, len(distinct)))
    return list(distinct), indices


def shape_range(value: torch.Tensor, profile: ProfileSymbols) -> ShapeRange:
    """The shapes a fake tensor may have under a profile."""
    dims = [profile.bound(size) for size in value.shape]
    return ShapeRange(
        min=tuple(dim.min for dim in dims),
        opt=tuple(dim.opt for dim in dims),
        max=tuple(dim.max for dim in dims),
    )


def ready_module(module: GraphModule) -> GraphModule:
    """The graph as converters want it, before anything that depends on how it is built."""
    use_number_operands(module)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module


@dataclass(frozen=True)
class EngineBuild:
    """A network and its configuration, of which `run` makes an engine.

    Attributes:
        interpreter: Keeps the network, and the weights that TensorRT only points to.
        config: The builder's configuration.
        options: What it was configured by.
        num_outputs: Outputs that the engine must have.
        network_seconds: What it took to define the network.
        gpu: The GPU that it was defined for, which another thread must make its own; None without.
    """

    interpreter: Any
    config: Any
    options: CompileOptions
    num_outputs: int
    network_seconds: float
    gpu: int | None

    def run(self) -> Engine:
        """Builds the engine, without the GIL; several builds may run at once.

        Raises:
            EngineBuildError: TensorRT built none; the message holds its own.
        """
        interpreter, config = self.interpreter, self.config
        logger.info(
            "building an engine of %d layers with %d optimization profiles",
            interpreter.ctx.net.num_layers,
            config.num_optimization_profiles,
        )
        started = time.perf_counter()
        device = contextlib.nullcontext() if self.gpu is None else torch.cuda.device(self.gpu)
        with collected_errors() as errors, device:
            try:
                plan = build_with_progress(interpreter.builder, interpreter.ctx.net, config)
            except Exception as error:
                raise EngineBuildError(_failure(str(error) or repr(error), errors)) from error
            if plan is None:
                raise EngineBuildError(_failure("TensorRT built no engine", errors))
        if len(interpreter._output_names) != self.num_outputs:
            raise EngineBuildError(
                f"the engine has {len(interpreter._output_names)} outputs, the partition "
                f"{self.num_outputs}"
            )
        view = memoryview(plan).cast("B")
        refuse_lost_bias(view)
        save_timing_cache(config, self.options)
        logger.info(
            "built an engine of %.1f MB in %.1f s (network: %.1f s), peak memory so far %.1f MB",
            plan.nbytes / 1e6,
            self.network_seconds + time.perf_counter() - started,
            self.network_seconds,
            peak_memory_bytes() / 1e6,
        )
        return Engine(
            plan=view,
            input_names=tuple(interpreter._input_names),
            output_names=tuple(interpreter._output_names),
            num_profiles=config.num_optimization_profiles,
            compute_capability=_compute_capability(self.options),
        )


def define_network(
    module: GraphModule, ranges: Sequence[tuple[ShapeRange, ...]], options: CompileOptions
) -> EngineBuild:
    """Converts a graph to a network with one TensorRT profile for each entry of `ranges`.

    Args:
        module: What `ready_module` gives: ATen graph whose placeholders are the engine's inputs,
            constants its attributes. It is consumed: Torch-TensorRT's passes rewrite it.
        ranges: For each engine profile, one range for each placeholder.
        options: How to build.

    Raises:
        EngineBuildError: A converter failed or TensorRT refused the network; the message holds
            TensorRT's own.
        ImportError: TensorRT is not installed.
    """
    from .converters import Interpreter, converter_registry, settings, tensorrt

    options.check_flavour(tensorrt.flavour)
    _require_gpu(tensorrt.flavour is Flavour.TENSORRT_RTX)
    with collected_errors() as errors, converter_registry(options):
        try:
            module = _lowered(module, options)
            outputs = _outputs(module)
            interpreter = Interpreter(
                module, _input_specs(module, ranges), outputs, settings(options)
            )
            started = time.perf_counter()
            with torch.no_grad():
                interpreter._construct_trt_network_def()
            seconds = time.perf_counter() - started
            config = interpreter._populate_trt_builder_config()
            configure(config, options)
            use_timing_cache(config, options)
        except Exception as error:
            raise EngineBuildError(_failure(str(error) or repr(error), errors)) from error
    gpu = torch.cuda.current_device() if torch.cuda.is_available() else None
    return EngineBuild(interpreter, config, options, len(outputs), seconds, gpu)


def return_freed_memory() -> None:
    """Gives back to the system what TensorRT's builder freed, more than the engine has."""
    with contextlib.suppress(OSError, AttributeError):  # not glibc
        ctypes.CDLL(None).malloc_trim(0)


def peak_memory_bytes() -> int:
    """The most memory that this process has had resident so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _require_gpu(is_rtx: bool) -> None:
    if not is_rtx and not torch.cuda.is_available():
        raise EngineBuildError(
            "TensorRT builds engines on the GPU they are for, and there is no CUDA GPU here; "
            "TensorRT-RTX (pip install 'executorch-tensorrt[rtx]') builds without one"
        )


def _compute_capability(options: CompileOptions) -> tuple[int, int]:
    """TensorRT ties an engine to the GPU it was built on; TensorRT-RTX only to one asked for."""
    from .converters import tensorrt

    if tensorrt.flavour is not Flavour.TENSORRT_RTX:
        major, minor = torch.cuda.get_device_capability()
        return major, minor
    if len(options.compute_capabilities) != 1:
        return 0, 0
    major, minor = map(int, options.compute_capabilities[0].split("."))
    return major, minor


def _lowered(module: GraphModule, options: CompileOptions) -> GraphModule:
    """Torch-TensorRT's own passes: constant folding, dead code, operators without a converter."""
    from torch_tensorrt.dynamo.lowering import post_lowering

    from .converters import settings
    from .quantized_converters import keep_quantized

    _forget_pending_symbols(module)
    keep_quantized(module)
    module = post_lowering(module, settings(options))
    for node in module.graph.nodes:
        if "val" in node.meta and "tensor_meta" not in node.meta:
            add_tensor_metadata(node)
        if node.op == "get_attr":
            # TensorRT gets a constant's address, which must be of the memory that stays.
            constant = getattr(module, node.target)
            constant.data = constant.data.contiguous()
    return module


def _forget_pending_symbols(module: GraphModule) -> None:
    """Symbols of nonzero() and the like elsewhere in the program, left over from tracing it again.

    The shape environment is the whole program's. This graph has none of them, and the passes fail
    on finding some that no node here makes.
    """
    for node in module.graph.nodes:
        fake_mode = getattr(node.meta.get("val"), "fake_mode", None)
        if fake_mode is not None and fake_mode.shape_env is not None:
            fake_mode.shape_env.pending_fresh_unbacked_symbols.clear()
            return


def use_number_operands(module: GraphModule) -> None:
    """Undoes ExecuTorch's lifting of Python numbers to 0-d constants, where converters expect one.

    A network is strongly typed, so a 0-d float32 constant would not multiply a float16 tensor.
    """
    for node in list(module.graph.find_nodes(op="get_attr")):
        constant = getattr(module, node.target)
        is_number = isinstance(constant, torch.Tensor) and constant.dim() == 0  # or a branch
        if not is_number or not _fits_int32(constant):
            continue
        for user in list(node.users):
            if user.target not in _NUMBER_OPERAND or len(user.args) < 2 or user.args[1] is not node:
                continue
            if isinstance(user.args[0], Node) and user.args[0] is not node:
                user.args = (user.args[0], _number(constant), *user.args[2:])


def _fits_int32(constant: torch.Tensor) -> bool:
    """Converters make an int32 of a Python int; a larger one stays an int64 constant."""
    limits = torch.iinfo(torch.int32)
    return bool(constant.dtype != torch.int64 or limits.min <= _number(constant) <= limits.max)


def _number(constant: torch.Tensor) -> float:
    """A 0-d constant's value; while partitioning, a stand-in for one that is a weight."""
    with unset_fake_temporarily():
        value = torch.zeros((), dtype=constant.dtype) if is_fake(constant) else constant
        number: float = value.item()
        return number


def _outputs(module: GraphModule) -> list[torch.Tensor]:
    return [node.meta["val"] for node in module.graph.output_node().args[0]]


def _input_specs(module: GraphModule, ranges: Sequence[tuple[ShapeRange, ...]]) -> list[object]:
    from torch_tensorrt import Input

    specs: list[object] = []
    for index, node in enumerate(module.graph.find_nodes(op="placeholder")):
        value = node.meta["val"]
        own = [profile[index] for profile in ranges]
        if len({shape for bounds in own for shape in (bounds.min, bounds.opt, bounds.max)}) == 1:
            specs.append(Input(shape=own[0].opt, dtype=value.dtype, name=node.name))
            continue
        profiles = [
            {"min_shape": bounds.min, "opt_shape": bounds.opt, "max_shape": bounds.max}
            for bounds in own
        ]
        specs.append(Input(profiles=profiles, dtype=value.dtype, name=node.name))
    return specs


def output_bytes(value: torch.Tensor, profiles: Sequence[ProfileSymbols]) -> int:
    """Bytes of a tensor whose every dim is its largest over all profiles."""
    sizes = [max(profile.bound(size).max for profile in profiles) for size in value.shape]
    return int(math.prod(sizes) * value.dtype.itemsize)


# TensorRT's error messages by the thread that collects them.
_collectors: dict[int, list[str]] = {}
_LOGGER = logging.getLogger("torch_tensorrt [TensorRT Conversion Context]")


@contextlib.contextmanager
def collected_errors() -> Iterator[list[str]]:
    """TensorRT's error messages in this thread, which Torch-TensorRT sends to a logger of its own.

    Its chatter is dropped, and where no GPU is also its complaints about that: TensorRT-RTX builds
    all the same.
    """
    thread = threading.get_ident()
    messages: list[str] = []
    outer = _collectors.get(thread)
    _collectors[thread] = messages
    if _collect not in _LOGGER.filters:
        _LOGGER.addFilter(_collect)
    try:
        yield messages
    finally:
        if outer is None:
            del _collectors[thread]
        else:
            _collectors[thread] = outer


def _collect(record: logging.LogRecord) -> bool:
    """Takes a message to who collects in its thread; one of a thread of TensorRT's to everyone."""
    collectors = dict(_collectors)
    if not collectors:
        return True
    text = record.getMessage()
    if record.levelno < logging.ERROR:
        return record.levelno == logging.WARNING
    if torch.cuda.is_available() or "cuda" not in text.lower():
        own = collectors.get(record.thread or 0)
        for messages in collectors.values() if own is None else (own,):
            messages.append(text)
    return False


def _failure(why: str, errors: Sequence[str]) -> str:
    # Each failure cascades into many messages; the first says most, the last says where it ended.
    said = [*errors[:2], *errors[2:][-2:]]
    return why + ("; TensorRT said: " + " | ".join(said) if said else "")
