"""Models that people use, small and with random weights, each with example inputs and profiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from executorch_tensorrt.profiles import OptimizationProfile

VOCABULARY = 64


@dataclass(frozen=True)
class Case:
    """A model in eval mode, tensors to trace it with, and profiles that include their shapes."""

    model: nn.Module
    inputs: tuple[torch.Tensor, ...]
    profiles: tuple[OptimizationProfile, ...]

    def inputs_of(self, sizes: dict[int, int]) -> tuple[torch.Tensor, ...]:
        """The inputs with these sizes in the dims that the profiles let vary."""
        torch.manual_seed(1)
        made = []
        for value in self.inputs:
            shape = [sizes.get(dim, size) for dim, size in enumerate(value.shape)]
            if value.dtype == torch.int64:
                made.append(torch.randint(1, 5, shape) if value.max() > 1 else torch.ones(shape))
                made[-1] = made[-1].to(torch.int64)
            else:
                made.append(torch.randn(shape, dtype=value.dtype))
        return tuple(made)


class Outputs(nn.Module):
    """A transformers model that takes tensors by position and gives a tuple of tensors."""

    def __init__(self, model: nn.Module, arguments: Sequence[str], outputs: Sequence[str]) -> None:
        super().__init__()
        self.model, self.arguments, self.outputs = model, arguments, outputs

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = self.model(**{self.arguments[0]: x})
        return tuple(result[name] for name in self.outputs)


class Masked(Outputs):
    """The same with an attention mask, [batch, sequence] int64 of ones and zeros."""

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, ...]:
        result = self.model(**{self.arguments[0]: x, self.arguments[1]: mask})
        return tuple(result[name] for name in self.outputs)


def _images(model: nn.Module, size: int) -> Case:
    one = OptimizationProfile("one", {"x": [1, 3, size, size]})
    many = OptimizationProfile("many", {"x": [(2, 4, 8), 3, size, size]})
    return Case(model.eval(), (torch.randn(2, 3, size, size),), (one, many))


def _tokens(model: nn.Module, masked: bool = False) -> Case:
    shapes = {"x": [(1, 1, 4), 1]}, {"x": [(1, 1, 4), (2, 16, 32)]}
    names = ("decode", "prefill")
    tokens = torch.randint(1, VOCABULARY, (2, 8))
    inputs: tuple[torch.Tensor, ...] = (tokens,)
    if masked:
        shapes = tuple({**shape, "mask": shape["x"]} for shape in shapes)
        inputs = (tokens, torch.ones(2, 8, dtype=torch.int64))
    profiles = tuple(map(OptimizationProfile, names, shapes))
    return Case(model.eval(), inputs, profiles)


def _language(kind: str, **more: Any) -> nn.Module:
    import transformers

    config = getattr(transformers, f"{kind}Config")(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        use_cache=False,
        **more,
    )
    return getattr(transformers, f"{kind}ForCausalLM")(config)


def bert() -> Case:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
    )
    outputs = ("last_hidden_state", "pooler_output")
    return _tokens(Masked(BertModel(config), ("input_ids", "attention_mask"), outputs), masked=True)


def distilbert() -> Case:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(
        vocab_size=VOCABULARY,
        dim=32,
        n_layers=2,
        n_heads=4,
        hidden_dim=64,
        max_position_embeddings=64,
    )
    model = DistilBertForSequenceClassification(config)
    return _tokens(Masked(model, ("input_ids", "attention_mask"), ("logits",)), masked=True)


def t5_encoder() -> Case:
    from transformers import T5Config, T5EncoderModel

    config = T5Config(vocab_size=VOCABULARY, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4)
    names = ("input_ids", "attention_mask")
    return _tokens(Masked(T5EncoderModel(config), names, ("last_hidden_state",)), masked=True)


def gpt2() -> Case:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=64,
        use_cache=False,
        bos_token_id=1,
        eos_token_id=2,
    )
    return _tokens(Outputs(GPT2LMHeadModel(config), ("input_ids",), ("logits",)))


def llama() -> Case:
    return _tokens(Outputs(_language("Llama"), ("input_ids",), ("logits",)))


def qwen2() -> Case:
    model = _language("Qwen2").to(torch.float16)
    return _tokens(Outputs(model, ("input_ids",), ("logits",)))


def clip_vision() -> Case:
    from transformers import CLIPVisionConfig, CLIPVisionModel

    config = CLIPVisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=32,
        patch_size=8,
    )
    outputs = ("last_hidden_state", "pooler_output")
    return _images(Outputs(CLIPVisionModel(config), ("pixel_values",), outputs), 32)


def clip_text() -> Case:
    from transformers import CLIPTextConfig, CLIPTextModel

    config = CLIPTextConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
        eos_token_id=2,
        bos_token_id=1,
        pad_token_id=0,
    )
    return _tokens(Outputs(CLIPTextModel(config), ("input_ids",), ("last_hidden_state",)))


def whisper_encoder() -> Case:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(
        d_model=32,
        encoder_layers=2,
        encoder_attention_heads=4,
        encoder_ffn_dim=64,
        num_mel_bins=16,
        max_source_positions=40,
    )
    one = OptimizationProfile("one", {"x": [1, 16, 80]})
    many = OptimizationProfile("many", {"x": [(2, 4, 8), 16, 80]})
    model = Outputs(WhisperEncoder(config), ("input_features",), ("last_hidden_state",))
    return Case(model.eval(), (torch.randn(2, 16, 80),), (one, many))


def lstm() -> Case:
    class Recurrent(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.out = nn.LSTM(8, 16, 2, batch_first=True), nn.Linear(16, 5)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
            steps, (hidden, cell) = self.lstm(x)
            return self.out(steps[:, -1]), hidden, cell

    one = OptimizationProfile("one", {"x": [1, 6, 8]})
    many = OptimizationProfile("many", {"x": [(2, 4, 8), 6, 8]})
    return Case(Recurrent().eval(), (torch.randn(2, 6, 8),), (one, many))


def resnet() -> Case:
    import torchvision

    return _images(torchvision.models.resnet18(weights=None), 64)


def mobilenet() -> Case:
    import torchvision

    return _images(torchvision.models.mobilenet_v3_small(weights=None), 64)


def vision_transformer() -> Case:
    import torchvision

    model = torchvision.models.VisionTransformer(
        image_size=32, patch_size=8, num_layers=2, num_heads=4, hidden_dim=32, mlp_dim=64
    )
    return _images(model, 32)


def convnext() -> Case:
    from torchvision.models.convnext import CNBlockConfig, ConvNeXt

    blocks = [CNBlockConfig(16, 32, 1), CNBlockConfig(32, None, 1)]
    return _images(ConvNeXt(blocks), 64)


def swin() -> Case:
    from torchvision.models import SwinTransformer

    model = SwinTransformer(
        patch_size=[4, 4], embed_dim=16, depths=[2, 2], num_heads=[2, 4], window_size=[4, 4]
    )
    return _images(model, 64)


CASES: dict[str, Callable[[], Case]] = {
    case.__name__: case
    for case in (
        bert,
        distilbert,
        t5_encoder,
        gpt2,
        llama,
        qwen2,
        clip_text,
        clip_vision,
        whisper_encoder,
        lstm,
        resnet,
        mobilenet,
        vision_transformer,
        convnext,
        swin,
    )
}
