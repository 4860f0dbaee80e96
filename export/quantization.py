"""A quantizer for PyTorch's pt2e whose programs TensorRT takes."""

from __future__ import annotations

from typing import Any


def int8_quantizer(*, per_channel: bool = True) -> Any:
    """A quantizer for `prepare_pt2e`: symmetric int8, as TensorRT computes in it.

    ExecuTorch's XNNPACK quantizer with a zero point of 0 for activations too, so that the CPU
    fallback computes in int8 as well.

    Args:
        per_channel: A scale for each output channel of a weight; else one for all of it.

    Returns:
        The quantizer; `set_module_name` and its like narrow down what it quantizes.

    Example:
        >>> from torchao.quantization.pt2e.quantize_pt2e import convert_pt2e, prepare_pt2e
        >>> program = torch.export.export(model, inputs, dynamic_shapes=shapes)
        >>> prepared = prepare_pt2e(program.module(), int8_quantizer())
        >>> for inputs in calibration:
        ...     prepared(*inputs)
        >>> export(convert_pt2e(prepared), inputs, profiles=profiles).save("model.pte")
    """
    import torch
    from executorch.backends.xnnpack.quantizer.xnnpack_quantizer import XNNPACKQuantizer
    from torchao.quantization.pt2e import (
        HistogramObserver,
        MinMaxObserver,
        PerChannelMinMaxObserver,
    )
    from torchao.quantization.pt2e.quantizer import QuantizationConfig, QuantizationSpec

    least_scale = 2**-12
    activations = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-128,
        quant_max=127,
        qscheme=torch.per_tensor_symmetric,
        observer_or_fake_quant_ctr=HistogramObserver.with_args(eps=least_scale),
    )
    observer = PerChannelMinMaxObserver if per_channel else MinMaxObserver
    weights = QuantizationSpec(
        dtype=torch.int8,
        quant_min=-127,
        quant_max=127,
        qscheme=torch.per_channel_symmetric if per_channel else torch.per_tensor_symmetric,
        ch_axis=0 if per_channel else None,
        observer_or_fake_quant_ctr=observer.with_args(eps=least_scale),
    )
    config = QuantizationConfig(activations, activations, weights, None)
    return XNNPACKQuantizer().set_global(config)
