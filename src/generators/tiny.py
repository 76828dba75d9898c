"""Build untrained byte-level models of a few layers: a Qwen2, and a multimodal Idefics3."""

from typing import Any

import torch

from src.configs import TinyConfig, TinyVlmConfig
from src.generators.language_models import IMAGE, Causal, Multimodal

END, PAD = "<|endoftext|>", "<|padding|>"
# Width of a picture and of a patch, in pixels; width of the square of patches merged into one token.
SIDE, PATCH, MERGED = 32, 8, 2
ADDED_TOKENS = (IMAGE, "<fake_token_around_image>", "<end_of_utterance>", "<global-img>")


def load(config: TinyConfig) -> Causal:
    """Build an untrained Qwen2, determined by its seed, and its tokenizer."""
    from transformers import Qwen2ForCausalLM

    bytes_tokenizer = build_tokenizer()
    model = _build_untrained(Qwen2ForCausalLM, _qwen2_config(config, bytes_tokenizer), config.seed)
    return Causal(model, bytes_tokenizer, config.batch_size)


def load_multimodal(config: TinyVlmConfig) -> Multimodal:
    """Build an untrained Idefics3, determined by its seed, and its processor."""
    from transformers import Idefics3Config, Idefics3ForConditionalGeneration

    kind: Any = Idefics3Config
    idefics3 = build_processor()
    bytes_tokenizer = idefics3.tokenizer
    model_config = kind(
        text_config=_qwen2_config(config, bytes_tokenizer),
        vision_config={"image_size": SIDE, "patch_size": PATCH, **_layer_sizes(config)},
        scale_factor=MERGED,
        image_token_id=bytes_tokenizer.convert_tokens_to_ids(IMAGE),
        **_special_token_ids(bytes_tokenizer),
    )
    model = _build_untrained(Idefics3ForConditionalGeneration, model_config, config.seed)
    return Multimodal(model, idefics3, config.batch_size)


def _qwen2_config(config: TinyConfig | TinyVlmConfig, tokenizer: Any) -> Any:
    from transformers import Qwen2Config

    kind: Any = Qwen2Config
    options = {**_layer_sizes(config), **_special_token_ids(tokenizer)}
    return kind(vocab_size=len(tokenizer), num_key_value_heads=config.heads, **options)


def _layer_sizes(config: TinyConfig | TinyVlmConfig) -> dict[str, int]:
    return {
        "hidden_size": config.width,
        "intermediate_size": 2 * config.width,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
    }


def _special_token_ids(tokenizer: Any) -> dict[str, int]:
    return {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}


def _build_untrained(kind: Any, config: Any, seed: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = kind(config)
    network.requires_grad_(False)
    return network.eval()


def build_tokenizer() -> Any:
    """Build a tokenizer whose tokens are the 256 bytes."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={letter: token for token, letter in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    kind: Any = PreTrainedTokenizerFast
    return kind(tokenizer_object=backend, eos_token=END, pad_token=PAD)


def build_processor() -> Any:
    """Build a processor that resizes pictures to `SIDE`, with a tokenizer whose tokens are the 256 bytes."""
    from transformers import Idefics3ImageProcessorPil, Idefics3Processor

    bytes_tokenizer = build_tokenizer()
    bytes_tokenizer.add_special_tokens({"additional_special_tokens": list(ADDED_TOKENS)})
    pictures: Any = Idefics3ImageProcessorPil
    side = {"longest_edge": SIDE}
    return Idefics3Processor(
        pictures(size=side, max_image_size=side, do_image_splitting=False),
        bytes_tokenizer,
        image_seq_len=(SIDE // PATCH // MERGED) ** 2,
    )
