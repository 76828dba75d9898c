"""A multimodal model made on the spot: an Idefics3 of a few layers that reads bytes, untrained."""

from __future__ import annotations

from typing import Any

import torch

from src.configs import TinyVlmConfig
from src.generators import tiny
from src.generators.multimodal import Multimodal

# Side of a picture and of a patch, in pixels; so many patches a side become one token.
SIDE, PATCH, MERGED = 32, 8, 2
PLACES = ("<image>", "<fake_token_around_image>", "<end_of_utterance>", "<global-img>")


def load(config: TinyVlmConfig) -> Multimodal:
    """The model and its processor."""
    made = processor()
    return Multimodal(model(config, made.tokenizer), made, config.batch_size)


def model(config: TinyVlmConfig, tokenizer: Any) -> Any:
    """An untrained Idefics3, the same for the same seed.

    Args:
        config: its size and its seed.
        tokenizer: see `processor`.
    """
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration, Qwen2Config

    size = {
        "hidden_size": config.width,
        "intermediate_size": 2 * config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
    }
    special = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    text: Any = Qwen2Config
    made: Any = Idefics3Config
    described = made(
        text_config=text(vocab_size=len(tokenizer), num_key_value_heads=config.heads, **size, **special),
        vision_config={"image_size": SIDE, "patch_size": PATCH, **size},
        scale_factor=MERGED,
        image_token_id=tokenizer.convert_tokens_to_ids(PLACES[0]),
        **special,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(config.seed)
        built: Any = Idefics3ForConditionalGeneration(described)
    built.requires_grad_(False)
    return built.eval()


def processor() -> Any:
    """Pictures of one size, and a tokenizer whose tokens are the 256 bytes."""
    from transformers import Idefics3ImageProcessorPil, Idefics3Processor

    tokenizer = tiny.tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": list(PLACES)})
    pictures: Any = Idefics3ImageProcessorPil
    side = {"longest_edge": SIDE}
    return Idefics3Processor(
        pictures(size=side, max_image_size=side, do_image_splitting=False),
        tokenizer,
        image_seq_len=(SIDE // PATCH // MERGED) ** 2,
    )
