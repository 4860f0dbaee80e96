"""Writes delegate blobs with small TensorRT-RTX engines, inputs for them, and PyTorch's answers.

    python runtime/cpp/tests/gpu/make_engine_cases.py FOLDER

Needs no GPU. The C++ tests `TensorRTEngineCases` run them where there is one, with
EXECUTORCH_TENSORRT_ENGINE_CASES=FOLDER. In FOLDER, `cases.txt` has a line for each

    blob FILE                        a delegate blob, for the cases that follow
    case PROFILE TOLERANCE           one run, on this optimization profile of the engine
    input|output NAME DIMS FILE      a tensor's row-major bytes; DIMS such as 4x64, or scalar
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tensorrt_rtx as trt
import torch
from torch import Tensor

from executorch_tensorrt.backend.delegate_blob import (
    Binding,
    DelegateBlob,
    Flavour,
    HardwareCompatibility,
    Profile,
    ScalarType,
    Shape,
    ShapeRange,
    max_bytes,
)

DTYPES = {
    torch.float32: (trt.float32, ScalarType.FLOAT32),
    torch.float16: (trt.float16, ScalarType.FLOAT16),
    torch.bfloat16: (trt.bfloat16, ScalarType.BFLOAT16),
    torch.int32: (trt.int32, ScalarType.INT32),
    torch.int64: (trt.int64, ScalarType.INT64),
    torch.bool: (trt.bool, ScalarType.BOOL),
    torch.uint8: (trt.uint8, ScalarType.UINT8),
}
DYNAMIC_OUTPUT_BOUND = 1024  # no output dim is larger in these cases
LOGGER = trt.Logger(trt.Logger.ERROR)
Network = trt.INetworkDefinition
ITensor = trt.ITensor


@dataclass(frozen=True)
class Input:
    """An input of an engine: its dims, -1 where dynamic, and its ranges, one for each profile."""

    name: str
    dtype: torch.dtype
    dims: Shape
    ranges: Sequence[tuple[Shape, Shape, Shape]] = ()
    # Shape tensors only: the smallest, usual and largest values, in every profile.
    values: tuple[Shape, Shape, Shape] | None = None


@dataclass(frozen=True)
class Engine:
    """An engine, and the runs that are to give what `reference` gives."""

    name: str
    inputs: Sequence[Input]
    build: Callable[[Network, Mapping[str, ITensor]], Mapping[str, ITensor]]
    reference: Callable[..., Mapping[str, Tensor]]
    runs: Sequence[tuple[int, Sequence[Tensor]]]  # profile, inputs
    tolerance: float = 0.0
    num_profiles: int = 1


def affine() -> Engine:
    """relu(x W + b) and its sum over the sequence; profiles that meet at no sequence length."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(64, 32, generator=generator) / 8
    bias = torch.randn(1, 1, 32, generator=generator)

    def build(network: Network, tensors: Mapping[str, ITensor]) -> Mapping[str, ITensor]:
        w = network.add_constant((1, 64, 32), trt.Weights(weight.numpy())).get_output(0)
        b = network.add_constant((1, 1, 32), trt.Weights(bias.numpy())).get_output(0)
        none = trt.MatrixOperation.NONE
        y = network.add_matrix_multiply(tensors["x"], none, w, none).get_output(0)
        y = network.add_elementwise(y, b, trt.ElementWiseOperation.SUM).get_output(0)
        y = network.add_activation(y, trt.ActivationType.RELU).get_output(0)
        total = network.add_reduce(y, trt.ReduceOperation.SUM, axes=2, keep_dims=False)
        return {"y": y, "total": total.get_output(0)}

    def reference(x: Tensor) -> Mapping[str, Tensor]:
        y = torch.relu(x @ weight + bias)
        return {"y": y, "total": y.sum(1)}

    decode = ((1, 1, 64), (1, 1, 64), (8, 1, 64))
    prefill = ((1, 2, 64), (1, 16, 64), (4, 64, 64))
    shapes = [(0, (1, 1)), (1, (1, 16)), (0, (8, 1)), (1, (4, 64)), (1, (3, 2)), (0, (1, 1))]
    return Engine(
        name="affine",
        inputs=[Input("x", torch.float32, (-1, -1, 64), [decode, prefill])],
        build=build,
        reference=reference,
        runs=[(p, [torch.randn(*shape, 64, generator=generator)]) for p, shape in shapes],
        tolerance=2e-3,  # TensorRT may multiply in TF32
        num_profiles=2,
    )


def every_dtype() -> Engine:
    """A concatenation of each dtype with itself: the same bits come back, twice."""
    dtypes = [dtype for dtype in DTYPES if dtype != torch.uint8]

    def build(network: Network, tensors: Mapping[str, ITensor]) -> Mapping[str, ITensor]:
        return {
            f"twice_{name}": network.add_concatenation([tensor, tensor]).get_output(0)
            for name, tensor in tensors.items()
        }

    def reference(*inputs: Tensor) -> Mapping[str, Tensor]:
        names = [str(tensor.dtype).removeprefix("torch.") for tensor in inputs]
        return {f"twice_{n}": torch.cat([t, t]) for n, t in zip(names, inputs, strict=True)}

    def values(count: int) -> list[Tensor]:
        generator = torch.Generator().manual_seed(count)
        raw = torch.randint(-100, 100, (count, 3), generator=generator)
        wide = {torch.int64: 1 << 40, torch.int32: 1 << 20}
        return [(raw * wide.get(d, 1)).to(d) if d != torch.bool else raw > 0 for d in dtypes]

    return Engine(
        name="every_dtype",
        inputs=[
            Input(str(d).removeprefix("torch."), d, (-1, 3), [((0, 3), (4, 3), (16, 3))])
            for d in dtypes
        ],
        build=build,
        reference=reference,
        runs=[(0, values(count)) for count in (4, 16, 0, 1)],
    )


def bytes_and_scalars() -> Engine:
    """uint8 in and out by way of float, and tensors of rank 0; all static."""

    def build(network: Network, tensors: Mapping[str, ITensor]) -> Mapping[str, ITensor]:
        pixels = network.add_cast(tensors["pixels"], trt.float32).get_output(0)
        one = network.add_constant((), trt.Weights(torch.tensor(1.0).numpy())).get_output(0)
        scale = network.add_elementwise(tensors["scale"], one, trt.ElementWiseOperation.SUM)
        shape = network.add_shuffle(scale.get_output(0))
        shape.reshape_dims = (1,)
        scaled = network.add_elementwise(
            pixels, shape.get_output(0), trt.ElementWiseOperation.PROD
        ).get_output(0)
        back = network.add_cast(scaled, trt.uint8).get_output(0)
        return {"scaled": scaled, "pixels_out": back, "scale_out": scale.get_output(0)}

    def reference(pixels: Tensor, scale: Tensor) -> Mapping[str, Tensor]:
        scaled = pixels.float() * (scale + 1)
        return {"scaled": scaled, "pixels_out": scaled.to(torch.uint8), "scale_out": scale + 1}

    pixels = torch.arange(48).to(torch.uint8)
    return Engine(
        name="bytes_and_scalars",
        inputs=[Input("pixels", torch.uint8, (48,)), Input("scale", torch.float32, ())],
        build=build,
        reference=reference,
        runs=[(0, [pixels, torch.tensor(scale)]) for scale in (0.0, 1.0, 4.0)],
    )


def shape_tensor() -> Engine:
    """x reshaped to the dims that an input holds, read on the host."""

    def build(network: Network, tensors: Mapping[str, ITensor]) -> Mapping[str, ITensor]:
        shuffle = network.add_shuffle(tensors["x"])
        shuffle.set_input(1, tensors["dims"])
        two = network.add_constant((1, 1), trt.Weights(torch.tensor([[2.0]]).numpy()))
        doubled = network.add_elementwise(
            shuffle.get_output(0), two.get_output(0), trt.ElementWiseOperation.PROD
        )
        return {"y": doubled.get_output(0)}

    def reference(x: Tensor, dims: Tensor) -> Mapping[str, Tensor]:
        return {"y": 2 * x.reshape(dims.tolist())}

    return Engine(
        name="shape_tensor",
        inputs=[
            Input("x", torch.float32, (-1,), [((1,), (12,), (64,))]),
            Input("dims", torch.int64, (2,), values=((1, 1), (3, 4), (64, 64))),
        ],
        build=build,
        reference=reference,
        runs=[
            (0, [torch.arange(a * b).float(), torch.tensor([a, b])])
            for a, b in ((3, 4), (4, 3), (1, 64), (8, 8))
        ],
    )


def add_profile(builder: trt.Builder, config: trt.IBuilderConfig, engine: Engine, p: int) -> None:
    """Adds the ranges of profile `p` to the build."""
    profile = builder.create_optimization_profile()
    for tensor in engine.inputs:
        if tensor.values is not None:
            profile.set_shape_input(tensor.name, *tensor.values)
        elif -1 in tensor.dims:
            profile.set_shape(tensor.name, *tensor.ranges[p])
    assert config.add_optimization_profile(profile) == p


def plan_of(engine: Engine) -> tuple[bytes, list[tuple[str, Shape]]]:
    """The serialized engine, and its outputs in order with their dims."""
    builder = trt.Builder(LOGGER)
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    tensors = {i.name: network.add_input(i.name, DTYPES[i.dtype][0], i.dims) for i in engine.inputs}
    outputs = engine.build(network, tensors)
    for name, tensor in outputs.items():
        tensor.name = name
        network.mark_output(tensor)
    config = builder.create_builder_config()
    if any(-1 in tensor.dims for tensor in engine.inputs):
        for p in range(engine.num_profiles):
            add_profile(builder, config, engine, p)
    plan = builder.build_serialized_network(network, config)
    if plan is None:
        raise SystemExit(f"{engine.name}: TensorRT-RTX built no engine")
    return bytes(plan), [(name, tuple(tensor.shape)) for name, tensor in outputs.items()]


def ranges_of(tensor: Input, p: int) -> ShapeRange:
    """What an input's shape may be under profile `p`."""
    if -1 in tensor.dims:
        return ShapeRange(*tensor.ranges[p])
    return ShapeRange(tensor.dims, tensor.dims, tensor.dims)


def blob_of(engine: Engine) -> DelegateBlob:
    """The engine, built, in the blob that a delegate would carry."""
    plan, outputs = plan_of(engine)
    bindings = []
    for argument, tensor in enumerate(engine.inputs):
        dtype = DTYPES[tensor.dtype][1]
        upper = [ranges_of(tensor, p).max for p in range(engine.num_profiles)]
        bindings.append(
            Binding(
                name=tensor.name,
                dtype=dtype,
                is_input=True,
                is_shape_tensor=tensor.values is not None,
                argument=argument,
                dims=tensor.dims,
                max_bytes=max_bytes(dtype, upper),
            )
        )
    answers = engine.reference(*engine.runs[0][1])
    for name, dims in outputs:
        dtype = DTYPES[answers[name].dtype][1]
        upper = tuple(DYNAMIC_OUTPUT_BOUND if dim < 0 else dim for dim in dims)
        bindings.append(
            Binding(
                name=name,
                dtype=dtype,
                is_input=False,
                is_shape_tensor=False,
                argument=len(bindings),
                dims=dims,
                max_bytes=max_bytes(dtype, [upper]),
            )
        )
    major, minor, patch, build = (int(part) for part in trt.__version__.split("."))
    return DelegateBlob(
        engine_id=hashlib.sha256(plan).digest(),
        flavour=Flavour.TENSORRT_RTX,
        version=(major, minor, patch, build),
        compute_capability=(0, 0),
        hardware_compatibility=HardwareCompatibility.NONE,
        version_compatible=False,
        num_arguments=len(bindings),
        bindings=tuple(bindings),
        profiles=tuple(
            Profile(f"profile{p}", p, tuple(ranges_of(tensor, p) for tensor in engine.inputs))
            for p in range(engine.num_profiles)
        ),
        build_options={},
        engine=plan,
    )


def raw_bytes(tensor: Tensor) -> bytes:
    """A tensor's elements, row-major, as they lie in memory."""
    return bytes(tensor.contiguous().reshape(-1).view(torch.uint8).numpy())


def write(engine: Engine, folder: Path) -> list[str]:
    """Writes the engine's files into `folder`; gives its lines of cases.txt."""
    blob = f"{engine.name}.blob"
    (folder / blob).write_bytes(blob_of(engine).to_bytes())
    lines = [f"blob {blob}"]
    for r, (profile, inputs) in enumerate(engine.runs):
        lines.append(f"case {profile} {engine.tolerance}")
        names = [tensor.name for tensor in engine.inputs]
        tensors = [("input", *pair) for pair in zip(names, inputs, strict=True)]
        tensors += [("output", *item) for item in engine.reference(*inputs).items()]
        for kind, name, tensor in tensors:
            file = f"{engine.name}.{r}.{name}.bin"
            (folder / file).write_bytes(raw_bytes(tensor))
            dims = "x".join(map(str, tensor.shape)) or "scalar"
            lines.append(f"{kind} {name} {dims} {file}")
    return lines


def main(folder: Path) -> None:
    """Writes every engine's files into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for engine in (affine(), every_dtype(), bytes_and_scalars(), shape_tensor()):
        lines += write(engine, folder)
        print(f"{engine.name}: {len(engine.runs)} cases")
    (folder / "cases.txt").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(Path(sys.argv[1]))
