"""Models of image diffusion, of the diffusers library, small and with random weights."""

from __future__ import annotations

import torch
from model_case import Case, Values, images, named, planes
from torch import nn


class Denoiser(nn.Module):
    """Latents [b, 4, h, w], a time step [b] and a text's states [b, s, 32] to latents."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, t: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        return self.model(x, t, text, return_dict=False)[0]


def _denoising(model: nn.Module) -> Case:
    inputs = {
        "x": Values(("b", 4, (8, "h"), (8, "w"))),
        "t": Values(("b",), torch.int64, 0, 1000),
        "text": Values(("b", 7, 32)),
    }
    profiles = {
        "draft": {"b": 1, "h": 1, "w": 1},
        "full": {"b": (1, 2, 4), "h": (2, 2, 3), "w": (2, 2, 3)},
    }
    return Case(Denoiser(model).eval(), inputs, profiles)


def stable_diffusion_unet() -> Case:
    from diffusers import UNet2DConditionModel

    return _denoising(
        UNet2DConditionModel(
            block_out_channels=(16, 32),
            layers_per_block=1,
            sample_size=16,
            in_channels=4,
            out_channels=4,
            down_block_types=("DownBlock2D", "CrossAttnDownBlock2D"),
            up_block_types=("CrossAttnUpBlock2D", "UpBlock2D"),
            cross_attention_dim=32,
            attention_head_dim=8,
            norm_num_groups=4,
        )
    )


def unconditional_unet() -> Case:
    from diffusers import UNet2DModel

    class Unconditional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = UNet2DModel(
                sample_size=16,
                block_out_channels=(16, 32),
                layers_per_block=1,
                down_block_types=("DownBlock2D", "AttnDownBlock2D"),
                up_block_types=("AttnUpBlock2D", "UpBlock2D"),
                attention_head_dim=8,
                norm_num_groups=4,
            )

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.model(x, 10, return_dict=False)[0]

    return images(Unconditional(), 16)


def _autoencoder() -> nn.Module:
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        block_out_channels=(16, 32),
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        layers_per_block=1,
        latent_channels=4,
        norm_num_groups=4,
        sample_size=16,
    )


def vae_decoder() -> Case:
    class Decoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = _autoencoder()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.model.decode(x, return_dict=False)[0]

    return images(Decoder(), 8, channels=4)


def vae_encoder() -> Case:
    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = _autoencoder()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.model.encode(x, return_dict=False)[0].mode()

    return planes(Encoder(), 32)


def diffusion_transformer() -> Case:
    from diffusers import DiTTransformer2DModel

    class Dit(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = DiTTransformer2DModel(
                num_attention_heads=4,
                attention_head_dim=8,
                in_channels=4,
                out_channels=4,
                num_layers=2,
                sample_size=8,
                patch_size=2,
                num_embeds_ada_norm=1000,
                norm_num_groups=4,
            )

        def forward(self, x: torch.Tensor, t: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
            return self.model(x, timestep=t, class_labels=kind, return_dict=False)[0]

    inputs = {
        "x": Values(("b", 4, 8, 8)),
        "t": Values(("b",), torch.int64, 0, 1000),
        "kind": Values(("b",), torch.int64, 0, 1000),
    }
    return Case(Dit().eval(), inputs, {"one": {"b": 1}, "many": {"b": (2, 3, 4)}})


def flux_transformer() -> Case:
    from diffusers import FluxTransformer2DModel

    class Flux(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = FluxTransformer2DModel(
                patch_size=1,
                in_channels=8,
                num_layers=1,
                num_single_layers=1,
                attention_head_dim=16,
                num_attention_heads=2,
                joint_attention_dim=32,
                pooled_projection_dim=32,
                axes_dims_rope=[4, 4, 8],
            )
            self.register_buffer("ids", torch.zeros(16, 3))
            self.register_buffer("text_ids", torch.zeros(7, 3))

        def forward(
            self, x: torch.Tensor, text: torch.Tensor, pooled: torch.Tensor, t: torch.Tensor
        ) -> torch.Tensor:
            return self.model(
                hidden_states=x,
                encoder_hidden_states=text,
                pooled_projections=pooled,
                timestep=t,
                img_ids=self.ids,
                txt_ids=self.text_ids,
                return_dict=False,
            )[0]

    inputs = {
        "x": Values(("b", 16, 8)),
        "text": Values(("b", 7, 32)),
        "pooled": Values(("b", 32)),
        "t": Values(("b",)),
    }
    return Case(Flux().eval(), inputs, {"one": {"b": 1}, "many": {"b": (2, 3, 4)}})


CASES = named(
    stable_diffusion_unet,
    unconditional_unet,
    vae_decoder,
    vae_encoder,
    diffusion_transformer,
    flux_transformer,
)
