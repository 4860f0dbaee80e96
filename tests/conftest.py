from __future__ import annotations

import ctypes
import os
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # no test downloads anything


def _gpu_count() -> int:
    """GPUs that the CUDA driver shows, 0 without a driver; asks neither torch nor TensorRT."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    gpu_items = [item for item in items if item.get_closest_marker("gpu")]
    if gpu_items and _gpu_count() == 0:
        for item in gpu_items:
            item.add_marker(pytest.mark.skip(reason="no NVIDIA GPU"))


# What the fixtures need is imported when they are used: tests/test_gpu.py runs without it.


@pytest.fixture(scope="session")
def transformer() -> Any:
    from models import Transformer, seeded

    return seeded(Transformer)


@pytest.fixture(scope="session")
def transformer_pte(transformer: Any) -> bytes:
    import programs

    return programs.transformer_pte(transformer)


@pytest.fixture(scope="session")
def mlp_pte() -> bytes:
    import programs

    return programs.mlp_pte()
