"""Speech models and recurrent ones, small and with random weights."""

from __future__ import annotations

import torch
from model_case import ONE_AND_MANY, Case, Outputs, Values, named
from torch import nn


def _steps(model: nn.Module, *sizes: int) -> Case:
    return Case(model.eval(), {"x": Values(("b", *sizes))}, ONE_AND_MANY)


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
    model = Outputs(WhisperEncoder(config), ("input_features",), ("last_hidden_state",))
    return _steps(model, 16, 80)


class WhisperDecoder(nn.Module):
    """Whisper's decoder over an encoder's result: ids [batch, t], states [batch, 20, 32]."""

    def __init__(self) -> None:
        super().__init__()
        from transformers import WhisperConfig, WhisperForConditionalGeneration

        config = WhisperConfig(
            vocab_size=64,
            d_model=32,
            encoder_layers=1,
            decoder_layers=2,
            encoder_attention_heads=4,
            decoder_attention_heads=4,
            encoder_ffn_dim=64,
            decoder_ffn_dim=64,
            num_mel_bins=16,
            max_source_positions=20,
            max_target_positions=40,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=2,
            decoder_start_token_id=1,
            suppress_tokens=None,
            begin_suppress_tokens=None,
        )
        model = WhisperForConditionalGeneration(config)
        self.decoder, self.head = model.model.decoder, model.proj_out

    def forward(self, ids: torch.Tensor, states: torch.Tensor) -> torch.Tensor:
        hidden = self.decoder(input_ids=ids, encoder_hidden_states=states, use_cache=False)
        return self.head(hidden.last_hidden_state)


def whisper_decoder() -> Case:
    inputs = {"ids": Values(("b", "t"), torch.int64, 3, 64), "states": Values(("b", 20, 32))}
    profiles = {"decode": {"b": (1, 1, 4), "t": 1}, "prefill": {"b": (1, 2, 4), "t": (2, 8, 32)}}
    return Case(WhisperDecoder().eval(), inputs, profiles)


def wav2vec2() -> Case:
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    config = Wav2Vec2Config(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        conv_dim=(16, 16),
        conv_stride=(5, 4),
        conv_kernel=(10, 8),
        num_feat_extract_layers=2,
        num_conv_pos_embeddings=8,
        num_conv_pos_embedding_groups=4,
        do_stable_layer_norm=True,
        feat_extract_norm="layer",
    )
    model = Outputs(Wav2Vec2Model(config), ("input_values",), ("last_hidden_state",))
    profiles = {"short": {"b": 1, "n": 400}, "long": {"b": (1, 2, 4), "n": (401, 800, 1200)}}
    return Case(model.eval(), {"x": Values(("b", "n"))}, profiles)


class Recurrent(nn.Module):
    def __init__(self, kind: type[nn.Module], **more: bool) -> None:
        super().__init__()
        self.steps = kind(8, 16, 2, batch_first=True, **more)
        self.out = nn.Linear(32 if more else 16, 5)


class Lstm(Recurrent):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        steps, (hidden, cell) = self.steps(x)
        return self.out(steps[:, -1]), hidden, cell


class Gru(Recurrent):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        steps, hidden = self.steps(x)
        return self.out(steps), hidden


def lstm() -> Case:
    return _steps(Lstm(nn.LSTM), 6, 8)


def gru() -> Case:
    return _steps(Gru(nn.GRU, bidirectional=True), 6, 8)


def temporal_convolutions() -> Case:
    """Dilated convolutions over a sequence of varying length, gated, with a spectral norm."""

    class Layer(nn.Module):
        def __init__(self, dilation: int) -> None:
            super().__init__()
            padding = 2 * dilation
            self.conv = nn.Conv1d(8, 16, 3, dilation=dilation, padding=padding)
            self.norm = nn.GroupNorm(2, 8)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            gated = nn.functional.glu(self.conv(x)[..., : x.shape[-1]], 1)
            return x + self.norm(gated)

    model = nn.Sequential(*(Layer(2**index) for index in range(3)))
    profiles = {"chunk": {"b": 1, "t": 8}, "whole": {"b": (1, 2, 4), "t": (9, 32, 100)}}
    return Case(model.eval(), {"input": Values(("b", 8, "t"))}, profiles)


CASES = named(whisper_encoder, whisper_decoder, wav2vec2, lstm, gru, temporal_convolutions)
