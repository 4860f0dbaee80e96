"""What the command line refuses before it works: each wrong argument is named."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from command_line import QUICKSTART, in_process, invoke, refused

from executorch_tensorrt import OptimizationProfile
from executorch_tensorrt._export.cli.errors import BAD_ARGUMENT
from executorch_tensorrt._export.cli.profile_arguments import parse_profile, read_settings


def test_a_profile_is_parsed_as_it_reads() -> None:
    assert parse_profile("both:ids=1x2..128..512,mask=1x8") == OptimizationProfile(
        "both", {"ids": [1, (2, 128, 512)], "mask": [1, 8]}
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("decode", "a profile is NAME:INPUT=SHAPE"),
        (":ids=1", "a profile is NAME:INPUT=SHAPE"),
        ("decode:ids", "'ids' is no INPUT=SHAPE"),
        ("decode:ids=1xten", "'ten' in '1xten' is no size"),
        ("decode:ids=1x2..8", "'2..8' in '1x2..8' is no size"),
        ("decode:ids=-1", "'-1' in '-1' is no size"),
        ("decode:ids=1,ids=2", "input 'ids' is there twice"),
        ("decode:ids=1x9..5..12", "min 9 is above opt 5"),
    ],
)
def test_a_profile_that_is_none_is_refused_with_the_part_and_the_grammar(
    text: str, said: str
) -> None:
    output = refused(BAD_ARGUMENT, "export", QUICKSTART, "--profile", text)
    assert f"--profile {text}" in output
    assert said in output


def test_two_profiles_of_one_name_are_refused() -> None:
    profiles = ["--profile", "a:ids=1", "--profile", "a:ids=2"]
    assert "both named 'a'" in refused(BAD_ARGUMENT, "export", QUICKSTART, *profiles)


def test_a_toml_file_says_profiles_and_options(tmp_path: Path) -> None:
    file = tmp_path / "export.toml"
    file.write_text(
        "[profiles.decode]\nids = [1, 1]\n"
        '[profiles.prefill]\nids = [1, [2, 128, 512]]\nmask = "1x2..128..512"\n'
        "[options]\ncpu_fallback = true\n"
    )
    settings = read_settings(file)
    assert settings.profiles == (
        OptimizationProfile("decode", {"ids": [1, 1]}),
        OptimizationProfile("prefill", {"ids": [1, (2, 128, 512)], "mask": [1, (2, 128, 512)]}),
    )
    assert settings.options == {"cpu_fallback": True}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[profiles", "export.toml"),
        ("[profile.decode]\nids = [1]", "'profile' is not known"),
        ("profiles = 3", "profiles must be a table"),
        ("[profiles]\ndecode = 3", "profiles.decode must be a table"),
        ("[profiles.decode]\nids = [1.5]", "a size must be an int"),
        ('[profiles.decode]\nids = "1xn"', "profiles.decode.ids: 'n' in '1xn' is no size"),
        ("[options]\nfallback = true", "options.fallback is not known"),
        ('[options]\ncpu_fallback = "yes"', "cpu_fallback must be a bool"),
    ],
)
def test_a_toml_file_that_says_something_else_is_refused_with_the_entry(
    text: str, said: str, tmp_path: Path
) -> None:
    file = tmp_path / "export.toml"
    file.write_text(text)
    assert said in refused(BAD_ARGUMENT, "export", QUICKSTART, "--config", file)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("model.py", "a model is given as FILE.py:NAME"),
        ("nowhere.py:model", "no such file: nowhere.py"),
        ("no_such_package.models:model", "no module named 'no_such_package'"),
        ("nowhere.pt2", "no such file: nowhere.pt2"),
        (QUICKSTART.replace("tiny_transformer", "huge"), "has no 'huge'; it has "),
        (QUICKSTART.replace("tiny_transformer", "VOCABULARY"), "gives int"),
        (QUICKSTART.replace("tiny_transformer", "TinyTransformer"), "gives no example inputs"),
    ],
)
def test_a_model_that_is_none_is_refused_by_name(source: str, said: str) -> None:
    output = refused(BAD_ARGUMENT, "export", source)
    assert f"MODEL '{source}'" in output or "MODEL: " in output
    assert said in output


def test_a_model_whose_code_fails_is_reported_with_the_line(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("import json\njson.loads('{')\n")
    output = refused(1, "export", f"{tmp_path}/model.py:model")
    assert "JSONDecodeError" in output


def test_a_file_that_torch_did_not_save_is_refused(tmp_path: Path) -> None:
    (tmp_path / "model.pt2").write_text("not one")
    output = refused(BAD_ARGUMENT, "export", tmp_path / "model.pt2")
    assert "is no program that torch.export.save wrote" in output


def test_an_option_out_of_its_range_is_refused_by_name() -> None:
    output = refused(BAD_ARGUMENT, "export", QUICKSTART, "--optimization-level", 9)
    assert "CompileOptions.optimization_level must be 0..5, got 9" in output


def test_an_output_in_a_folder_that_is_not_there_is_refused_before_exporting() -> None:
    output = refused(BAD_ARGUMENT, "export", QUICKSTART, "-o", "/no/such/folder/model.pte")
    assert "there is no folder /no/such/folder" in output


def test_every_compile_option_is_an_option_with_its_description() -> None:
    shown = " ".join(invoke("export", "--help").output.split())
    for option in ("--cpu-fallback", "--tf32", "--engine-cache-dir", "--compute-capabilities"):
        assert option in shown
    assert "GPU generations to build for" in shown


@pytest.mark.parametrize("arguments", [("--no-such-option",), ("no-such-command",), ("inspect",)])
def test_a_wrong_command_line_exits_with_2_from_a_shell(
    arguments: tuple[str, ...], tmp_path: Path
) -> None:
    done = in_process(*arguments, cwd=tmp_path)
    assert done.returncode == BAD_ARGUMENT
    assert "Usage:" in done.stderr
    assert "Traceback" not in done.stderr


def test_reading_commands_load_neither_torch_nor_tensorrt(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from executorch_tensorrt._export.cli.main import commands\n"
        "commands(['inspect', 'nothing.pte'], standalone_mode=False)\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    loaded = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "executorch_tensorrt._export.cli.main" in loaded
    assert not loaded & {"torch", "torch_tensorrt", "tensorrt", "executorch.exir"}


def test_without_click_the_command_line_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("raise ModuleNotFoundError('no click', name='click')\n")
    done = in_process("doctor", cwd=tmp_path)
    assert done.returncode == 1
    assert "pip install 'executorch-tensorrt[cli]'" in done.stderr
    assert in_process("--cmake-dir", cwd=tmp_path).returncode == 0
