"""executorch.export with the backend's recipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from executorch.export import ExportRecipe, export, recipe_registry
from models import Mlp, seeded
from programs import OVERLAPPING, WITH_FALLBACK, forward
from torch.export import Dim

import executorch_tensorrt as ett


def test_a_session_with_the_recipe_makes_a_program_with_its_profiles() -> None:
    model = seeded(Mlp)
    recipe = ExportRecipe.get_recipe(
        ett.TensorRTRecipeType.DEFAULT, profiles=OVERLAPPING, options=WITH_FALLBACK
    )
    shapes = {"forward": {"x": {0: Dim("batch", min=1, max=16)}}}
    session = export(model, [(torch.randn(4, 8),)], recipe, dynamic_shapes=shapes)
    method = forward(session.get_pte_buffer())
    assert method.profiles == ["small", "middle", "all"]
    x = torch.randn(12, 8)
    torch.testing.assert_close(method(x)[0], model(x), atol=1e-5, rtol=1e-5)
    assert method.last_profile == "all"


def test_the_name_alone_registers_it() -> None:
    code = (
        "from executorch.export import recipe_registry as r\n"
        "assert 'tensorrt' not in r.list_backends()\n"
        "import executorch_tensorrt\n"
        "executorch_tensorrt.TensorRTRecipeType\n"
        "assert 'tensorrt' in r.list_backends()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_another_backends_recipe_is_none_of_its_own() -> None:
    from executorch.backends.xnnpack.recipes.xnnpack_recipe_types import XNNPackRecipeType

    backend = ett.TensorRTRecipeType.get_backend_name()
    assert recipe_registry.create_recipe(XNNPackRecipeType.FP32, backend) is None


def test_a_keyword_that_it_does_not_take_is_named() -> None:
    with pytest.raises(TypeError, match="profile_list"):
        ExportRecipe.get_recipe(ett.TensorRTRecipeType.DEFAULT, profile_list=OVERLAPPING)
