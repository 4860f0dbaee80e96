"""Language models of the transformers library, small and with random weights."""

from __future__ import annotations

from typing import Any

import torch
from model_case import VOCABULARY, Case, Mask, Masked, Outputs, Values, named, tokens
from torch import nn

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 64,
}
T5 = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "d_kv": 8,
    "d_ff": 64,
    "num_layers": 2,
    "num_heads": 4,
}
SPECIAL_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def _made(config: str, model: str, **sizes: Any) -> nn.Module:
    import transformers

    return getattr(transformers, model)(getattr(transformers, config)(**sizes))


def _encoder(kind: str, *outputs: str, **more: Any) -> Case:
    model = _made(f"{kind}Config", f"{kind}Model", **{**SIZES, **SPECIAL_TOKENS, **more})
    return tokens(Masked(model, ("input_ids", "attention_mask"), outputs), masked=True)


def _language(kind: str, **more: Any) -> Case:
    sizes = {**SIZES, **SPECIAL_TOKENS, "num_key_value_heads": 2, "use_cache": False, **more}
    model = _made(f"{kind}Config", f"{kind}ForCausalLM", **sizes)
    return tokens(Outputs(model, ("input_ids",), ("logits",)))


def bert() -> Case:
    return _encoder("Bert", "last_hidden_state", "pooler_output")


def distilbert() -> Case:
    sizes = {"vocab_size": VOCABULARY, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64}
    model = _made("DistilBertConfig", "DistilBertForSequenceClassification", **sizes)
    return tokens(Masked(model, ("input_ids", "attention_mask"), ("logits",)), masked=True)


def roberta() -> Case:
    return _encoder("Roberta", "last_hidden_state")


def albert() -> Case:
    return _encoder("Albert", "last_hidden_state", "pooler_output", embedding_size=16)


def electra() -> Case:
    return _encoder("Electra", "last_hidden_state", embedding_size=16)


def mpnet() -> Case:
    return _encoder("MPNet", "last_hidden_state", "pooler_output")


def modernbert() -> Case:
    return _encoder("ModernBert", "last_hidden_state", local_attention=8)


def deberta() -> Case:
    more = {
        "relative_attention": True,
        "pos_att_type": ["c2p", "p2c"],
        "max_relative_positions": 16,
    }
    return _encoder("DebertaV2", "last_hidden_state", **more)


def t5_encoder() -> Case:
    model = _made("T5Config", "T5EncoderModel", **T5)
    names = ("input_ids", "attention_mask")
    return tokens(Masked(model, names, ("last_hidden_state",)), masked=True)


class Seq2Seq(nn.Module):
    """An encoder with a decoder: source ids and mask [batch, s], target ids [batch, t]."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: torch.Tensor, mask: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.model(
            input_ids=x, attention_mask=mask, decoder_input_ids=y, use_cache=False
        ).logits


def _translation(model: nn.Module) -> Case:
    inputs = {
        "x": Values(("b", "s"), torch.int64, 3, VOCABULARY),
        "mask": Mask(("b", "s")),
        "y": Values(("b", "t"), torch.int64, 3, VOCABULARY),
    }
    profiles = {
        "first": {"b": (1, 1, 4), "s": (2, 16, 32), "t": 1},
        "later": {"b": (1, 2, 4), "s": (2, 16, 32), "t": (2, 8, 24)},
    }
    return Case(Seq2Seq(model).eval(), inputs, profiles)


def t5() -> Case:
    return _translation(
        _made("T5Config", "T5ForConditionalGeneration", decoder_start_token_id=0, **T5)
    )


def bart() -> Case:
    sizes = {
        "vocab_size": VOCABULARY,
        "d_model": 32,
        "encoder_layers": 2,
        "decoder_layers": 2,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "max_position_embeddings": 64,
    }
    return _translation(_made("BartConfig", "BartForConditionalGeneration", **sizes))


def gpt2() -> Case:
    sizes = {"vocab_size": VOCABULARY, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    model = _made("GPT2Config", "GPT2LMHeadModel", use_cache=False, **sizes, **SPECIAL_TOKENS)
    return tokens(Outputs(model, ("input_ids",), ("logits",)))


def gpt_neox() -> Case:
    return _language("GPTNeoX")


def opt() -> Case:
    more = {"ffn_dim": 64, "word_embed_proj_dim": 32}
    return _language("OPT", **more)


def llama() -> Case:
    return _language("Llama")


def llama_padded_at_left() -> Case:
    """As batches of prompts are; queries of the padding have no key."""
    sizes = {**SIZES, **SPECIAL_TOKENS, "num_key_value_heads": 2, "use_cache": False}
    model = _made("LlamaConfig", "LlamaForCausalLM", **sizes)
    names = ("input_ids", "attention_mask")
    return tokens(Masked(model, names, ("logits",)), masked=True, at_left=True)


def mistral() -> Case:
    return _language("Mistral", sliding_window=8)


def qwen2() -> Case:
    case = _language("Qwen2")
    case.model.to(torch.float16)
    return case


def qwen3() -> Case:
    return _language("Qwen3", head_dim=8)


def gemma() -> Case:
    return _language("Gemma", head_dim=8)


def gemma2() -> Case:
    return _language("Gemma2", head_dim=8, sliding_window=8)


def phi() -> Case:
    return _language("Phi", num_key_value_heads=4)


def phi3() -> Case:
    return _language("Phi3")


def falcon() -> Case:
    return _language("Falcon", new_decoder_architecture=True, num_kv_heads=2)


def clip_text() -> Case:
    model = _made("CLIPTextConfig", "CLIPTextModel", **SIZES, **SPECIAL_TOKENS)
    return tokens(Outputs(model, ("input_ids",), ("last_hidden_state",)))


CASES = named(
    bert,
    distilbert,
    roberta,
    albert,
    electra,
    mpnet,
    modernbert,
    deberta,
    t5_encoder,
    t5,
    bart,
    gpt2,
    gpt_neox,
    opt,
    llama,
    llama_padded_at_left,
    mistral,
    qwen2,
    qwen3,
    gemma,
    gemma2,
    phi,
    phi3,
    falcon,
    clip_text,
)
