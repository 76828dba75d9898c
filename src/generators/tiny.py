"""A language model made on the spot: a Qwen2 of a few layers that reads bytes, untrained."""

from __future__ import annotations

from typing import Any

import torch

from src.configs import TinyConfig
from src.generators.causal import Causal

END, PAD = "<|endoftext|>", "<|padding|>"


def load(config: TinyConfig) -> Causal:
    """The model and its tokenizer."""
    return Causal(model(config), tokenizer(), config.batch_size)


def model(config: TinyConfig) -> Any:
    """An untrained Qwen2, the same for the same seed.

    Args:
        config: its size and its seed.
    """
    from transformers import Qwen2Config, Qwen2ForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        made = Qwen2ForCausalLM(
            Qwen2Config(
                vocab_size=len(tokenizer()),
                hidden_size=config.width,
                intermediate_size=2 * config.width,
                num_hidden_layers=config.layers,
                num_attention_heads=config.heads,
                num_key_value_heads=config.heads,
                eos_token_id=tokenizer().eos_token_id,
                pad_token_id=tokenizer().pad_token_id,
            )
        )
    made.requires_grad_(False)
    return made


def tokenizer() -> Any:
    """A tokenizer whose tokens are the 256 bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: place for place, letter in enumerate(alphabet)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    kind: Any = PreTrainedTokenizerFast
    return kind(tokenizer_object=made, eos_token=END, pad_token=PAD)
