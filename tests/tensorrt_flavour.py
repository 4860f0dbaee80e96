"""Which TensorRT the tests build engines with."""

from __future__ import annotations

import pytest

from executorch_tensorrt.backend import converters
from executorch_tensorrt.backend.delegate_blob import Flavour

RTX = converters.tensorrt.flavour is Flavour.TENSORRT_RTX
rtx_only = pytest.mark.skipif(not RTX, reason="Torch-TensorRT here is not TensorRT-RTX's")
