"""Build small random checkpoints of sentence-transformers, with processors, in folders."""

import json
from pathlib import Path
from typing import Any

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Normalize, Pooling, Transformer
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

from tests.encoders.dual_checkpoints import dual_files
from tests.encoders.small_checkpoints import write_folder

# Tokens of Qwen3-VL's chat template; the first is also the padding.
TOKENS = [
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>"),
    *("<|image_pad|>", "<|video_pad|>"),
]
BYTES = sorted(pre_tokenizers.ByteLevel.alphabet())
VOCABULARY = {piece: i for i, piece in enumerate([*TOKENS, *BYTES])}
# As Qwen3-VL-Embedding's: an instruction of its own where there is no system message, the last token pooled.
INSTRUCTION = "Represent the input."
CHAT_TEMPLATE = """\
{%- set parts = namespace(system='INSTRUCTION') -%}
{%- if messages[0].role == 'system' -%}{%- set parts.system = messages[0].content[0].text -%}{%- endif -%}
<|im_start|>system
{{ parts.system }}<|im_end|>
{% for message in messages if message.role != 'system' -%}
<|im_start|>{{ message.role }}
{% for item in message.content -%}
{%- if item.type == 'image' -%}<|vision_start|><|image_pad|><|vision_end|>
{%- else -%}{{ item.text }}{%- endif -%}
{%- endfor -%}<|im_end|>
{% endfor -%}
<|im_start|>assistant
<|endoftext|>""".replace("INSTRUCTION", INSTRUCTION)
PROMPTS = {"query": "find: ", "match": "Find a picture that matches."}


def language_config() -> Any:
    """Return the config of a small Qwen3-VL."""
    kind: Any = transformers.Qwen3VLConfig
    text = {
        "vocab_size": len(VOCABULARY), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16, "max_position_embeddings": 512,
        "rope_parameters": {"rope_type": "default", "mrope_section": [4, 2, 2], "rope_theta": 10000.0},
    }  # fmt: skip
    vision = {
        "depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 32,
        "patch_size": 8, "spatial_merge_size": 2, "temporal_patch_size": 2, "num_position_embeddings": 64,
        "deepstack_visual_indexes": [1],
    }  # fmt: skip
    ids = {"image": "<|image_pad|>", "video": "<|video_pad|>"}
    tokens = {f"{name}_token_id": VOCABULARY[token] for name, token in ids.items()}
    tokens |= {f"vision_{edge}_token_id": VOCABULARY[f"<|vision_{edge}|>"] for edge in ("start", "end")}
    return kind(text_config=text, vision_config=vision, tie_word_embeddings=True, **tokens)


def build_language_model(seed: int = 0) -> torch.nn.Module:
    """Let transformers build a small Qwen3-VL with random weights, as it is published."""
    return build_random(lambda: transformers.Qwen3VLForConditionalGeneration(language_config()), seed)


def build_random(build: Any, seed: int) -> torch.nn.Module:
    """Build a model with random weights that tell items apart."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model: torch.nn.Module = build().eval()
        for weights in model.parameters():  # with the usual SD of 0.02, all vectors would be alike
            if weights.dim() > 1:
                torch.nn.init.normal_(weights, std=0.3)
            else:  # norms that change what they are given
                torch.nn.init.uniform_(weights, 0.5, 2.0)
    return model


def build_tokenizer(kind: Any, vocabulary: dict[str, int], tokens: list[str], end: str) -> Any:
    """Return a tokenizer of bytes and special tokens, of which the first is the padding."""
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = kind(tokenizer_object=backend, pad_token=tokens[0], eos_token=end)
    tokenizer.add_special_tokens({"additional_special_tokens": tokens[1:]})
    return tokenizer


def build_processor() -> Any:
    """Return the processor of a small Qwen3-VL, which takes pictures in their own sizes."""
    tokenizer = build_tokenizer(transformers.Qwen2TokenizerFast, VOCABULARY, TOKENS, "<|im_end|>")
    sizes = {"patch_size": 8, "merge_size": 2, "temporal_patch_size": 2}
    edges = {"size": {"shortest_edge": 16 * 16, "longest_edge": 64 * 64}}
    processor: Any = transformers.Qwen3VLProcessor
    return processor(
        transformers.Qwen2VLImageProcessor(**sizes, **edges),
        tokenizer,
        transformers.Qwen3VLVideoProcessor(**sizes, **edges),
        chat_template=CHAT_TEMPLATE,
    )


# As E5-V's: a LLaVA-NeXT whose chat template ends a text and a picture with an instruction of their own.
LLAVA_TOKENS = ["<pad>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<image>"]
LLAVA_TEMPLATE = """\
{% for message in messages %}<|start_header_id|>user<|end_header_id|>

{% for item in message.content -%}
{%- if item.type == 'image' -%}<image>
In a word, the image: {%- else -%}{{ item.text }}
In a word, the sentence: {%- endif -%}
{%- endfor %}<|eot_id|>{% endfor %}<|start_header_id|>assistant<|end_header_id|>
"""


def llava_files(scratch: Path, seed: int = 0) -> dict[str, bytes]:
    """Return the files of a small LLaVA-NeXT without modules.json, made in the folder `scratch`."""
    vocabulary = {piece: i for i, piece in enumerate([*LLAVA_TOKENS, *BYTES])}
    common: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2}
    text = transformers.LlamaConfig(vocab_size=len(vocabulary), num_hidden_layers=2, **common)
    vision = transformers.CLIPVisionConfig(image_size=16, patch_size=8, num_hidden_layers=3, **common)
    sizes = [[16, 32], [32, 16], [32, 32]]
    image = {"image_token_index": vocabulary["<image>"], "image_seq_length": 4}
    kind: Any = transformers.LlavaNextConfig
    config = kind(text_config=text, vision_config=vision, image_grid_pinpoints=sizes, **image)
    build_random(lambda: transformers.LlavaNextForConditionalGeneration(config), seed).save_pretrained(
        scratch
    )
    tokenizer = build_tokenizer(transformers.PreTrainedTokenizerFast, vocabulary, LLAVA_TOKENS, "<|eot_id|>")
    edges = {"size": {"shortest_edge": 16}, "crop_size": {"height": 16, "width": 16}}
    pictures = transformers.LlavaNextImageProcessor(image_grid_pinpoints=sizes, **edges)
    counts = {"patch_size": 8, "vision_feature_select_strategy": "default", "num_additional_image_tokens": 1}
    processor: Any = transformers.LlavaNextProcessor
    processor(pictures, tokenizer, chat_template=LLAVA_TEMPLATE, **counts).save_pretrained(scratch)
    return read_files(scratch)


def read_files(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder, by their relative paths."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def language_files(scratch: Path, seed: int = 0) -> dict[str, bytes]:
    """Return the files of a small Qwen3-VL without modules.json, made in the folder `scratch`."""
    build_language_model(seed).save_pretrained(scratch)
    build_processor().save_pretrained(scratch)
    return read_files(scratch)


def legacy_clip_files(scratch: Path) -> dict[str, bytes]:
    """Return the files of a small CLIP as sentence-transformers saved it before version 5.4."""
    module = {"idx": 0, "name": "0", "path": "0_CLIPModel", "type": "sentence_transformers.models.CLIPModel"}
    files = {f"0_CLIPModel/{name}": content for name, content in dual_files("clip", scratch).items()}
    return files | {
        "modules.json": json.dumps([module]).encode(),
        "config_sentence_transformers.json": b'{"__version__": {"sentence_transformers": "2.0.0"}}',
    }


def embedder_files(name: str, scratch: Path, seed: int = 0) -> dict[str, bytes]:
    """Return the files of a small embedder (`NAMES`), as sentence-transformers saves them to `scratch`."""
    if name == "legacy_clip":
        return legacy_clip_files(scratch)
    options: dict[str, Any] = {}
    if name in ("qwen3_vl", "e5_v"):
        make = language_files if name == "qwen3_vl" else llava_files
        first = load_first(make(scratch / "made", seed), scratch / "first")
        modules = [first, Pooling(32, "lasttoken"), Normalize()]
        options = {"prompts": PROMPTS} if name == "qwen3_vl" else {}
    else:
        first = load_first(dual_files(name.removesuffix("_dense"), scratch / "made", seed), scratch / "first")
        modules = [first]
        if name == "clip_dense":
            with torch.random.fork_rng():
                torch.manual_seed(seed)
                modules.append(Dense(16, 12, activation_function=torch.nn.Tanh()))
            options = {"prompts": PROMPTS, "default_prompt_name": "query"}
    model = SentenceTransformer(modules=modules, device="cpu", **options)
    model.save_pretrained(str(scratch / "saved"), create_model_card=False)
    return read_files(scratch / "saved")


def load_first(files: dict[str, bytes], folder: Path) -> Transformer:
    """Let sentence-transformers make its first module of a checkpoint of transformers."""
    options = {"local_files_only": True}
    return Transformer(
        str(write_folder(files, folder)),
        model_kwargs={"dtype": torch.float32, **options},
        processor_kwargs=options,
        config_kwargs=options,
    )


NAMES = ("legacy_clip", "clip_dense", "siglip2", "qwen3_vl", "e5_v")
