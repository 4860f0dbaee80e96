"""Vision models of torchvision, timm and transformers, small and with random weights."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from model_case import Case, Outputs, images, named, planes
from torch import nn


def resnet() -> Case:
    import torchvision

    return images(torchvision.models.resnet18(weights=None))


def resnet_half() -> Case:
    from torchvision.models.resnet import Bottleneck, ResNet

    model = ResNet(Bottleneck, [1, 1, 1, 1], 8, groups=4, width_per_group=4)
    case = planes(model.half(), 32)
    return Case(case.model, {"x": _half(case)}, case.profiles)


def _half(case: Case) -> Any:
    import dataclasses

    return dataclasses.replace(case.inputs["x"], dtype=torch.float16)


def mobilenet() -> Case:
    import torchvision

    return images(torchvision.models.mobilenet_v3_small(weights=None, num_classes=8))


def mobilenet_v2() -> Case:
    import torchvision

    return planes(torchvision.models.mobilenet_v2(weights=None, num_classes=8, width_mult=0.25), 32)


def efficientnet() -> Case:
    import torchvision

    return images(torchvision.models.efficientnet_b0(weights=None, num_classes=8))


def densenet() -> Case:
    from torchvision.models import DenseNet

    return images(DenseNet(growth_rate=8, block_config=(2, 2, 2), num_init_features=16))


def shufflenet() -> Case:
    import torchvision

    return images(torchvision.models.shufflenet_v2_x0_5(weights=None, num_classes=8))


def squeezenet() -> Case:
    import torchvision

    return images(torchvision.models.squeezenet1_1(weights=None, num_classes=8))


def regnet() -> Case:
    from torchvision.models.regnet import BlockParams, RegNet

    params = BlockParams([1, 1], [16, 32], [8, 8], [1.0, 1.0], [2, 2], 0.25)
    return images(RegNet(params))


def vision_transformer() -> Case:
    import torchvision

    model = torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64
    )
    return images(model)


def convnext() -> Case:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    blocks = [CNBlockConfig(16, 32, 1), CNBlockConfig(32, None, 1)]
    return images(ConvNeXt(blocks))


def swin() -> Case:
    from torchvision.models import SwinTransformer

    model = SwinTransformer(
        patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4]
    )
    return images(model, 64)


class Segmented(nn.Module):
    """A segmentation model, whose result is a dict."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.model(x)["out"]


def deeplab() -> Case:
    """DeepLabV3 over a small backbone; its result is resized to the input's plane."""
    from torchvision.models.segmentation.deeplabv3 import DeepLabHead, DeepLabV3

    class Backbone(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(3, 8, 3, 4, 1), nn.Conv2d(8, 16, 3, 2, 1)

        def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
            return {"out": F.relu(self.second(F.relu(self.first(x))))}

    return planes(Segmented(DeepLabV3(Backbone(), DeepLabHead(16, 4, [2, 4]))), 16)


def lraspp() -> Case:
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    model = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=4)
    return planes(Segmented(model), 32)


def unet() -> Case:
    """Resizes bilinearly to the plane of an earlier tensor, by a factor, and to a fixed plane."""

    def block(of: int, to: int) -> nn.Module:
        return nn.Sequential(nn.Conv2d(of, to, 3, padding=1), nn.BatchNorm2d(to), nn.SiLU())

    class UNet(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = block(3, 8), block(8, 16), block(24, 8)
            self.up, self.out = nn.ConvTranspose2d(8, 8, 2, 2), nn.Conv2d(8, 2, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            first = self.first(x)
            second = self.second(F.max_pool2d(first, 2))
            wide = F.interpolate(second, size=first.shape[-2:], mode="bilinear")
            third = self.third(torch.cat([wide, first], 1))
            grown = F.interpolate(third, scale_factor=2.0, mode="nearest")
            fixed = F.interpolate(third, size=(32, 32), mode="bilinear", align_corners=True)
            return self.out(F.avg_pool2d(self.up(grown), 2)), fixed

    return planes(UNet(), 4)


def _timm(name: str, size: int = 32, **more: Any) -> Case:
    import timm

    return images(timm.create_model(name, pretrained=False, num_classes=8, **more), size)


def timm_convnext() -> Case:
    import timm

    sizes = {"depths": (1, 1, 1, 1), "dims": (8, 16, 32, 64)}
    return planes(timm.models.ConvNeXt(num_classes=8, **sizes), 32)


def timm_vit() -> Case:
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4}
    return _timm("vit_tiny_patch16_224", **sizes)


def timm_deit() -> Case:
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4}
    return _timm("deit_tiny_distilled_patch16_224", **sizes)


def timm_eva() -> Case:
    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "depth": 2, "num_heads": 4}
    return _timm("eva02_tiny_patch14_224", **sizes)


def timm_mixer() -> Case:
    import timm

    sizes = {"img_size": 32, "patch_size": 8, "embed_dim": 32, "num_blocks": 2}
    return images(timm.models.MlpMixer(num_classes=8, **sizes))


def timm_mobilevit() -> Case:
    return _timm("mobilevit_xxs", 64)


def timm_resnetv2() -> Case:
    import timm

    model = timm.models.ResNetV2(layers=(1, 1), channels=(128, 256), stem_chs=32, num_classes=8)
    return images(model)


def timm_repghostnet() -> Case:
    return _timm("repghostnet_050")


def clip_vision() -> Case:
    from transformers import CLIPVisionConfig, CLIPVisionModel

    model = CLIPVisionModel(CLIPVisionConfig(**_VIT))
    outputs = ("last_hidden_state", "pooler_output")
    return images(Outputs(model, ("pixel_values",), outputs))


def dinov2() -> Case:
    from transformers import Dinov2Config, Dinov2Model

    model = Dinov2Model(Dinov2Config(**_VIT))
    return images(Outputs(model, ("pixel_values",), ("last_hidden_state", "pooler_output")))


def segformer() -> Case:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    config = SegformerConfig(
        num_encoder_blocks=2,
        depths=[1, 1],
        sr_ratios=[2, 1],
        hidden_sizes=[16, 32],
        patch_sizes=[7, 3],
        strides=[4, 2],
        num_attention_heads=[1, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=32,
        num_labels=4,
    )
    model = SegformerForSemanticSegmentation(config)
    return images(Outputs(model, ("pixel_values",), ("logits",)), 64)


_VIT = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "image_size": 32,
    "patch_size": 8,
}

CASES = named(
    resnet,
    resnet_half,
    mobilenet,
    mobilenet_v2,
    efficientnet,
    densenet,
    shufflenet,
    squeezenet,
    regnet,
    vision_transformer,
    convnext,
    swin,
    deeplab,
    lraspp,
    unet,
    timm_convnext,
    timm_vit,
    timm_deit,
    timm_eva,
    timm_mixer,
    timm_mobilevit,
    timm_resnetv2,
    timm_repghostnet,
    clip_vision,
    dinov2,
    segformer,
)
