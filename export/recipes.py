"""The backend's recipes for ``executorch.export``; importing this registers them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from executorch.exir import EdgeCompileConfig
from executorch.export import (
    BackendRecipeProvider,
    ExportRecipe,
    LoweringRecipe,
    RecipeType,
    recipe_registry,
)

from executorch_tensorrt.backend.compile_options import CompileOptions
from executorch_tensorrt.partitioner import TensorRTPartitioner
from executorch_tensorrt.profiles import OptimizationProfile

BACKEND_NAME = "tensorrt"
_DEFAULT = "tensorrt_default"


class TensorRTRecipeType(RecipeType):
    """What ``ExportRecipe.get_recipe`` takes to lower a model to TensorRT.

    Example:
        >>> recipe = ExportRecipe.get_recipe(TensorRTRecipeType.DEFAULT, profiles=[profile])
        >>> executorch.export.export(model, [inputs], recipe).save_to_pte("model.pte")
    """

    DEFAULT = _DEFAULT  # in the model's own precision

    @classmethod
    def get_backend_name(cls) -> str:
        """Return the name under which the provider is registered."""
        return BACKEND_NAME


class TensorRTRecipeProvider(BackendRecipeProvider):
    """Makes the recipes of :class:`TensorRTRecipeType`."""

    @property
    def backend_name(self) -> str:
        """The name under which it is registered."""
        return BACKEND_NAME

    def get_supported_recipes(self) -> Sequence[RecipeType]:
        """Return all of :class:`TensorRTRecipeType`."""
        return list(TensorRTRecipeType)

    def create_recipe(self, recipe_type: RecipeType, **kwargs: Any) -> ExportRecipe | None:
        """Return the recipe, or None for a type that is another backend's.

        Args:
            recipe_type: One of :class:`TensorRTRecipeType`.
            kwargs: ``profiles`` and ``options``, as `executorch_tensorrt.export` takes them.

        Raises:
            TypeError: Another keyword, or a profile or options of the wrong type.
        """
        if recipe_type not in self.get_supported_recipes():
            return None
        return _default_recipe(**kwargs)


def _default_recipe(
    *,
    profiles: Sequence[OptimizationProfile] = (),
    options: CompileOptions = CompileOptions(),  # noqa: B008 (it is frozen)
) -> ExportRecipe:
    return ExportRecipe(
        name=_DEFAULT,
        lowering_recipe=LoweringRecipe(
            partitioners=[TensorRTPartitioner(profiles, options=options)],
            # Not every operator that TensorRT takes is one that ExecuTorch's validity check knows.
            edge_compile_config=EdgeCompileConfig(_check_ir_validity=False),
        ),
        strict=False,
    )


recipe_registry.register_backend_recipe_provider(TensorRTRecipeProvider())
