"""What each compile option does to an engine, or why it is refused."""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from typing import Any

import pytest
import torch
from models import Mlp, Transformer, blobs, seeded
from tensorrt_flavour import rtx_only

from executorch_tensorrt import CompileOptions, OptimizationProfile, export
from executorch_tensorrt.backend import builder_config, converters
from executorch_tensorrt.backend.delegate_blob import DelegateBlob, Flavour, HardwareCompatibility
from executorch_tensorrt.backend.engine import EngineBuildError


def blob_of(**options: Any) -> DelegateBlob:
    tokens = torch.zeros(1, 8, dtype=torch.long)
    profiles = [OptimizationProfile("p", {"tokens": [1, (1, 8, 16)]})]
    model = seeded(Transformer, 1)
    [blob] = blobs(export(model, (tokens,), profiles=profiles, options=CompileOptions(**options)))
    return blob


def header(blob: DelegateBlob, name: str) -> set[str]:
    """A field of the description that TensorRT-RTX writes into its engines."""
    found = re.findall(rf"  {name}=([^\n]*)".encode(), blob.engine)
    return {value.decode() for value in found} - {"{*}"}


@rtx_only
def test_engines_say_whether_they_may_use_tf32() -> None:
    assert header(blob_of(), "tf32") == {"0"}
    assert header(blob_of(tf32=True), "tf32") == {"1"}


@rtx_only
def test_engines_are_for_the_compute_capabilities_asked_for() -> None:
    assert header(blob_of(), "hardware_forward_compatibility") == {"1"}
    one = blob_of(compute_capabilities=("8.6",))
    assert header(one, "accelerators") == {"{sm86 }"}
    assert header(one, "hardware_forward_compatibility") == {"0"}
    assert one.compute_capability == (8, 6)
    two = blob_of(compute_capabilities=["8.9", "12.0"])
    assert header(two, "accelerators") == {"{sm89 sm120 }"}
    assert two.compute_capability == (0, 0)


@rtx_only
def test_a_compute_capability_that_is_not_built_for_is_refused_with_those_that_are() -> None:
    with pytest.raises(EngineBuildError, match=r"holds '3\.5'; this TensorRT-RTX builds for 7\.5"):
        blob_of(compute_capabilities=("3.5",))


def test_weight_streaming_reaches_the_engine() -> None:
    plain, streaming = blob_of(), blob_of(weight_streaming=True)
    assert plain.engine != streaming.engine
    assert streaming.build_options["weight_streaming"] == "True"


def test_a_workspace_that_is_too_small_is_tensorrt_s_error() -> None:
    with pytest.raises(EngineBuildError, match="workspace"):
        blob_of(workspace_bytes=1)


@rtx_only
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hardware_compatibility": "ampere_plus"}, "run on any GPU since Ampere as they are"),
        ({"version_compatible": True}, "with the version that built them alone"),
    ],
)
def test_what_tensorrt_rtx_cannot_do_is_refused_before_lowering(
    options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=f"not to be had with TensorRT-RTX: .*{message}"):
        blob_of(**options)


@rtx_only
@pytest.mark.parametrize("option", [{"sparse_weights": True}, {"optimization_level": 5}])
def test_what_changes_nothing_is_warned_of(
    option: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "executorch_tensorrt"):
        assert blob_of(**option).engine == blob_of().engine
    assert f"CompileOptions.{next(iter(option))} changes nothing here" in caplog.text


# --- TensorRT, as far as it can be seen without one ----------------------------------------------


class Config:
    """Records what is set on a builder configuration."""

    def __init__(self) -> None:
        self.flags: set[Any] = set()
        self.hardware_compatibility_level: Any = None
        self.cache: Any = None

    def set_flag(self, flag: Any) -> None:
        self.flags.add(flag)

    def create_timing_cache(self, data: bytes) -> Any:
        return None if data == b"damaged" else TimingCache(data)

    def set_timing_cache(self, cache: Any, ignore_mismatch: bool) -> bool:
        assert ignore_mismatch is False
        self.cache = cache
        return True

    def get_timing_cache(self) -> Any:
        return self.cache


@dataclasses.dataclass
class TimingCache:
    data: bytes

    def serialize(self) -> bytes:
        return self.data + b"+"


@pytest.fixture
def with_tensorrt(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = dataclasses.replace(converters.tensorrt, flavour=Flavour.TENSORRT)
    monkeypatch.setattr(converters, "tensorrt", changed)


def test_options_reach_tensorrt_s_configuration(with_tensorrt: None) -> None:
    config, flags = Config(), converters.trt.BuilderFlag
    options = CompileOptions(
        sparse_weights=True,
        version_compatible=True,
        weight_streaming=True,
        hardware_compatibility="same_compute_capability",
    )
    options.check_flavour(Flavour.TENSORRT)
    builder_config.configure(config, options)
    assert config.flags == {
        flags.SPARSE_WEIGHTS,
        flags.VERSION_COMPATIBLE,
        flags.WEIGHT_STREAMING,
    }
    level = converters.trt.HardwareCompatibilityLevel.SAME_COMPUTE_CAPABILITY
    assert config.hardware_compatibility_level == level
    in_blob = builder_config.hardware_compatibility(options)
    assert in_blob == HardwareCompatibility.SAME_COMPUTE_CAPABILITY


def test_compute_capabilities_are_refused_with_tensorrt() -> None:
    with pytest.raises(ValueError, match="not to be had with TensorRT, which builds for the GPU"):
        CompileOptions(compute_capabilities=("8.6",)).check_flavour(Flavour.TENSORRT)


def test_a_timing_cache_is_kept_beside_the_engines(
    with_tensorrt: None, tmp_path: Any, caplog: pytest.LogCaptureFixture
) -> None:
    options = CompileOptions(engine_cache_dir=tmp_path / "made")
    for before in (b"", b"+"):
        config = Config()
        builder_config.use_timing_cache(config, options)
        assert config.cache.data == before
        builder_config.save_timing_cache(config, options)
    [name] = os.listdir(tmp_path / "made")
    assert name.startswith("timing_")
    (tmp_path / "made" / name).write_bytes(b"damaged")
    builder_config.use_timing_cache(config, options)
    assert config.cache.data == b""
    assert "of another GPU or damaged" in caplog.text


# --- Values --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"weight_streaming": 1}, TypeError, "weight_streaming must be a bool, got 1"),
        ({"hardware_compatibility": "turing"}, ValueError, "ampere_plus, same_compute.* 'turing'"),
        ({"compute_capabilities": "8.6"}, TypeError, "compute_capabilities must be a tuple of str"),
        ({"compute_capabilities": ("sm86",)}, ValueError, "holds 'sm86'; it must be such as '8.6'"),
        ({"cpu_operators": ("gelu",)}, ValueError, "holds 'gelu'; it must be such as 'aten.gelu'"),
        ({"cpu_operators": (3,)}, ValueError, "cpu_operators holds 3"),
        ({"min_partition_operators": 0}, ValueError, "must be at least 1, got 0"),
        ({"min_partition_operators": None}, TypeError, "must be an int, got None"),
        ({"engine_cache_dir": 3}, TypeError, "engine_cache_dir must be a path or None, got 3"),
        ({"engine_cache_bytes": 0}, ValueError, "engine_cache_bytes must be at least 1, got 0"),
    ],
)
def test_wrong_values_are_refused_by_name(
    values: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        CompileOptions(**values)


def test_options_survive_their_compile_spec_but_for_this_machine_s() -> None:
    options = CompileOptions(
        cpu_operators=["aten.gelu"], compute_capabilities=["8.6"], engine_cache_dir="somewhere"
    )
    assert options.cpu_operators == ("aten.gelu",)
    assert b"somewhere" not in options.to_json()
    again = CompileOptions.from_json(options.to_json())
    assert again == dataclasses.replace(options, engine_cache_dir=None)
    assert options.described()["cpu_operators"] == "aten.gelu"


def test_every_option_is_in_its_page() -> None:
    page = os.path.join(os.path.dirname(__file__), "..", "docs", "compile_options.md")
    with open(page) as file:
        text = file.read()
    named = set(re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE))
    assert named == {option.name for option in dataclasses.fields(CompileOptions)}


def test_a_model_without_profiles_takes_options_too() -> None:
    [blob] = blobs(export(seeded(Mlp), (torch.zeros(2, 8),), options=CompileOptions(tf32=True)))
    assert blob.build_options["tf32"] == "True"


def test_options_survive_their_compile_spec() -> None:
    options = CompileOptions(True, 4, 1 << 30, True)
    assert CompileOptions.from_json(options.to_json()) == options
    assert CompileOptions.from_json(CompileOptions().to_json()) == CompileOptions()


@pytest.mark.parametrize(
    ("values", "error", "message"),
    [
        ({"cpu_fallback": 1}, TypeError, "CompileOptions.cpu_fallback must be a bool, got 1"),
        ({"tf32": None}, TypeError, "CompileOptions.tf32 must be a bool, got None"),
        ({"optimization_level": 6}, ValueError, r"optimization_level must be 0..5, got 6"),
        ({"optimization_level": -1}, ValueError, r"optimization_level must be 0..5, got -1"),
        ({"optimization_level": True}, TypeError, "must be an int or None, got True"),
        ({"workspace_bytes": 0}, ValueError, "workspace_bytes must be at least 1, got 0"),
        ({"workspace_bytes": 1.5}, TypeError, "workspace_bytes must be an int or None, got 1.5"),
    ],
)
def test_wrong_options_are_refused(
    values: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        CompileOptions(**values)


def test_options_of_a_newer_version_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"compile options \['speed'\] are not known"):
        CompileOptions.from_json(b'{"speed": 11}')
