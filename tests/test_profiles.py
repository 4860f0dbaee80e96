"""OptimizationProfile: what it takes, what it refuses, and what it says when it does."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from executorch_tensorrt.profiles import DimRange, OptimizationProfile, check_profiles


def test_a_size_becomes_a_range_of_three_equal_numbers() -> None:
    profile = OptimizationProfile("decode", {"tokens": [1, (2, 4, 8)]})
    assert profile.ranges["tokens"] == (DimRange(1, 1, 1), DimRange(2, 4, 8))


def test_a_scalar_input_has_an_empty_shape() -> None:
    assert OptimizationProfile("p", {"x": []}).ranges["x"] == ()


def test_zero_is_a_size() -> None:
    assert OptimizationProfile("p", {"x": [(0, 0, 4)]}).ranges["x"] == (DimRange(0, 0, 4),)


def test_profiles_with_the_same_contents_are_equal_and_hash_alike() -> None:
    first = OptimizationProfile("p", {"x": [(1, 2, 3)], "y": [4]})
    second = OptimizationProfile("p", {"y": (DimRange(4, 4, 4),), "x": [[1, 2, 3]]})
    assert first == second
    assert hash(first) == hash(second)
    assert first != OptimizationProfile("p", {"x": [(1, 2, 4)], "y": [4]})


def test_a_profile_cannot_be_changed() -> None:
    shapes = {"x": [1]}
    profile = OptimizationProfile("p", shapes)
    shapes["x"] = [2]
    assert profile.ranges["x"] == (DimRange(1, 1, 1),)
    with pytest.raises(TypeError):
        profile.shapes["x"] = [2]  # type: ignore[index]
    with pytest.raises(AttributeError):
        profile.name = "q"  # type: ignore[misc]


def test_a_profile_survives_pickling() -> None:
    profile = OptimizationProfile("p", {"x": [1, (1, 2, 3)]})
    assert pickle.loads(pickle.dumps(profile)) == profile


def test_its_repr_is_how_it_is_written() -> None:
    profile = OptimizationProfile("p", {"x": [1, (1, 2, 3)]})
    assert eval(repr(profile)) == profile


@pytest.mark.parametrize(
    ("name", "error", "message"),
    [
        ("", ValueError, "must not be empty"),
        (3, TypeError, "must be a str, got 3"),
        ("a\0b", ValueError, "NUL"),
        ("\ud800", ValueError, "not valid Unicode"),
        ("é" * 101, ValueError, "has 202 bytes as UTF-8; at most 200"),
    ],
)
def test_a_wrong_name_is_refused(name: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        OptimizationProfile(name, {"x": [1]})  # type: ignore[arg-type]


def test_a_name_of_200_bytes_is_taken() -> None:
    assert OptimizationProfile("é" * 100, {}).name == "é" * 100


@pytest.mark.parametrize(
    ("shapes", "error", "message"),
    [
        ([1], TypeError, "profile 'p': shapes must map input names to shapes, got list"),
        ({3: [1]}, TypeError, "profile 'p': an input's name must be a str, got 3"),
        ({"x": 3}, TypeError, "profile 'p', input 'x': a shape must be a list .* got 3"),
        ({"x": "12"}, TypeError, "profile 'p', input 'x': a shape must be a list"),
        ({"x": [1, -2]}, ValueError, "'p', input 'x', dim 1: a size must be at least 0, got -2"),
        ({"x": [True]}, TypeError, r"'p', input 'x', dim 0: .* got True \(bool\)"),
        ({"x": [1.5]}, TypeError, r"'p', input 'x', dim 0: .* got 1.5 \(float\)"),
        ({"x": [None]}, TypeError, r"'p', input 'x', dim 0: .* got None \(NoneType\)"),
        ({"x": [(1, True, 2)]}, TypeError, r"dim 0: .* got True \(bool\)"),
        ({"x": [(1, 2)]}, ValueError, r"dim 0: a range is \(min, opt, max\), got 2 numbers"),
        ({"x": [7, (5, 4, 8)]}, ValueError, "'p', input 'x', dim 1: min 5 is above opt 4"),
        ({"x": [(1, 9, 8)]}, ValueError, "'p', input 'x', dim 0: opt 9 is above max 8"),
    ],
)
def test_a_wrong_shape_is_refused(shapes: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        OptimizationProfile("p", shapes)  # type: ignore[arg-type]


def test_a_repeated_name_is_refused_with_both_places() -> None:
    one, other = OptimizationProfile("a", {}), OptimizationProfile("b", {})
    assert check_profiles([one, other]) == (one, other)
    with pytest.raises(ValueError, match=r"profiles\[0\] and profiles\[2\] are both named 'a'"):
        check_profiles([one, other, OptimizationProfile("a", {"x": [1]})])


def test_anything_but_a_list_of_profiles_is_refused() -> None:
    with pytest.raises(TypeError, match=r"write \[profile\]"):
        check_profiles(OptimizationProfile("a", {}))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"profiles\[0\] must be an OptimizationProfile, got dict"):
        check_profiles([{"x": [1]}])  # type: ignore[list-item]


def test_profiles_import_neither_torch_nor_tensorrt() -> None:
    code = (
        "import sys, executorch_tensorrt.profiles\n"
        "print([m for m in ('torch', 'tensorrt', 'numpy', 'executorch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
