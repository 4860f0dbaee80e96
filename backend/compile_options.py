"""What a user may say about how engines are built."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

MAX_OPTIMIZATION_LEVEL = 5


@dataclass(frozen=True)
class CompileOptions:
    """How every engine of a program is built.

    Args:
        cpu_fallback: Each delegate also carries an ExecuTorch program of its partition for the CPU
            (XNNPACK where it can be), so that the same `.pte` runs where no GPU is. The program
            grows by the weights once more.
        optimization_level: TensorRT's builder optimization level, 0 (quickest build) to 5 (fastest
            engine). None: TensorRT's default.
        workspace_bytes: Upper bound in bytes on the scratch memory one engine layer may use.
            None: TensorRT's default, all of the GPU's memory.
        tf32: Let float32 matrix products and convolutions use TF32, which is faster and has a
            10-bit mantissa. Off, float32 engines agree with eager PyTorch to about 1e-4.

    Raises:
        TypeError: An option has the wrong type.
        ValueError: An option is out of its range.
    """

    cpu_fallback: bool = False
    optimization_level: int | None = None
    workspace_bytes: int | None = None
    tf32: bool = False

    def __post_init__(self) -> None:
        for name in ("cpu_fallback", "tf32"):
            value = getattr(self, name)
            if not isinstance(value, bool):
                raise TypeError(f"CompileOptions.{name} must be a bool, got {value!r}")
        _check_int("optimization_level", self.optimization_level, 0, MAX_OPTIMIZATION_LEVEL)
        _check_int("workspace_bytes", self.workspace_bytes, 1, None)

    def to_json(self) -> bytes:
        """The options as JSON, for a compile spec."""
        return json.dumps(asdict(self), sort_keys=True).encode()

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
        """Every option as text, for the delegate blob's build options."""
        return {name: str(value) for name, value in sorted(asdict(self).items())}


def _check_int(name: str, value: object, low: int, high: int | None) -> None:
    if value is None:
        return
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"CompileOptions.{name} must be an int or None, got {value!r}")
    if value < low or (high is not None and value > high):
        bounds = f"{low}..{high}" if high is not None else f"at least {low}"
        raise ValueError(f"CompileOptions.{name} must be {bounds}, got {value}")
