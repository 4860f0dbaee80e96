"""Builds the engines of several partitions: each engine once, several at a time if asked to."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from torch.fx import GraphModule

from .blob_types import ShapeRange
from .build_progress import cancel_builds
from .compile_options import CompileOptions
from .engine import Engine
from .engine_builder import EngineBuild, define_network, ready_module, return_freed_memory
from .engine_cache import EngineCache
from .engine_fingerprint import engine_fingerprint

logger = logging.getLogger("executorch_tensorrt")

# Between looks for Ctrl-C: a signal that another thread got reaches Python when the main one wakes.
_LOOK_SECONDS = 0.2
# What a build may need of host memory beside what is there already, in multiples of the weights.
_BUILD_MEMORY = 4


@dataclass(frozen=True)
class EngineRequest:
    """An engine to build.

    Attributes:
        where: The partition, for errors.
        module: Makes the graph that `define_network` takes.
        ranges: For each engine profile, one range for each placeholder of the graph.
        options: How to build.
    """

    where: str
    module: Callable[[], GraphModule]
    ranges: Sequence[tuple[ShapeRange, ...]]
    options: CompileOptions


def build_engines(requests: Sequence[EngineRequest]) -> list[Engine]:
    """The requests' engines, in order. What is asked for twice is built once.

    Networks are defined one after another. TensorRT builds as many of them at a time as the options
    of a request say (`parallel_builds`), fewer while host memory is short.

    Raises:
        EngineBuildError: An engine could not be built; the message begins with its `where`. Builds
            that have not begun are dropped.
        ImportError: TensorRT is not installed.
        KeyboardInterrupt: Ctrl-C was pressed. TensorRT has stopped then.
    """
    most = max((request.options.parallel_builds for request in requests), default=1)
    builds: list[Future[Engine]] = []
    known: dict[str, Future[Engine]] = {}
    with ThreadPoolExecutor(most, "engine-build") as pool:
        _start_threads(pool, most)
        try:
            for request in requests:
                with naming(request.where):
                    builds.append(_started(request, pool, known, len(requests) > 1))
            engines = []
            for request, build in zip(requests, builds, strict=True):
                with naming(request.where):
                    engines.append(_result(build))
        except BaseException as error:
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(error, KeyboardInterrupt):
                logger.warning("interrupted; waiting for TensorRT to stop at its next step")
                cancel_builds()
            _wait_through_interrupts(builds)
            raise
    return engines


def _start_threads(pool: ThreadPoolExecutor, count: int) -> None:
    """Starts the pool's threads before there is work.

    Of one that Ctrl-C interrupts the start of, the pool knows nothing, and would not wait for what
    it builds.
    """
    barrier = threading.Barrier(count)
    for ready in [pool.submit(barrier.wait) for _ in range(count)]:
        ready.result()


def _result(build: Future[Engine]) -> Engine:
    while not build.done():
        wait([build], _LOOK_SECONDS)
    return build.result()


def _wait_through_interrupts(builds: Collection[Future[Engine]]) -> None:
    """However often Ctrl-C is pressed: what builds uses what the caller would free.

    (An interrupted Thread.join takes a thread that still runs for one that has ended.)
    """
    while not all(build.done() for build in builds):
        with contextlib.suppress(KeyboardInterrupt):
            wait(builds, _LOOK_SECONDS)


@contextlib.contextmanager
def naming(where: str) -> Iterator[None]:
    """Puts the partition in front of what went wrong with it."""
    try:
        yield
    except (ValueError, RuntimeError) as error:
        error.args = (f"{where}: {error}",)
        raise


def _started(
    request: EngineRequest,
    pool: ThreadPoolExecutor,
    known: dict[str, Future[Engine]],
    compare: bool,
) -> Future[Engine]:
    """The build of a request, begun unless it has been; `compare` with those in `known`."""
    options = request.options
    module = ready_module(request.module())
    cache = None
    key = ""
    if options.engine_cache_dir is not None:
        cache = EngineCache(options.engine_cache_dir, options.engine_cache_bytes)
    if cache is not None or compare:
        key = engine_fingerprint(module, request.ranges, options)
        if key in known:
            logger.info("%s has the engine of another partition", request.where)
            return known[key]
    engine = None if cache is None else cache.get(key)
    build: Future[Engine]
    if engine is None:
        _wait_for_memory(_weight_bytes(module), options.parallel_builds, known.values())
        build = pool.submit(_built, define_network(module, request.ranges, options), cache, key)
    else:
        logger.info("took an engine of %.1f MB from the engine cache", engine.plan.nbytes / 1e6)
        build = Future()
        build.set_result(engine)
    known[key or str(len(known))] = build
    return build


def _built(build: EngineBuild, cache: EngineCache | None, key: str) -> Engine:
    engine = build.run()
    return_freed_memory()
    if cache is not None:
        cache.put(key, engine)
    return engine


def _wait_for_memory(weights: int, parallel: int, builds: Collection[Future[Engine]]) -> None:
    """Returns once fewer than `parallel` builds run, and one of so many bytes of weights fits."""
    while running := {build for build in builds if not build.done()}:
        if len(running) < parallel and _BUILD_MEMORY * weights <= available_memory_bytes():
            return
        wait(running, _LOOK_SECONDS, return_when=FIRST_COMPLETED)


def _weight_bytes(module: GraphModule) -> int:
    constants = (getattr(module, node.target) for node in module.graph.find_nodes(op="get_attr"))
    return sum({constant.data_ptr(): constant.nbytes for constant in constants}.values())


def available_memory_bytes() -> int:
    """Host memory that can be had without swapping, as far as the system tells."""
    with contextlib.suppress(OSError, ValueError), open("/proc/meminfo") as file:
        for line in file:
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    return 2**63 - 1
