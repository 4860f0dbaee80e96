"""The BUILD files: what they pack is what CMake builds, and what versions they say."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tools" / "bazel_check"))

from check import source_files  # noqa: E402
from module_file import read_module, workspace_file  # noqa: E402
from packages import Packages, packaging_faults  # noqa: E402

FILES = [f for f in source_files() if (ROOT / f).is_file()]


def append(path: str, text: str) -> Callable[[Path], None]:
    return lambda root: (root / path).open("a").write(text)


def replace(path: str, old: str, new: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        text = (root / path).read_text()
        assert old in text
        (root / path).write_text(text.replace(old, new))

    return change


def add(path: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).touch()

    return change


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of all that the packages' contents follow from."""
    for name in FILES:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if re.search(r"(BUILD\.bazel|\.bzl|CMakeLists\.txt)$", name):
            shutil.copy(ROOT / name, path)
        else:
            path.touch()
    return tmp_path


def faults_of(tree: Path) -> list[str]:
    files = [str(p.relative_to(tree)) for p in tree.rglob("*") if p.is_file()]
    return packaging_faults(tree, files)


def test_what_cmake_builds_is_packed_and_what_is_packed_is_built() -> None:
    assert packaging_faults(ROOT, FILES) == []


def test_the_source_package_is_not_empty() -> None:
    shipped = Packages(ROOT, FILES).files_of("//:source_files")
    assert {
        "CMakeLists.txt",
        "runtime/cpp/src/backend.cpp",
        "runtime/cpp/include/executorch_tensorrt/options.h",
        "examples/multi_profile/multi_profile_main.cpp",
    } <= shipped


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (
            append("CMakeLists.txt", "add_library(new runtime/cpp/new/new.cpp)"),
            "runtime/cpp/new/new.cpp is not in the source package",
        ),
        (
            append("benchmarks/CMakeLists.txt", "add_executable(new deeper/new.cpp)"),
            "benchmarks/deeper/new.cpp is not in the source package",
        ),
        (
            add("runtime/cpp/src/orphan.cpp"),
            "runtime/cpp/src/orphan.cpp is shipped, but no CMakeLists.txt names it",
        ),
        (
            replace("runtime/cpp/BUILD.bazel", '"src/*.h",', '"src/d*.h",'),
            "runtime/cpp/src/engine.h is not in the source package",
        ),
        (
            replace(
                "runtime/cpp/BUILD.bazel",
                'glob(["include/executorch_tensorrt/*.h"])',
                'glob(["include/executorch_tensorrt/*.h"], exclude = ["**/options.h"])',
            ),
            "runtime/cpp/include/executorch_tensorrt/options.h is not in the include package",
        ),
        (
            replace("examples/multi_profile/BUILD.bazel", 'glob(["**"])', 'glob(["**"], ["*.md"])'),
            "examples/multi_profile/README.md is not in the source package",
        ),
    ],
)
def test_a_file_that_is_forgotten_is_found(
    tree: Path, change: Callable[[Path], None], fault: str
) -> None:
    assert faults_of(tree) == []
    change(tree)
    assert fault in faults_of(tree)


def test_every_build_system_says_the_same_version() -> None:
    def said(path: str, pattern: str) -> str:
        found = re.search(pattern, (ROOT / path).read_text(), re.MULTILINE)
        assert found, path
        return found[1]

    version = said("pyproject.toml", r'^version = "(.*)"')
    assert said("MODULE.bazel", r'^    version = "(.*)"') == version
    assert said("bazel/defs.bzl", r'^VERSION = "(.*)"') == version
    example = said("examples/multi_profile/CMakeLists.txt", r"find_package\(\w+ ([\d.]+) ")
    assert version.startswith(example + ".")


def test_cmake_and_bazel_download_the_same_tensorrt_headers() -> None:
    _, _, sdks = read_module(ROOT / "MODULE.bazel")
    (tensorrt,) = [sdk for sdk in sdks if sdk["name"] == "tensorrt"]
    tag = re.search(r"set\(TENSORRT_TAG v(\S+)", (ROOT / "cmake/TensorRTHeaders.cmake").read_text())
    assert tag
    assert tensorrt["urls"] == [
        f"https://github.com/NVIDIA/TensorRT/archive/refs/tags/v{tag[1]}.tar.gz"
    ]
    assert tensorrt["strip_prefix"] == f"TensorRT-{tag[1]}"


def test_the_workspace_for_debians_bazel_has_every_repository_of_the_module() -> None:
    workspace = workspace_file(ROOT / "MODULE.bazel")
    loaded = {
        repository
        for name in FILES
        if name.endswith((".bazel", ".BUILD", ".bzl")) and "standins" not in name
        for repository in re.findall(r'"@(\w+)', (ROOT / name).read_text())
    }
    assert {"executorch", "rules_cc", "rules_pkg"} <= loaded
    for repository in loaded - {"platforms"}:
        assert f'name = "{repository}"' in workspace or f"name = '{repository}'" in workspace


def test_without_bazel_the_check_says_that_it_was_skipped(tmp_path: Path) -> None:
    # As a user who may install nothing.
    code = (
        "import sys, os; sys.argv = ['check.py']; os.geteuid = lambda: 1000;"
        f"sys.path.insert(0, {str(ROOT / 'tools/bazel_check')!r}); import check; check.main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PATH": str(tmp_path)},
    )
    assert done.stdout.startswith("SKIPPED: no bazel-4 here.")
