"""What a user may say about how engines are built."""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, fields
from typing import Any

from .blob_types import Flavour

MAX_OPTIMIZATION_LEVEL = 5
HARDWARE_COMPATIBILITY_LEVELS = ("ampere_plus", "same_compute_capability")
DEFAULT_ENGINE_CACHE_BYTES = 10 * 1024**3

_OPERATOR = re.compile(r"[A-Za-z_]\w*\.\w+(\.\w+)?")
_FILE_NAME = re.compile(r"[\w-][\w.-]*")
_COMPUTE_CAPABILITY = re.compile(r"\d{1,2}\.\d")

# What says how this machine builds, and nothing about a program; never written into one.
_OF_THIS_MACHINE = ("engine_cache_dir", "engine_cache_bytes", "parallel_builds")


@dataclass(frozen=True)
class CompileOptions:
    """How every engine of a program is built. docs/compile_options.md says more on each.

    Args:
        cpu_fallback: Each delegate also carries an ExecuTorch program of its partition for the CPU
            (XNNPACK where it can be), so that the same `.pte` runs where no GPU is. The program
            grows by the weights once more.
        optimization_level: TensorRT's builder optimization level, 0 (quickest build) to 5 (fastest
            engine). None: TensorRT's default. TensorRT-RTX optimizes when it loads an engine, so
            there it changes nothing.
        workspace_bytes: Upper bound in bytes on the scratch memory one engine layer may use.
            None: TensorRT's default, all of the GPU's memory.
        tf32: Let float32 matrix products and convolutions use TF32, which is faster and has a
            10-bit mantissa. Off, float32 engines agree with eager PyTorch to about 1e-4; but
            TensorRT-RTX on compute capability 9.0 (H100, H200) uses TF32 all the same (measured:
            5e-4), unless NVIDIA_TF32_OVERRIDE=0 is in the environment of both the export and the
            program that runs the engine.
        weight_streaming: Weights may stay in host memory and be streamed to the GPU in each call,
            for models larger than its memory; `RuntimeOptions.weight_streaming_budget` says how
            many bytes of them stay on the GPU.
        sparse_weights: Use sparse tensor cores for weights of which two in any four neighbours are
            zero. TensorRT only; changes nothing with TensorRT-RTX.
        hardware_compatibility: "ampere_plus": engines run on any GPU since Ampere;
            "same_compute_capability": on any GPU of the generation they are built on. None: on the
            GPU model they are built on. TensorRT only: engines of TensorRT-RTX run on any GPU since
            Ampere as it is, see `compute_capabilities`.
        version_compatible: Engines also run with newer versions of TensorRT, which then needs
            `RuntimeOptions.engine_host_code_allowed`. TensorRT only.
        compute_capabilities: GPU generations to build for, such as ("8.6", "12.0"). Empty: Ampere
            and everything newer. TensorRT-RTX only.
        cpu_operators: Operators that stay on the CPU, such as "aten.gelu" (every overload) or
            "aten.gelu.default", by their name in the lowered program.
        contiguous_positions: Positions that an input gives for the rows of a cache always count up
            by ones from a first one that is not negative, as those of a decoder do. The cache is
            then written in place, by TensorRT's KV-cache layer; calls with other positions are
            refused. Off, such positions may be any, and the cache is copied in each call.
        min_partition_operators: Parts of the program with fewer operators than this stay on the
            CPU.
        engine_cache_dir: Directory that keeps engines, so that one already built is not built
            again. Several processes may share it. With TensorRT its timing cache is kept there too.
        engine_cache_bytes: Most bytes of engines that the directory keeps; the least recently used
            go first.
        parallel_builds: Engines that are built at a time, where a program has several partitions
            or methods; fewer while host memory is short. With TensorRT, builds measure kernels on
            the GPU and several at once disturb each other's figures. The bytes do not depend on it
            with TensorRT-RTX.
        engine_data_file: Name of a data file, without a folder, that the engines are put into
            instead of the `.pte`: `program.write_tensor_data_to_file(folder)` writes it as
            `<name>.ptd`, and the runtime is given both (`load(..., data=...)`).

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of its range.
    """

    cpu_fallback: bool = False
    optimization_level: int | None = None
    workspace_bytes: int | None = None
    tf32: bool = False
    weight_streaming: bool = False
    sparse_weights: bool = False
    hardware_compatibility: str | None = None
    version_compatible: bool = False
    compute_capabilities: tuple[str, ...] = ()
    cpu_operators: tuple[str, ...] = ()
    contiguous_positions: bool = False
    min_partition_operators: int = 1
    engine_cache_dir: str | None = None
    engine_cache_bytes: int = DEFAULT_ENGINE_CACHE_BYTES
    parallel_builds: int = 1
    engine_data_file: str | None = None

    def __post_init__(self) -> None:
        for name in (
            "cpu_fallback",
            "tf32",
            "weight_streaming",
            "sparse_weights",
            "version_compatible",
            "contiguous_positions",
        ):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise TypeError(f"CompileOptions.{name} must be a bool, got {value!r}")
        _check_int("optimization_level", self.optimization_level, 0, MAX_OPTIMIZATION_LEVEL)
        _check_int("workspace_bytes", self.workspace_bytes, 1, None)
        _check_int("min_partition_operators", self.min_partition_operators, 1, None, optional=False)
        _check_int("engine_cache_bytes", self.engine_cache_bytes, 1, None, optional=False)
        _check_int("parallel_builds", self.parallel_builds, 1, None, optional=False)
        level = self.hardware_compatibility
        if level is not None and level not in HARDWARE_COMPATIBILITY_LEVELS:
            raise ValueError(
                "CompileOptions.hardware_compatibility must be one of "
                f"{', '.join(HARDWARE_COMPATIBILITY_LEVELS)} or None, got {level!r}"
            )
        self._set_texts("compute_capabilities", _COMPUTE_CAPABILITY, "such as '8.6'")
        self._set_texts("cpu_operators", _OPERATOR, "such as 'aten.gelu' or 'aten.gelu.default'")
        file = self.engine_data_file
        if file is not None and not (isinstance(file, str) and _FILE_NAME.fullmatch(file)):
            raise ValueError(
                "CompileOptions.engine_data_file must be a file's name without folder, such as "
                f"'model' for model.ptd, or None; got {file!r}"
            )
        if self.engine_cache_dir is not None:
            if not isinstance(self.engine_cache_dir, str | os.PathLike):
                raise TypeError(
                    "CompileOptions.engine_cache_dir must be a path or None, got "
                    f"{self.engine_cache_dir!r}"
                )
            object.__setattr__(self, "engine_cache_dir", os.fspath(self.engine_cache_dir))

    def _set_texts(self, name: str, pattern: re.Pattern[str], example: str) -> None:
        """Checks an option of several strings, and makes a tuple of a list."""
        value: Any = getattr(self, name)
        if isinstance(value, str) or not isinstance(value, list | tuple):
            raise TypeError(f"CompileOptions.{name} must be a tuple of str, got {value!r}")
        for item in value:
            if not isinstance(item, str) or not pattern.fullmatch(item):
                raise ValueError(f"CompileOptions.{name} holds {item!r}; it must be {example}")
        # Frozen: the normalised value takes the place of what the caller passed.
        object.__setattr__(self, name, tuple(value))

    def check_flavour(self, flavour: Flavour) -> None:
        """Refuses what engines of this TensorRT cannot be.

        Raises:
            ValueError: Naming the option and what to do instead.
        """
        if flavour is Flavour.TENSORRT_RTX:
            for name, instead in _TENSORRT_ONLY.items():
                if getattr(self, name):
                    raise ValueError(
                        f"CompileOptions.{name}={getattr(self, name)!r} is not to be had with "
                        f"TensorRT-RTX: {instead}"
                    )
        elif self.compute_capabilities:
            raise ValueError(
                f"CompileOptions.compute_capabilities={self.compute_capabilities!r} is not to be "
                "had with TensorRT, which builds for the GPU it runs on; see hardware_compatibility"
            )

    def to_json(self) -> bytes:
        """The options as JSON, for a compile spec; without those of this machine alone."""
        return json.dumps(self._of_program(), sort_keys=True).encode()

    def machine_json(self) -> bytes:
        """The options of this machine alone, for a compile spec that ends with preprocessing."""
        return json.dumps({name: getattr(self, name) for name in _OF_THIS_MACHINE}).encode()

    @staticmethod
    def from_json(text: bytes) -> CompileOptions:
        """Reads what `to_json` wrote.

        Raises:
            ValueError: An option that this version does not know.
        """
        values = json.loads(text)
        unknown = sorted(set(values) - {option.name for option in fields(CompileOptions)})
        if unknown:
            raise ValueError(f"compile options {unknown} are not known to this version")
        return CompileOptions(**values)

    def described(self) -> dict[str, str]:
        """The options as text, for the delegate blob's build options."""
        return {
            name: ", ".join(value) if isinstance(value, tuple) else str(value)
            for name, value in sorted(self._of_program().items())
        }

    def _of_program(self) -> dict[str, Any]:
        values = asdict(self)
        for name in _OF_THIS_MACHINE:
            del values[name]
        return values


_TENSORRT_ONLY = {
    "hardware_compatibility": (
        "its engines run on any GPU since Ampere as they are; for others see compute_capabilities"
    ),
    "version_compatible": "its engines run with the version that built them alone",
}


def _check_int(
    name: str, value: object, low: int, high: int | None, *, optional: bool = True
) -> None:
    if value is None and optional:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        kind = "an int or None" if optional else "an int"
        raise TypeError(f"CompileOptions.{name} must be {kind}, got {value!r}")
    if value < low or (high is not None and value > high):
        bounds = f"{low}..{high}" if high is not None else f"at least {low}"
        raise ValueError(f"CompileOptions.{name} must be {bounds}, got {value}")
