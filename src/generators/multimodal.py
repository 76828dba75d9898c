"""Multimodal models of transformers: what they write, about a picture or about none."""

from __future__ import annotations

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
# Where a model has no chat template an answer begins after this.
PLAIN = "Instruction: {}\n"


@dataclass(frozen=True)
class Written:
    """What a model wrote.

    Attributes:
        text: without special tokens.
        tokens: ids that it generated, the one that ends the text included.
        log_p: of each pool, the mean over these steps of the mean log-probability of the pool's ids, in nats.
    """

    text: str
    tokens: tuple[int, ...]
    log_p: Mapping[str, float]


@dataclass(frozen=True)
class Multimodal:
    """A multimodal model and its processor.

    Attributes:
        model: on its device, in its precision.
        processor: whose chat template, where it has one, wraps each prompt.
        batch_size: texts, and their pictures, per forward pass.
    """

    model: Any
    processor: Any
    batch_size: int

    def question(self, prompt: str) -> str:
        """A prompt up to where the answer begins; its `<image>`, where it has one, as the model writes it."""
        if not self.processor.chat_template:
            return PLAIN.format(prompt.replace(IMAGE, str(getattr(self.processor, "image_token", IMAGE))))
        before, image, after = prompt.partition(IMAGE)
        parts = [{"type": "text", "text": text} for text in (before, after) if text]
        if image:
            parts.insert(1 if before else 0, {"type": "image"})
        said = [{"role": "user", "content": parts}]
        with chat_templates.rendering():
            found: str = self.processor.apply_chat_template(said, add_generation_prompt=True, tokenize=False)
        return found

    @property
    def special(self) -> set[int]:
        """Ids of tokens that are no text."""
        tokenizer = self.processor.tokenizer
        added = tokenizer.added_tokens_decoder.items()
        return {*tokenizer.all_special_ids, *(number for number, token in added if token.special)}

    @torch.inference_mode()
    def written(
        self,
        prompts: Sequence[str],
        shown: Sequence[Path] | None,
        *,
        most: int,
        pools: Mapping[str, Sequence[int]],
    ) -> Iterator[dict[int, Written]]:
        """What the model writes, greedily: of each batch, by the places of its prompts.

        Args:
            prompts: one per text.
            shown: pictures, one in each prompt's `<image>`; None where prompts have none.
            most: new tokens of a text.
            pools: ids of tokens, none of them empty, whose log-probabilities are asked for at each step.
        """
        how = greedy(self.model, most=most, padding=self._padding)
        for start in range(0, len(prompts), self.batch_size):
            places = range(start, min(start + self.batch_size, len(prompts)))
            texts = [self.question(prompts[place]) for place in places]
            inputs = self._inputs(texts, shown and [shown[place] for place in places])
            heard = _Heard(pools)
            said = self.model.generate(**inputs, generation_config=how, logits_processor=[heard])
            # Some families give the prompt back and some do not; what was generated stands last.
            new = said[:, said.shape[1] - len(heard.steps) :].cpu()
            log_p = torch.stack(heard.steps).cpu()
            yield {
                place: self._one(new[row], log_p[:, row], pools, how.eos_token_id)
                for row, place in enumerate(places)
            }

    @property
    def _padding(self) -> int:
        found = self.processor.tokenizer.pad_token_id
        return int(found if found is not None else self.processor.tokenizer.eos_token_id or 0)

    def _inputs(self, texts: list[str], shown: Sequence[Path] | None) -> Any:
        tokenizer = self.processor.tokenizer
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        # A chat template may have written the token that begins a text already.
        begun = bool(self.processor.chat_template and tokenizer.bos_token)
        own = not (begun and texts[0].startswith(tokenizer.bos_token))
        how = {"padding": True, "padding_side": "left", "add_special_tokens": own, "return_tensors": "pt"}
        device = next(self.model.parameters()).device
        if shown is None:
            return tokenizer(texts, **how).to(device)
        images = [[pictures.read(path)] for path in shown]
        return self.processor(text=texts, images=images, **how).to(device, self.model.dtype)

    def _one(
        self, tokens: Tensor, log_p: Float[Tensor, "steps pools"], pools: Mapping[str, object], end: Any
    ) -> Written:
        ends = torch.isin(tokens, torch.tensor([end] if isinstance(end, int) else end or [])).nonzero()
        steps = int(ends[0]) + 1 if len(ends) else len(tokens)
        own = [int(token) for token in tokens[:steps]]
        text = self.processor.tokenizer.decode(own, skip_special_tokens=True)
        return Written(text, tuple(own), dict(zip(pools, log_p[:steps].mean(dim=0).tolist(), strict=True)))


@dataclass
class _Heard:
    """Listens to each step of `generate`: of raw logits (float32) the log-softmax and its means, in float64.

    Kept are a few numbers of each step, not the logits of the whole vocabulary.
    """

    pools: Mapping[str, Sequence[int]]
    steps: list[Float[Tensor, "texts pools"]] = field(default_factory=list)

    def __call__(self, _: Tensor, scores: Float[Tensor, "texts v"]) -> Float[Tensor, "texts v"]:
        spread = scores.double().log_softmax(dim=-1)
        means = [spread[:, list(ids)].mean(dim=-1) for ids in self.pools.values()]
        self.steps.append(torch.stack(means, dim=1) if means else spread[:, :0])
        return scores
