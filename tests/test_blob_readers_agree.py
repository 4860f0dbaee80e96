"""The Python and the C++ reader of the delegate blob, on the same bytes.

tests/fuzz/fuzz_readers.py does it for as long as one likes.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_blob import plain_blob

from executorch_tensorrt.backend import delegate_blob
from executorch_tensorrt.backend.delegate_blob import (
    Binding,
    DelegateBlob,
    Profile,
    ScalarType,
    ShapeRange,
    State,
    StateMode,
    max_bytes,
)

sys.path.insert(0, str(Path(__file__).parent / "fuzz"))

from blob_mutations import Parts, mutate, seeds
from cpp_reader import CppReader, disagreement, program, python_verdict


@pytest.fixture(scope="module")
def reader() -> Iterator[CppReader]:
    path = program()
    if path is None:
        pytest.skip("the C++ reader is not built: make test-cpp")
    with CppReader(path) as running:
        yield running


def test_both_accept_every_seed_and_read_the_same(reader: CppReader) -> None:
    for blob in seeds():
        assert disagreement(blob, reader) is None
        assert python_verdict(blob).startswith("accepted")
        assert Parts.of(blob).seal() == blob


def test_agree_on_every_truncation_and_every_other_number_in_each_place(reader: CppReader) -> None:
    for blob in seeds()[:3]:
        parts = Parts.of(blob)
        for at in range(len(parts.metadata)):
            cut = replace(parts, metadata=parts.metadata[:at])
            assert disagreement(cut.seal(), reader) is None
            for value in (0, 1, 2**31, 2**32 - 1):
                number = value.to_bytes(4, "little")
                metadata = parts.metadata[:at] + number + parts.metadata[at + 4 :]
                assert disagreement(replace(parts, metadata=metadata).seal(), reader) is None


@pytest.mark.parametrize("seed", range(8))
def test_agree_on_mutated_blobs(reader: CppReader, seed: int) -> None:
    chance, pool = random.Random(seed), seeds()
    accepted = 0
    for _ in range(1000):
        blob = mutate(chance, pool)
        assert disagreement(blob, reader) is None
        if python_verdict(blob).startswith("accepted"):
            accepted += 1
            pool.append(blob)
    assert 10 < accepted < 990  # mutations that are all refused, or none, would try little


def test_agree_on_the_shortest_states_that_may_be(reader: CppReader) -> None:
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
    y = Binding("y", ScalarType.FLOAT32, False, 0, (), 4)
    states = tuple(
        State(name, ScalarType.BOOL, (), letters[2 * i], letters[2 * i + 1], StateMode.PING_PONG)
        for i, name in enumerate(letters[:26])
    )
    blob = plain_blob(bindings=(replace(y, name="output"),), states=states).to_bytes()
    assert disagreement(blob, reader) is None
    assert python_verdict(blob).startswith("accepted")


sizes = st.one_of(st.integers(0, 4), st.sampled_from([2**31, 2**40, 2**62, 2**63 - 1]))
names = st.one_of(st.sampled_from(["x", "y", ""]), st.text(max_size=4), st.just("é" * 129))
engine = b"an engine"


@st.composite
def blobs(draw: st.DrawFn) -> DelegateBlob:
    """A blob that is right, or has one or two fields that are not."""

    def perhaps(value: Any, others: st.SearchStrategy[Any]) -> Any:
        return draw(others) if draw(st.integers(0, 15)) == 15 else value

    numbers = st.sampled_from([0, 1, 2, 255, 2**32 - 1])
    count = draw(st.integers(0, 3))
    dims = [tuple(draw(st.lists(st.one_of(st.just(-1), sizes), max_size=3))) for _ in range(count)]
    dtypes = draw(st.lists(st.sampled_from(ScalarType), min_size=count + 1, max_size=count + 1))
    profiles = []
    for index in range(draw(st.integers(1, 3))):
        ranges = []
        for shape in dims:
            bounds = [
                sorted(draw(st.lists(sizes, min_size=3, max_size=3))) if size < 0 else [size] * 3
                for size in shape
            ]
            low, opt, high = (tuple(bound[i] for bound in bounds) for i in range(3))
            ranges.append(ShapeRange(low, perhaps(opt, st.just(high)), perhaps(high, st.just(low))))
        name = perhaps(f"profile{index}", names)
        profiles.append(Profile(name, perhaps(index, numbers), tuple(ranges)))
    bindings = []
    for index, shape in enumerate(dims):
        tops = [profile.inputs[index].max for profile in profiles]
        most = perhaps(max_bytes(dtypes[index], tops) % 2**64, sizes)
        name = perhaps(f"input{index}", names)
        argument = perhaps(index, numbers)
        bindings.append(Binding(name, dtypes[index], True, argument, shape, most))
    size = dtypes[count].itemsize * 8
    bindings.append(Binding("y", dtypes[count], False, count, (-1, 8), perhaps(size * 3, sizes)))
    return plain_blob(
        num_arguments=perhaps(count + 1, numbers),
        bindings=tuple(bindings),
        profiles=tuple(profiles),
        build_options=perhaps({}, st.dictionaries(names, names, max_size=3)),
        fallback=perhaps(None, st.just(b"a program")),
    )


@settings(max_examples=600, deadline=None, suppress_health_check=list(HealthCheck))
@given(blob=blobs())
def test_agree_on_blobs_that_are_right_or_nearly(reader: CppReader, blob: DelegateBlob) -> None:
    fallback = b"" if blob.fallback is None else bytes(blob.fallback)
    metadata = delegate_blob._write_metadata(blob, len(engine), len(fallback))
    data = Parts(1, delegate_blob.VERSION_MINOR, metadata, engine, fallback).seal()
    assert disagreement(data, reader) is None
