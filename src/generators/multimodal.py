"""Run multimodal models of transformers, which write texts with or without a picture."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from src.generators import chat_templates
from src.generators.causal import greedy
from src.stimuli import pictures

IMAGE = "<image>"
# Prompt for a model without a chat template, up to the beginning of its answer.
PLAIN = "Instruction: {}\n"


@dataclass(frozen=True)
class Written:
    """A text written by a model."""

    text: str  # text without special tokens
    tokens: tuple[int, ...]  # generated ids, including the end token
    # Name of a pool -> mean, over the generated tokens, of the mean log-probability of its ids, in nats.
    log_p: Mapping[str, float]


@dataclass(frozen=True)
class Multimodal:
    """A multimodal model and its processor."""

    model: Any  # model on its device, in its precision
    processor: Any  # processor, whose chat template, if any, wraps each prompt
    batch_size: int  # texts, and their pictures, per forward pass

    def question(self, prompt: str) -> str:
        """Render a prompt up to the beginning of the answer, with the model's own token for `<image>`."""
        if not self.processor.chat_template:
            return PLAIN.format(prompt.replace(IMAGE, str(getattr(self.processor, "image_token", IMAGE))))
        before, image, after = prompt.partition(IMAGE)
        parts = [{"type": "text", "text": text} for text in (before, after) if text]
        if image:
            parts.insert(1 if before else 0, {"type": "image"})
        rendered: str = chat_templates.rendered(self.processor, parts, tokenize=False)
        return rendered

    @property
    def special(self) -> set[int]:
        """Return the ids of tokens that are not text."""
        tokenizer = self.processor.tokenizer
        added = tokenizer.added_tokens_decoder.items()
        return {*tokenizer.all_special_ids, *(number for number, token in added if token.special)}

    @torch.inference_mode()
    def written(
        self,
        prompts: Sequence[str],
        images: Sequence[Path] | None,
        *,
        max_new_tokens: int,
        pools: Mapping[str, Sequence[int]],
    ) -> Iterator[dict[int, Written]]:
        """Generate texts greedily, and yield those of each batch by index of the prompt.

        `images` are the pictures for each prompt's `<image>` (None: without pictures); `pools` are non-empty
        lists of token ids, by name, whose log-probabilities are recorded at each step.
        """
        generation_config = greedy(self.model, self.processor.tokenizer, max_new_tokens)
        for start in range(0, len(prompts), self.batch_size):
            indices = range(start, min(start + self.batch_size, len(prompts)))
            texts = [self.question(prompts[index]) for index in indices]
            inputs = self._inputs(texts, images and [images[index] for index in indices])
            recorder = _Recorder(pools)
            generated = self.model.generate(
                **inputs, generation_config=generation_config, logits_processor=[recorder]
            )
            # Some model families return the prompt as well; the generated tokens are last.
            new = generated[:, generated.shape[1] - len(recorder.steps) :].cpu()
            log_p = torch.stack(recorder.steps).cpu()
            yield {
                index: self._written(new[row], log_p[:, row], pools, generation_config.eos_token_id)
                for row, index in enumerate(indices)
            }

    def _inputs(self, texts: list[str], paths: Sequence[Path] | None) -> Any:
        tokenizer = self.processor.tokenizer
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        # A chat template may already have added the start token.
        may_have_start = bool(self.processor.chat_template and tokenizer.bos_token)
        add_special = not (may_have_start and texts[0].startswith(tokenizer.bos_token))
        options = {"padding": True, "padding_side": "left", "return_tensors": "pt"}
        options |= {"add_special_tokens": add_special}
        device = next(self.model.parameters()).device
        if paths is None:
            return tokenizer(texts, **options).to(device)
        images = [[pictures.read(path)] for path in paths]
        return self.processor(text=texts, images=images, **options).to(device, self.model.dtype)

    def _written(
        self, tokens: Tensor, log_p: Float[Tensor, "steps pools"], pools: Mapping[str, object], end: Any
    ) -> Written:
        ends = torch.isin(tokens, torch.tensor([end] if isinstance(end, int) else end or [])).nonzero()
        steps = int(ends[0]) + 1 if len(ends) else len(tokens)
        ids = [int(token) for token in tokens[:steps]]
        text = self.processor.tokenizer.decode(ids, skip_special_tokens=True)
        return Written(text, tuple(ids), dict(zip(pools, log_p[:steps].mean(dim=0).tolist(), strict=True)))


@dataclass
class _Recorder:
    """Recorder of log-probabilities at each step of `generate`: pool means of the log-softmax, in float64.

    It stores one number per pool and step, not the logits (float32) of the entire vocabulary.
    """

    pools: Mapping[str, Sequence[int]]
    steps: list[Float[Tensor, "texts pools"]] = field(default_factory=list)

    def __call__(self, _: Tensor, scores: Float[Tensor, "texts v"]) -> Float[Tensor, "texts v"]:
        log_probs = scores.double().log_softmax(dim=-1)
        means = [log_probs[:, list(ids)].mean(dim=-1) for ids in self.pools.values()]
        self.steps.append(torch.stack(means, dim=1) if means else log_probs[:, :0])
        return scores
