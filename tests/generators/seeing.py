"""Write small real multimodal checkpoints, and pictures."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from src.configs import TinyVlmConfig
from src.generators import tiny
from tests.generators.checkpoint import enlarge

TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{% for part in message.content %}"
    "{% if part.type == 'image' %}<image>{% else %}{{ part.text }}{% endif %}{% endfor %}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)


def idefics3(config):
    loaded = tiny.load_multimodal(config)
    return loaded.model, loaded.processor


def llava(config):
    from transformers import (
        CLIPImageProcessorPil,
        CLIPVisionConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
        Qwen2Config,
    )

    tokenizer = tiny.tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(config.seed)
    model = LlavaForConditionalGeneration(
        LlavaConfig(
            vision_config=CLIPVisionConfig(image_size=32, patch_size=8, **size),
            text_config=Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=2, **size),
            image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
            vision_feature_layer=-1,
        )
    )
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    image_processor = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    return model, LlavaProcessor(
        image_processor,
        tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
    )


def saved(folder: Path, family=idefics3, *, chat: bool = True, seed: int = 0) -> Path:
    model, processor = family(TinyVlmConfig(width=32, layers=2, heads=2, seed=seed))
    enlarge(model)
    model.save_pretrained(folder)
    if chat:
        processor.chat_template = TEMPLATE
    processor.save_pretrained(folder)
    return folder


def pictures(folder: Path, count: int) -> list[Path]:
    """Write pictures of noise in several shapes."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.png" for number in range(count)]
    for number, path in enumerate(paths):
        pixels = np.random.default_rng(number).integers(
            0, 256, (32 + 8 * (number % 3), 40, 3), dtype=np.uint8
        )
        Image.fromarray(pixels).save(path)
    return paths
