"""What is installed: the library and its borders, the headers, the metadata, the sdist."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
DISTRIBUTION = importlib.metadata.distribution("executorch-tensorrt")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
HEADERS = ROOT / "runtime/cpp/include/executorch_tensorrt"


def installed(pattern: str) -> Path:
    """The one installed file whose path in site-packages matches `pattern`."""
    (found,) = [f for f in DISTRIBUTION.files or () if re.fullmatch(pattern, str(f))]
    return Path(str(DISTRIBUTION.locate_file(found)))


def library() -> Path:
    return installed(r"executorch_tensorrt/lib/libexecutorch_tensorrt\.so")


def binding() -> Path:
    return installed(r"executorch_tensorrt/runtime/_runtime\..*so")


def dynamic_section(path: Path) -> dict[str, list[str]]:
    """The libraries that an ELF file needs and where it looks for them."""
    text = subprocess.run(
        ["readelf", "--dynamic", "--wide", path], capture_output=True, text=True, check=True
    ).stdout
    section: dict[str, list[str]] = {"NEEDED": [], "RUNPATH": []}
    for tag, value in re.findall(r"\((NEEDED|RUNPATH)\).*\[(.*)\]", text):
        section[tag] += value.split(":")
    return section


def test_the_installed_version_is_the_projects() -> None:
    assert DISTRIBUTION.version == PROJECT["version"]


def test_running_a_program_requires_neither_torch_nor_tensorrt() -> None:
    required = [r for r in DISTRIBUTION.requires or () if "extra ==" not in r]
    names = {re.split(r"[<>=!~ ;]", requirement)[0] for requirement in required}
    assert names == {"executorch", "numpy"}


@pytest.mark.parametrize("extra", ["rtx", "tensorrt", "cli", "demo", "test"])
def test_every_promised_extra_is_there(extra: str) -> None:
    assert extra in DISTRIBUTION.metadata.get_all("Provides-Extra", [])


def test_the_library_is_free_of_python_torch_cuda_and_tensorrt() -> None:
    needed = dynamic_section(library())["NEEDED"]
    assert "libexecutorch.so" in needed
    assert not [n for n in needed if re.search(r"python|torch_|c10|cuda|cudart|nvinfer|rtx", n)]


def test_the_library_finds_executorch_beside_its_package() -> None:
    assert dynamic_section(library())["RUNPATH"] == ["$ORIGIN/../../executorch/lib"]


def test_the_library_exports_only_its_own_names() -> None:
    text = subprocess.run(
        ["nm", "--dynamic", "--defined-only", "--demangle", library()],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    names = [line.split(maxsplit=2)[2] for line in text.splitlines()]
    foreign = [
        name
        for name in names
        if not re.match(r"((typeinfo|vtable)( name)? for )?executorch_tensorrt(::|_)", name)
    ]
    assert foreign == []
    assert any("OptimizationProfileGuard" in name for name in names)
    assert any("last_error_message" in name for name in names)


def test_the_binding_loads_the_kernels_that_programs_need() -> None:
    section = dynamic_section(binding())
    assert {
        "libexecutorch_tensorrt.so",
        "libexecutorch.so",
        "libexecutorch_kernels_optimized.so",
        "libexecutorch_backend_xnnpack.so",
    } <= set(section["NEEDED"])
    assert section["RUNPATH"] == ["$ORIGIN/../lib", "$ORIGIN/../../executorch/lib"]


def test_the_public_headers_are_installed_as_they_are() -> None:
    public = sorted(HEADERS.glob("*.h"))
    assert public
    for header in public:
        copy = installed(rf"executorch_tensorrt/include/executorch_tensorrt/{header.name}")
        assert copy.read_bytes() == header.read_bytes()


def test_each_public_header_compiles_alone_beside_executorchs_sdk(tmp_path: Path) -> None:
    own = installed(r"executorch_tensorrt/include/executorch_tensorrt/api\.h").parents[1]
    spec = importlib.util.find_spec("executorch")
    assert spec is not None
    (executorch,) = map(Path, spec.submodule_search_locations or ())
    c10 = executorch / "include/executorch/runtime/core/portable_type/c10"
    command = ["c++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-I", own]
    command += ["-DC10_USING_CUSTOM_GENERATED_MACROS", "-isystem", executorch / "include"]
    command += ["-isystem", c10]
    for header in sorted(HEADERS.glob("*.h")):
        source = tmp_path / "one.cpp"
        source.write_text(f"#include <executorch_tensorrt/{header.name}>\n")
        done = subprocess.run([*command, source], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


def test_every_source_of_the_library_and_the_binding_is_built() -> None:
    listed = set(re.findall(r"runtime/cpp/\w+/\w+\.cpp", (ROOT / "CMakeLists.txt").read_text()))
    sources = [*ROOT.glob("runtime/cpp/src/*.cpp"), *ROOT.glob("runtime/cpp/python/*.cpp")]
    assert listed == {str(path.relative_to(ROOT)) for path in sources}


def test_the_source_distribution_holds_all_that_a_build_takes(tmp_path: Path) -> None:
    code = f"from scikit_build_core.build import build_sdist; build_sdist({str(tmp_path)!r})"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, capture_output=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    prefix = f"executorch_tensorrt-{PROJECT['version']}/"
    with tarfile.open(archive) as tar:
        members = {m.name.removeprefix(prefix): m for m in tar.getmembers()}
    sources = [
        *ROOT.glob("runtime/cpp/**/*.cpp"),
        *ROOT.glob("runtime/cpp/**/*.h"),
        *ROOT.glob("cmake/*"),
        *(
            p
            for d in ("backend", "export", "export/*", "partitioner", "runtime")
            for p in ROOT.glob(f"{d}/*.py")
        ),
    ]
    wanted = {str(path.relative_to(ROOT)) for path in sources}
    wanted |= {"LICENSE", "README.md", "CMakeLists.txt", "pyproject.toml"}
    assert wanted - set(members) == set()
    assert members["executorch_tensorrt/_export"].linkname == "../export"
    junk = re.compile(r"(^|/)(build|dist|\.venv|__pycache__|.*\.so|.*\.pte)(/|$)")
    assert [name for name in members if junk.search(name) and "tests/data" not in name] == []


def test_the_licence_is_the_apache_licence_and_is_installed() -> None:
    text = installed(r"executorch_tensorrt-.*\.dist-info/licenses/LICENSE").read_text()
    assert text == (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert PROJECT["license"] == "Apache-2.0"
