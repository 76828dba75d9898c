"""Build small random checkpoints of transformers' dual encoders, with tokenizers, in folders."""

import gzip
import io
import json
from pathlib import Path

import torch
import transformers
from open_clip.tokenizer import bytes_to_unicode, default_bpe
from safetensors.torch import load

from tests.encoders.small_checkpoints import tokenizer_files

VISION = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 2,
    "image_size": 32, "patch_size": 16,
}  # fmt: skip
LAYERS = {key: VISION[key] for key in VISION if key not in ("image_size", "patch_size")}
TEXT = LAYERS | {"vocab_size": 200, "max_position_embeddings": 64}
# Ids of `tokenizer_files`: padding 0, start 2, end 3.
ENDED = TEXT | {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
# Of CLIP's tokenizer: OWL-ViT takes the highest id for the end of a text.
CLIP_TEXT = TEXT | {"vocab_size": 49408, "pad_token_id": 49407, "bos_token_id": 49406, "eos_token_id": 49407}
SIGLIP = TEXT | {"projection_size": 32, "vocab_size": 400}
PROJECTED = {"projection_dim": 16}
# Only the first of EfficientNet's blocks: others cannot be as small.
EFFICIENT = {
    "image_size": 32, "width_coefficient": 0.25, "depth_coefficient": 0.25, "depth_divisor": 8,
    "kernel_sizes": [3], "in_channels": [32], "out_channels": [64], "strides": [1],
    "num_block_repeats": [1], "expand_ratios": [1], "depthwise_padding": [], "hidden_dim": 16,
}  # fmt: skip
CLIP_PROCESSOR = {
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": 32},
    "crop_size": {"height": 32, "width": 32},
}
SQUARE = {"height": 32, "width": 32}
# Name of a checkpoint -> its config in transformers, and that of its image processor.
CONFIGS = {
    "clip": (transformers.CLIPConfig(text_config=ENDED, vision_config=VISION, **PROJECTED), CLIP_PROCESSOR),
    "siglip": (
        transformers.SiglipConfig(text_config=SIGLIP, vision_config=VISION),
        {"image_processor_type": "SiglipImageProcessor", "size": SQUARE},
    ),
    # SigLIP 2 at a fixed resolution has SigLIP's classes, and Gemma's tokenizer.
    "siglip2": (
        transformers.SiglipConfig(text_config=SIGLIP, vision_config=VISION),
        {"image_processor_type": "SiglipImageProcessor", "size": SQUARE},
    ),
    "siglip2_naflex": (
        transformers.Siglip2Config(
            text_config=SIGLIP, vision_config=LAYERS | {"patch_size": 16, "num_patches": 16}
        ),
        {"image_processor_type": "Siglip2ImageProcessor", "patch_size": 16, "max_num_patches": 12},
    ),
    "metaclip2": (
        transformers.MetaClip2Config(text_config=ENDED, vision_config=VISION, **PROJECTED),
        CLIP_PROCESSOR,
    ),
    "chinese_clip": (
        transformers.ChineseCLIPConfig(text_config=TEXT, vision_config=VISION, **PROJECTED),
        CLIP_PROCESSOR | {"image_processor_type": "ChineseCLIPImageProcessor"},
    ),
    "altclip": (
        transformers.AltCLIPConfig(
            text_config=TEXT | {"project_dim": 24, "pad_token_id": 0},
            vision_config=VISION | PROJECTED,
            **PROJECTED,
        ),
        CLIP_PROCESSOR,
    ),
    "align": (
        transformers.AlignConfig(text_config=TEXT, vision_config=EFFICIENT, **PROJECTED),
        {"image_processor_type": "EfficientNetImageProcessor", "size": SQUARE},
    ),
    "blip": (
        transformers.BlipConfig(
            text_config=TEXT | {"encoder_hidden_size": 32}, vision_config=VISION, **PROJECTED
        ),
        {"image_processor_type": "BlipImageProcessor", "size": SQUARE},
    ),
    "flava": (
        transformers.FlavaConfig(
            text_config=TEXT,
            image_config=VISION,
            multimodal_config=LAYERS,
            image_codebook_config={},
            **PROJECTED,
        ),
        {"image_processor_type": "FlavaImageProcessor", "size": SQUARE, "crop_size": SQUARE},
    ),
    "aimv2": (
        transformers.Aimv2Config(text_config=ENDED, vision_config=VISION, **PROJECTED),
        CLIP_PROCESSOR,
    ),
    "tipsv2": (
        transformers.Tipsv2Config(text_config=TEXT, vision_config=VISION),
        {"image_processor_type": "Tipsv2ImageProcessor", "size": SQUARE},
    ),
    "groupvit": (
        transformers.GroupViTConfig(
            text_config=ENDED,
            vision_config=VISION
            | {"depths": [1, 1, 1], "num_group_tokens": [4, 2, 0], "num_output_groups": [4, 2, 2]},
            projection_intermediate_dim=24,
            **PROJECTED,
        ),
        CLIP_PROCESSOR,
    ),
    "clipseg": (
        transformers.CLIPSegConfig(text_config=ENDED, vision_config=VISION, **PROJECTED),
        CLIP_PROCESSOR,
    ),
    "owlvit": (
        transformers.OwlViTConfig(text_config=CLIP_TEXT, vision_config=VISION, **PROJECTED),
        {"image_processor_type": "OwlViTImageProcessor", "size": SQUARE, "crop_size": SQUARE},
    ),
    "owlv2": (
        transformers.Owlv2Config(text_config=CLIP_TEXT, vision_config=VISION, **PROJECTED),
        {"image_processor_type": "OwlViTImageProcessor", "size": SQUARE, "crop_size": SQUARE},
    ),
    "pair": (
        transformers.VisionTextDualEncoderConfig.from_vision_text_configs(
            transformers.ViTConfig(**VISION), transformers.BertConfig(**TEXT), **PROJECTED
        ),
        {"image_processor_type": "ViTImageProcessor", "size": SQUARE},
    ),
}


def build_model(name: str, seed: int = 0) -> torch.nn.Module:
    """Let transformers build a small dual encoder with random weights."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.AutoModel.from_config(CONFIGS[name][0]).eval()
        for weights in model.parameters():  # with the usual SD of 0.02, all vectors would be alike
            if weights.dim() > 1:
                torch.nn.init.normal_(weights, std=0.3)
    return model


def dual_files(name: str, scratch: Path, seed: int = 0) -> dict[str, bytes]:
    """Return the files of a small dual encoder, as transformers saves them to the folder `scratch`."""
    build_model(name, seed).save_pretrained(scratch)
    (scratch / "preprocessor_config.json").write_text(json.dumps(CONFIGS[name][1]))
    files = {item.name: item.read_bytes() for item in scratch.iterdir() if item.is_file()}
    return files | TOKENIZERS.get(name, tokenizer_files)()


def gemma_files() -> dict[str, bytes]:
    """Return the files of a tokenizer like SigLIP 2's: it tells upper from lower case, and ends a text."""
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

    pieces = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", "▁", *map(chr, range(33, 127))]
    pieces += [f"<0x{byte:02X}>" for byte in range(256)]
    bpe = Tokenizer(
        models.BPE(
            vocab={piece: i for i, piece in enumerate(pieces)},
            merges=[],
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    bpe.normalizer = normalizers.Replace(" ", "▁")
    bpe.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    bpe.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    bpe.post_processor = processors.TemplateProcessing(single="$A <eos>", special_tokens=[("<eos>", 1)])
    config = {
        "tokenizer_class": "GemmaTokenizer", "padding_side": "right", "model_input_names": ["input_ids"],
        "add_bos_token": False, "add_eos_token": True,
        **{f"{kind}_token": f"<{kind}>" for kind in ("pad", "eos", "bos", "unk")},
    }  # fmt: skip
    return {"tokenizer.json": bpe.to_str().encode(), "tokenizer_config.json": json.dumps(config).encode()}


def sentencepiece_files() -> dict[str, bytes]:
    """Return the files of SigLIP's tokenizer, trained on a few sentences."""
    import sentencepiece

    sentences = [
        "this is the word calm",
        "here is the word anti war",
        "abcdefghijklmnopqrstuvwxyz 0123456789",
    ]
    written = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences), model_writer=written, vocab_size=60, hard_vocab_limit=False,
        pad_id=0, eos_id=1, unk_id=2, bos_id=-1, minloglevel=2,
    )  # fmt: skip
    config = {
        "tokenizer_class": "SiglipTokenizer",
        "model_max_length": 64,
        "model_input_names": ["input_ids"],
    }
    return {"spiece.model": written.getvalue(), "tokenizer_config.json": json.dumps(config).encode()}


def clip_tokenizer_files() -> dict[str, bytes]:
    """Return the files of CLIP's tokenizer, from the list of merges in open_clip."""
    with gzip.open(default_bpe()) as file:
        merges = file.read().decode().split("\n")[1 : 49152 - 256 - 2 + 1]
    signs = list(bytes_to_unicode().values())
    pieces = [*signs, *(sign + "</w>" for sign in signs), *("".join(merge.split()) for merge in merges)]
    pieces += ["<|startoftext|>", "<|endoftext|>"]
    config = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77, "pad_token": "<|endoftext|>"}
    return {
        "vocab.json": json.dumps({piece: i for i, piece in enumerate(pieces)}).encode(),
        "merges.txt": "\n".join(["#version: 0.2", *merges]).encode(),
        "tokenizer_config.json": json.dumps(config).encode(),
    }


# Name of a checkpoint -> files of its tokenizer; others have the one of `tokenizer_files`.
TOKENIZERS = {
    "siglip": sentencepiece_files,
    **dict.fromkeys(("siglip2", "siglip2_naflex"), gemma_files),
    **dict.fromkeys(("owlvit", "owlv2"), clip_tokenizer_files),
}
# Prefix of open_clip's blocks -> that of transformers.
BLOCKS = {
    "transformer.resblocks": "text_model.encoder.layers",
    "visual.transformer.resblocks": "vision_model.encoder.layers",
}
# Name in a block of open_clip -> in a block of transformers.
LAYER_NAMES = {
    "ln_1": "layer_norm1", "ln_2": "layer_norm2", "attn.out_proj": "self_attn.out_proj",
    "mlp.c_fc": "mlp.fc1", "mlp.c_proj": "mlp.fc2",
}  # fmt: skip
# Name in open_clip -> in transformers; two matrices of open_clip are multiplied from the right.
OTHER_NAMES = {
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "text_projection": "text_projection.weight",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.proj": "visual_projection.weight",
    "logit_scale": "logit_scale",
    **{
        f"{ours}.{kind}": f"{theirs}.{kind}"
        for ours, theirs in {
            "ln_final": "text_model.final_layer_norm",
            "visual.ln_pre": "vision_model.pre_layrnorm",
            "visual.ln_post": "vision_model.post_layernorm",
        }.items()
        for kind in ("weight", "bias")
    },
}


def convert_clip(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Convert the weights of a CLIP of open_clip into those of transformers' `CLIPModel`."""
    converted = {}
    for name, weights in state.items():
        block = next((prefix for prefix in BLOCKS if name.startswith(f"{prefix}.")), None)
        if block is None:
            is_transposed = name in ("text_projection", "visual.proj")
            converted[OTHER_NAMES[name]] = weights.T.contiguous() if is_transposed else weights
            continue
        number, _, layer = name.removeprefix(f"{block}.").partition(".")
        layer, _, kind = layer.rpartition(".")
        if layer == "attn":  # queries, keys and values in one matrix
            for letter, rows in zip("qkv", weights.chunk(3), strict=True):
                field = f"self_attn.{letter}_proj.{kind.removeprefix('in_proj_')}"
                converted[f"{BLOCKS[block]}.{number}.{field}"] = rows.contiguous()
        else:
            converted[f"{BLOCKS[block]}.{number}.{LAYER_NAMES[layer]}.{kind}"] = weights
    return converted


def converted_files(clip: dict[str, bytes], scratch: Path) -> dict[str, bytes]:
    """Convert the files of a small CLIP (`small_checkpoints.open_clip_files`) for transformers."""
    cfg = json.loads(clip["open_clip_config.json"])["model_cfg"]
    towers = {
        f"{kind}_config": {
            "hidden_size": tower["width"], "intermediate_size": 4 * tower["width"],
            "num_hidden_layers": tower["layers"], "hidden_act": "quick_gelu",
            "num_attention_heads": tower.get("heads", tower["width"] // 64),
        }
        for kind, tower in (("text", cfg["text_cfg"]), ("vision", cfg["vision_cfg"]))
    }  # fmt: skip
    towers["text_config"] |= {"eos_token_id": 49407, "bos_token_id": 49406, "pad_token_id": 49407}
    towers["vision_config"] |= {name: cfg["vision_cfg"][name] for name in ("image_size", "patch_size")}
    model = transformers.CLIPModel(transformers.CLIPConfig(projection_dim=cfg["embed_dim"], **towers))
    model.load_state_dict(convert_clip(load(clip["open_clip_model.safetensors"])))
    model.save_pretrained(scratch)
    (scratch / "preprocessor_config.json").write_text(
        json.dumps(CLIP_PROCESSOR | {"image_mean": [0.5] * 3, "image_std": [0.5] * 3})
    )
    return {item.name: item.read_bytes() for item in scratch.iterdir()} | clip_tokenizer_files()
