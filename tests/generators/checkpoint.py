"""Write small real checkpoints of language models and multimodal models, and pictures."""

from pathlib import Path

import numpy as np
import torch
from PIL import Image

from src.configs import TinyConfig, TinyVlmConfig
from src.generators import tiny

SIZES = {"width": 32, "layers": 2, "heads": 2}
TEMPLATE = (
    "{% for message in messages %}<|{{ message.role }}|>{{ message.content }}\n{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
PARTS = (
    "{% for part in message.content %}{% if part.type == 'image' %}<image>{% else %}{{ part.text }}"
    "{% endif %}{% endfor %}"
)


def causal(seed):
    return tiny.load(TinyConfig(**SIZES, seed=seed)).model, tiny.build_tokenizer()


def idefics3(seed):
    loaded = tiny.load_multimodal(TinyVlmConfig(**SIZES, seed=seed))
    return loaded.model, loaded.processor


def llava(seed):
    import transformers

    tokenizer = tiny.build_tokenizer()
    tokenizer.add_special_tokens({"additional_special_tokens": ["<image>"]})
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    torch.manual_seed(seed)
    config = transformers.LlavaConfig(
        vision_config=transformers.CLIPVisionConfig(image_size=32, patch_size=8, **size),
        text_config=transformers.Qwen2Config(vocab_size=len(tokenizer), num_key_value_heads=2, **size),
        image_token_id=tokenizer.convert_tokens_to_ids("<image>"),
        vision_feature_layer=-1,
    )
    model = transformers.LlavaForConditionalGeneration(config)
    model.generation_config.eos_token_id = tokenizer.eos_token_id
    sizes = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    patches = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    return model, transformers.LlavaProcessor(
        transformers.CLIPImageProcessorPil(**sizes), tokenizer, **patches
    )


def enlarge(model: torch.nn.Module) -> None:
    """Enlarge the weights, so that pictures and earlier tokens change what follows."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)


def write_checkpoint(
    folder: Path, family=causal, *, chat: bool = True, seed: int = 0, shard: str = "5GB"
) -> Path:
    """Write a checkpoint of a family into a folder, and return the folder.

    `family`: function (seed) -> model and processor. `chat`: with a chat template. `shard`: maximum size of a
    file of weights.
    """
    model, processor = family(seed)
    enlarge(model)
    model.save_pretrained(folder, max_shard_size=shard)
    if chat:
        content = "{{ message.content }}"
        processor.chat_template = TEMPLATE if family is causal else TEMPLATE.replace(content, PARTS)
    processor.save_pretrained(folder)
    return folder


def pictures(folder: Path, count: int) -> list[Path]:
    """Write pictures of noise in several shapes."""
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number}.png" for number in range(count)]
    for number, path in enumerate(paths):
        shape = (32 + 8 * (number % 3), 40, 3)
        Image.fromarray(np.random.default_rng(number).integers(0, 256, shape, dtype=np.uint8)).save(path)
    return paths
