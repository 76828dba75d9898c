"""Adapt BLIP-2's image-text contrastive head (Salesforce/blip2-itm-vit-g) to the protocol of encoders."""

import logging
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float, Int
from PIL import Image
from torch import Tensor, nn

from src import configs
from src.encoders import catalogue, hub, pretrained
from src.encoders.precision import TRANSFORMERS_LAYERS, Float32, convert_weights, encode_unit_vectors
from src.encoders.preprocessing import SplitPreprocessing, split_transformers
from src.encoders.protocol import Encoder, EncoderFamily, half_precision_versions
from src.encoders.unread import find_unread
from src.errors import InputError
from src.stimuli import IMAGE_ROLES
from src.storage.versions import declared_versions, library_versions

# Files besides the weights; of the alternatives in each inner tuple, at least one is required.
PREPROCESSOR = "preprocessor_config.json"
REQUIRED = (("config.json",), ("processor_config.json", PREPROCESSOR), ("tokenizer.json", "vocab.txt"))
OPTIONAL = (PREPROCESSOR, "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json")
LIBRARIES = ("torch", "torchvision", "pillow", "transformers", "tokenizers")
PAD_MULTIPLE = 16  # sentences are padded to a multiple of this number of tokens


class Blip2(nn.Module):
    """BLIP-2 (`transformers.Blip2ForImageTextRetrieval`) with its contrastive projections.

    With `pooling=max`, an image has Q unit vectors, and its similarity to a text is the largest of their
    cosines; with `mean`, it has the normalised mean of the Q vectors. `precision` applies to the vision tower
    and the Q-Former; projections and normalisation are float32.
    """

    def __init__(
        self, model: Any, processor: Any, tokenizer: Any, name: str, pooling: str, precision: str
    ) -> None:
        super().__init__()
        self.model = model
        self._processor, self._tokenizer, self._name = processor, tokenizer, name
        self._pooling, self._precision = pooling, precision
        self._context = model.config.qformer_config.max_position_embeddings
        if precision != "fp32":
            model.vision_projection = Float32(model.vision_projection)
            model.text_projection = Float32(model.text_projection)
            convert_weights(model, precision, TRANSFORMERS_LAYERS)

    def transform(self, picture: Image.Image) -> Float[Tensor, "3 height width"]:
        """Return the input pixels of a picture."""
        pixels: Tensor = self._processor(picture, return_tensors="pt")["pixel_values"][0]
        return pixels

    def split_preprocessing(self) -> SplitPreprocessing | None:
        """Split `transform` into resizing to bytes and normalising; None if it has other steps."""
        return split_transformers(self._processor)

    def tokenize(self, sentences: Sequence[str]) -> Int[Tensor, "n context"]:
        """Return token ids, padded to a multiple of `PAD_MULTIPLE` within the context.

        Raises `InputError` if a sentence exceeds the context.
        """
        token_ids = self._tokenizer(list(sentences))["input_ids"]
        for sentence, ids in zip(sentences, token_ids, strict=True):
            if len(ids) > self._context:
                raise InputError(
                    f"{self._name}: {sentence!r} needs {len(ids)} tokens, the context has {self._context}. "
                    "Shorten the sentence or drop its word."
                )
        options = {"padding": True, "pad_to_multiple_of": PAD_MULTIPLE, "return_tensors": "pt"}
        tokens: Tensor = self._tokenizer.pad({"input_ids": token_ids}, **options)["input_ids"]
        return tokens[:, : self._context]

    def count_relevant_tokens(self, tokens: Int[Tensor, "n context"]) -> Int[Tensor, " n"]:
        """Return the number of tokens of each sentence without padding, which attention ignores."""
        counts: Tensor = (tokens != self._tokenizer.pad_token_id).sum(dim=1)
        return counts

    def encode_images(self, pixels: Float[Tensor, "n 3 height width"]) -> Float[Tensor, "n *queries width"]:
        """Return unit vectors of images, float32: [N, Q, D] with `pooling=max`, [N, D] with `mean`."""
        vectors = encode_unit_vectors(self._project_images, pixels, self._precision)
        return vectors if self._pooling == "max" else nn.functional.normalize(vectors.mean(dim=1), dim=-1)

    def encode_texts(self, tokens: Int[Tensor, "n context"]) -> Float[Tensor, "n width"]:
        """Return unit vectors of texts, float32, from the output at the first token of each text."""
        return encode_unit_vectors(self._project_texts, tokens, self._precision)

    def _project_images(self, pixels: Tensor) -> Tensor:
        patches = self.model.vision_model(pixel_values=pixels).last_hidden_state
        queries = self.model.qformer(
            query_embeds=self.model.query_tokens.expand(len(patches), -1, -1),
            encoder_hidden_states=patches,
            encoder_attention_mask=torch.ones(patches.shape[:-1], dtype=torch.long, device=patches.device),
        )
        vectors: Tensor = self.model.vision_projection(queries.last_hidden_state)
        return vectors

    def _project_texts(self, tokens: Tensor) -> Tensor:
        outputs = self.model.qformer(
            query_embeds=self.model.embeddings(input_ids=tokens),
            query_length=0,
            attention_mask=(tokens != self._tokenizer.pad_token_id).long(),
        )
        vectors: Tensor = self.model.text_projection(outputs.last_hidden_state[:, 0])
        return vectors


def open_encoder(config: configs.Blip2Config, accelerator: str) -> Encoder:
    """Open the encoder of a config: locate its files without loading its weights."""
    source = _locate(config)
    other_files = hub.locate_files(source, REQUIRED, OPTIONAL)
    identity = {
        "architecture": "transformers.Blip2ForImageTextRetrieval",
        "files": {name: hub.hash_files([path]) for name, path in other_files.items()},
        "pooling": config.pooling,
        "precision": config.precision,
        "accelerator": accelerator,
        "parts": declared_versions("encoders.blip2") | half_precision_versions(config.precision),
        "versions": library_versions(*LIBRARIES),
    }
    return Encoder(
        identity,
        lambda: pretrained.identify_weights(config, lambda: pretrained.locate_transformers_weights(source)),
        lambda: _load(config, source, other_files),
        partial(_find_unread, source, other_files),
    )


def _find_unread(source: hub.Source, files: Mapping[str, Path], texts: Sequence[str]) -> dict[int, str]:
    from transformers import AutoTokenizer
    from transformers import Blip2Config as TransformersConfig

    with pretrained.convert_load_errors(source.name), pretrained.link_files(files) as folder:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
        config: Any = TransformersConfig.from_pretrained(folder, local_files_only=True)
        return find_unread(tokenizer, texts, config.qformer_config.max_position_embeddings)


def _locate(config: configs.Blip2Config) -> hub.Source:
    remedy = f"Fetch it with access to the network: {pretrained.format_fetch_command(config)}"
    return pretrained.locate_source(config, "model", "Blip2ForImageTextRetrieval", remedy)


def _load(config: configs.Blip2Config, source: hub.Source, other_files: Mapping[str, Path]) -> Blip2:
    from transformers import AutoImageProcessor, AutoTokenizer, Blip2ForImageTextRetrieval
    from transformers import Blip2Config as TransformersConfig

    logging.getLogger("transformers").setLevel(logging.ERROR)
    untrained = config.weights == "random"
    paths = [] if untrained else pretrained.locate_transformers_weights(source)
    files = {**other_files, **{path.name: path for path in paths}}
    with pretrained.convert_load_errors(config.id), pretrained.link_files(files) as folder:
        if untrained:
            architecture = TransformersConfig.from_pretrained(folder, local_files_only=True)
            model: Any = pretrained.build_seeded(lambda: Blip2ForImageTextRetrieval(architecture))
        else:
            has_safetensors = any(path.suffix == ".safetensors" for path in paths)
            options: Any = {"dtype": torch.float32, "use_safetensors": has_safetensors, "weights_only": True}
            options |= {"local_files_only": True, "output_loading_info": True}
            result: Any = Blip2ForImageTextRetrieval.from_pretrained(folder, **options)
            model, loading_info = result
            pretrained.check_complete(loading_info)
        if not model.config.qformer_config.use_qformer_text_input:
            raise ValueError("its Q-Former does not read text, so texts have no vectors")
        # Code in a model repository is never run.
        local = {"local_files_only": True, "trust_remote_code": False}
        load_processor: Any = AutoImageProcessor.from_pretrained
        processor = load_processor(folder, backend="pil", **local)
        tokenizer = AutoTokenizer.from_pretrained(folder, **local)
    return Blip2(model, processor, tokenizer, str(config.name), config.pooling, config.precision).eval()


FAMILY = EncoderFamily(
    name="blip2",
    config=configs.Blip2Config,
    encoder=open_encoder,
    fetch_files=lambda config: pretrained.locate_transformers_weights(_locate(config)),
    pretraining=catalogue.pretraining_of,
    declared=catalogue.declared_facts,
    facts=catalogue.facts_of,
    has_several_vectors=lambda config, role: role in IMAGE_ROLES and config.pooling == "max",
)
