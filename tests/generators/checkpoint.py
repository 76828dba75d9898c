"""Write a small real checkpoint of transformers."""

from pathlib import Path

import torch

from src.configs import TinyConfig
from src.generators import tiny

TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def enlarge(model: torch.nn.Module) -> None:
    """Enlarge the weights, so that pictures and earlier tokens change what follows."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)


def saved(folder: Path, *, chat: bool = True, seed: int = 0, shard: str = "5GB") -> Path:
    model = tiny.load(TinyConfig(width=32, layers=2, heads=2, seed=seed)).model
    enlarge(model)
    model.save_pretrained(folder, max_shard_size=shard)
    tokenizer = tiny.tokenizer()
    if chat:
        tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    return folder
