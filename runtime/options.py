"""Options that are chosen when a program is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

NativeOption = tuple[str, bool | int | str]


@dataclass(frozen=True)
class RuntimeOptions:
    """How a loaded program selects profiles and where it runs.

    Attributes:
        default_profile: The profile to use where neither the call nor :func:`optimization_profile`
            names one, by name or by index in declared order; or a mapping from method names to
            that, or to ``None``: by input shape. Methods that are not in it, and ``None`` in place
            of it: the default that the method was exported with, else by input shape.
        profile_selection: ``"sticky"`` keeps the active profile while it fits, else takes the first
            in declared order that does. ``"first_fit"`` always takes the first that fits.
        profile_contexts: ``"per_profile"`` gives each profile an execution context of its own;
            ``"single"`` switches one between them, which needs less memory and makes switches slow.
        cuda_graphs: Whether executions whose shapes and addresses recur are replayed as CUDA
            graphs, one launch each. Without effect with a ``"single"`` context of several profiles.
        max_cuda_graphs: The most CUDA graphs kept for each profile, 1 or more; the least recently
            used go.
        device_id: The ordinal of the GPU, where :func:`load` was given none, as CUDA counts them
            (after ``CUDA_VISIBLE_DEVICES``).
        weight_streaming_budget: How many bytes of an engine's weights stay on the GPU; the rest
            streams from host memory in each call. For engines built with
            ``CompileOptions(weight_streaming=True)``. ``None``: all of them stay.
        share_state: Whether the methods that one :func:`load` loads have their states in common:
            what they call the same is the same, and must have the same dtype, shape and initial
            value, such as the KV cache of a prefill and a decode method.
        engine_host_code_allowed: Whether an engine may contain host code, which version-compatible
            engines do. It runs with the rights of the process.

    Raises:
        ValueError: For a value that is none of these, naming it.
    """

    default_profile: str | int | Mapping[str, str | int | None] | None = None
    profile_selection: Literal["sticky", "first_fit"] = "sticky"
    profile_contexts: Literal["per_profile", "single"] = "per_profile"
    cuda_graphs: bool = True
    max_cuda_graphs: int = 16
    device_id: int = 0
    weight_streaming_budget: int | None = None
    share_state: bool = False
    engine_host_code_allowed: bool = False

    def __post_init__(self) -> None:
        _check_choice("profile_selection", self.profile_selection, ("sticky", "first_fit"))
        _check_choice("profile_contexts", self.profile_contexts, ("per_profile", "single"))
        _check_count("max_cuda_graphs", self.max_cuda_graphs, least=1)
        _check_count("device_id", self.device_id)
        if self.weight_streaming_budget is not None:
            _check_count("weight_streaming_budget", self.weight_streaming_budget, most=2**63)
        _check_flag("cuda_graphs", self.cuda_graphs)
        _check_flag("share_state", self.share_state)
        _check_flag("engine_host_code_allowed", self.engine_host_code_allowed)
        defaults = self.default_profile
        for value in defaults.values() if isinstance(defaults, Mapping) else (defaults,):
            _check_default_profile(value)

    def for_method(
        self, method: str, device: str | None, state_group: str = ""
    ) -> list[NativeOption]:
        """Return the native options of one method; ``device`` is :func:`load`'s.

        ``state_group``: what the methods that share their state have in common; empty: none do.
        """
        options: list[NativeOption] = [
            ("profile_selection", self.profile_selection),
            ("profile_contexts", self.profile_contexts),
            ("device", "auto" if device is None else device),
            ("cuda_graphs", self.cuda_graphs),
            ("max_cuda_graphs", self.max_cuda_graphs),
            ("device_id", self.device_id),
            ("state_group", state_group),
            ("engine_host_code_allowed", self.engine_host_code_allowed),
        ]
        if self.weight_streaming_budget is not None:
            options.append(("weight_streaming_budget", str(self.weight_streaming_budget)))
        default = self.default_profile
        if isinstance(default, Mapping):
            by_shape = method in default and default[method] is None
            default = "" if by_shape else default.get(method)
        if isinstance(default, str):
            options.append(("default_profile", default))
        elif default is not None:
            options.append(("default_profile_index", default))
        return options

    def check_methods(self, names: list[str]) -> None:
        """Refuse a default profile for a method that the program does not have."""
        if isinstance(self.default_profile, Mapping):
            for method in self.default_profile:
                if method not in names:
                    raise ValueError(
                        f"default_profile names method {method!r}; the program has "
                        f"{', '.join(names)}"
                    )


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}, not {value!r}")


def _check_count(name: str, value: object, *, least: int = 0, most: int = 2**31) -> None:
    if type(value) is not int or not least <= value < most:
        raise ValueError(f"{name} must be an int of {least} or more, not {value!r}")


def _check_flag(name: str, value: object) -> None:
    if type(value) is not bool:
        raise ValueError(f"{name} must be a bool, not {value!r}")


def _check_default_profile(value: object) -> None:
    if value is None or (isinstance(value, str) and value):
        return
    if type(value) is not int or value < 0:
        raise ValueError(
            f"default_profile must be a profile's name or its index from 0, not {value!r}"
        )
