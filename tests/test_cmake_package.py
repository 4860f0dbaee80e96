"""C++ programs without Python: the CMake package, from the wheel and from an install prefix."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONSUMER = ROOT / "tests" / "cpp_consumer"
EXAMPLE = ROOT / "examples" / "multi_profile"
GUIDES = [EXAMPLE / "README.md", ROOT / "docs" / "cpp_guide.md"]
# One install prefix for all runs of the tests: its build is incremental.
BUILD = ROOT / "build" / "install_prefix"


def run(*command: str | Path, code: int = 0) -> str:
    """Both output streams of a command that must end with `code`."""
    # Libraries are found by the programs' own runtime paths or not at all.
    clean = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env=clean,
        cwd="/",  # not where Python finds the source tree first
        timeout=900,
    )
    assert done.returncode == code, f"{shlex.join(map(str, command))}\n{done.stdout}"
    return done.stdout


def cmake_programs() -> list[str]:
    """This environment's CMake and the system's, where it is new enough."""
    paths = {shutil.which("cmake", path=str(Path(sys.executable).parent)), "/usr/bin/cmake"}
    programs = []
    for path in sorted(p for p in paths if p and Path(p).exists()):
        major, minor = map(int, re.findall(r"(\d+)\.(\d+)", run(path, "--version"))[0])
        if (major, minor) >= (3, 24):
            programs.append(path)
    return programs


CMAKES = cmake_programs()


def executorch_root() -> Path:
    spec = importlib.util.find_spec("executorch")
    assert spec is not None
    return Path(next(iter(spec.submodule_search_locations or ())))


def snippets(folder: Path) -> list[Path]:
    """The C++ blocks of the guides, each written to a file."""
    files = []
    for guide in GUIDES:
        blocks = re.findall(r"```cpp\n(.*?)```", guide.read_text(), re.DOTALL)
        assert blocks, guide
        for i, block in enumerate(blocks):
            files.append(folder / f"{guide.stem.lower()}_{i}.cpp")
            files[-1].write_text(block)
    return files


@pytest.fixture(scope="module")
def prefix() -> Path:
    """Where `cmake --install` put the library, as a user without a wheel has it."""
    assert CMAKES, "no CMake of version 3.24 or newer"
    options = [f"-DEXECUTORCH_ROOT={executorch_root()}", f"-DPython_EXECUTABLE={sys.executable}"]
    run(CMAKES[0], "-S", ROOT, "-B", BUILD, *options)
    run(CMAKES[0], "--build", BUILD, "--parallel", str(os.cpu_count() or 1))
    shutil.rmtree(BUILD / "prefix", ignore_errors=True)
    run(CMAKES[0], "--install", BUILD, "--prefix", BUILD / "prefix")
    return BUILD / "prefix"


@pytest.fixture(scope="module")
def wheel_package() -> Path:
    """The CMake package as it is installed with the Python package."""
    return Path(run(sys.executable, "-m", "executorch_tensorrt", "--cmake-dir").strip())


def configure(cmake: str, source: Path, build: Path, *options: str, code: int = 0) -> str:
    # No variable of this environment, and no registry, helps to find a package.
    options = (*options, "-DCMAKE_FIND_USE_PACKAGE_REGISTRY=OFF", f"-DEXAMPLE={EXAMPLE}")
    return run(cmake, "-S", source, "-B", build, *options, code=code)


@pytest.mark.parametrize("cmake", CMAKES)
def test_a_consumer_of_the_wheel_gets_the_backend_without_naming_it(
    cmake: str, wheel_package: Path, tmp_path: Path
) -> None:
    configure(cmake, CONSUMER, tmp_path, f"-Dexecutorch_tensorrt_DIR={wheel_package}")
    run(cmake, "--build", tmp_path)
    assert run(tmp_path / "consumer") == "the consumer's options; backend\n"


@pytest.fixture(scope="module", params=CMAKES)
def consumer(request: pytest.FixtureRequest, prefix: Path, tmp_path_factory: object) -> Path:
    """The consumer and the guides' snippets, built on the install prefix."""
    folder = tmp_path_factory.mktemp("consumer")  # type: ignore[attr-defined]
    listed = ";".join(map(str, snippets(folder)))
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", f"-DSNIPPETS={listed}"]
    configure(request.param, CONSUMER, folder, *options)
    run(request.param, "--build", folder, "--parallel", "2")
    return folder


def test_a_consumer_of_an_install_prefix_gets_the_backend_without_naming_it(
    consumer: Path,
) -> None:
    assert run(consumer / "consumer") == "the consumer's options; backend\n"
    needed = run("readelf", "--dynamic", "--wide", consumer / "consumer")
    assert "libexecutorch_tensorrt.so" in needed


def test_the_example_makes_inputs_of_every_dtype_or_says_that_it_does_not(consumer: Path) -> None:
    assert run(consumer / "check_inputs") == ""


@pytest.mark.parametrize(
    "header",
    [
        "options.h",  # bare
        "optimization_profile_guard.h",
        "delegate_blob.h",  # private
        "executorch_tensorrt/delegate_blob.h",
    ],
)
def test_headers_that_are_not_public_or_not_named_in_full_are_not_found(
    consumer: Path, header: str
) -> None:
    commands = json.loads((consumer / "compile_commands.json").read_text())
    (command,) = [c["command"] for c in commands if c["file"].endswith("/consumer.cpp")]
    flags = re.findall(r"-isystem \S+|-D\S+|-std=\S+", command)  # without the consumer's own folder
    assert flags
    source = consumer / "header.cpp"
    compiler = ["c++", *shlex.split(" ".join(flags)), "-fsyntax-only", source]
    source.write_text("#include <executorch_tensorrt/options.h>\n")
    run(*compiler)
    source.write_text(f"#include <{header}>\n")
    assert f"{header}: No such file" in run(*compiler, code=1)


def test_another_minor_version_is_refused(prefix: Path, tmp_path: Path) -> None:
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DWANTED_VERSION=0.0.1"]
    said = configure(CMAKES[0], CONSUMER, tmp_path, *options, code=1)
    assert "compatible with requested version" in said


def test_a_missing_executorch_is_named_with_what_to_do(prefix: Path, tmp_path: Path) -> None:
    options = [f"-DCMAKE_PREFIX_PATH={prefix}", "-DEXECUTORCH_ROOT=/nowhere/executorch"]
    said = " ".join(
        configure(CMAKES[0], CONSUMER, tmp_path, *options, code=1).split()  # CMake wraps lines
    )
    assert "looked for lib/libexecutorch.so in '/nowhere/executorch'" in said
    assert "pip install 'executorch" in said


@pytest.fixture(scope="module")
def example(prefix: Path, tmp_path_factory: object) -> Path:
    """A folder with the example's programs and its model, `model.pte`."""
    folder: Path = tmp_path_factory.mktemp("example")  # type: ignore[attr-defined]
    configure(CMAKES[-1], EXAMPLE, folder, f"-DCMAKE_PREFIX_PATH={prefix}")
    run(CMAKES[-1], "--build", folder, "--parallel", "2")
    run(sys.executable, EXAMPLE / "export_multi_profile.py", folder / "model.pte")
    return folder


def test_the_example_runs_each_profile_by_shape_and_pinned_and_equals_eager(
    example: Path,
) -> None:
    (example / "outputs").mkdir()
    said = run(example / "multi_profile_main", example / "model.pte", example / "outputs")
    assert "1 'prefill'  src [1, 2, 256] to [1, 512, 256], best at [1, 128, 256]" in said
    for profile, shape in (("decode", "[1, 1, 256]"), ("prefill", "[1, 128, 256]")):
        for how in ("by shape", "pinned  "):
            assert f"{how} {shape}: ran on '{profile}', output {shape}\n" in said
    compare = [EXAMPLE / "export_multi_profile.py", "--compare", example / "outputs"]
    assert run(sys.executable, *compare).count("largest difference from eager") == 2


def test_the_guides_programs_compile_and_run_as_they_stand(consumer: Path, example: Path) -> None:
    programs = [*consumer.glob("readme_?"), *consumer.glob("cpp_guide_?")]
    assert len(programs) == len(snippets(consumer))
    for program in programs:
        run(program, example / "model.pte")


def test_the_comparison_with_eager_fails_for_a_wrong_output(example: Path, tmp_path: Path) -> None:
    run(example / "multi_profile_main", example / "model.pte", tmp_path)
    output = tmp_path / "prefill.output.0"
    output.write_bytes(output.read_bytes()[:-4] + b"\0\0\xc0\x7f")  # NaN
    compare = [EXAMPLE / "export_multi_profile.py", "--compare", tmp_path]
    assert "AssertionError: prefill" in run(sys.executable, *compare, code=1)


def test_the_benchmark_prints_a_row_a_profile(example: Path) -> None:
    said = run(example / "multi_profile_benchmark", example / "model.pte", "3", "1")
    rows = re.findall(r"^\| (\w+) \| \[.*\] \|(?: [\d.]+ us \|){3}$", said, re.MULTILINE)
    assert rows == ["decode", "prefill"]


@pytest.mark.parametrize("rounds", ["0", "-1", "many", "1.5", "", "1e3", "99999999999"])
def test_the_benchmark_refuses_senseless_rounds(example: Path, rounds: str) -> None:
    program, model = example / "multi_profile_benchmark", example / "model.pte"
    refusal = f"must be a whole number from 1 to 1000000, not '{rounds}'\n"
    assert run(program, model, rounds, code=2) == f"<rounds> {refusal}"
    assert run(program, model, "1", rounds, code=2) == f"<warm-up rounds> {refusal}"


def test_a_program_that_is_no_program_is_refused_by_name(example: Path, tmp_path: Path) -> None:
    (tmp_path / "model.pte").write_text("not one")
    said = run(example / "multi_profile_main", tmp_path / "model.pte", code=1)
    assert f"cannot load 'forward' of {tmp_path / 'model.pte'}" in said


def test_the_cmake_folder_is_asked_for_by_an_option() -> None:
    said = run(sys.executable, "-m", "executorch_tensorrt", "--help")
    assert "--cmake-dir" in said
