"""A small real checkpoint of transformers on disk."""

from pathlib import Path

import torch

from src.configs import TinyConfig
from src.generators import tiny

TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def saved(folder: Path, *, chat: bool = True, seed: int = 0, shard: str = "5GB") -> Path:
    model = tiny.model(TinyConfig(width=32, layers=2, heads=2, seed=seed))
    with torch.no_grad():  # larger weights, so that what was said before matters
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    model.save_pretrained(folder, max_shard_size=shard)
    tokenizer = tiny.tokenizer()
    if chat:
        tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder
