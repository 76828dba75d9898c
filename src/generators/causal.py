"""Causal language models of transformers: how they are loaded, and how a question becomes tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from src.generators import chat_templates

# Where a model has no chat template an answer begins after this.
PLAIN = "{}\n"


@dataclass(frozen=True)
class Causal:
    """A causal language model and its tokenizer.

    Attributes:
        model: on its device, in its precision.
        tokenizer: whose chat template, where it has one, wraps each question.
        batch_size: texts per forward pass.
    """

    model: Any
    tokenizer: Any
    batch_size: int

    def question(self, text: str) -> list[int]:
        """Tokens of a question, up to where the answer begins."""
        if self.tokenizer.chat_template:
            said = [{"role": "user", "content": text}]
            with chat_templates.rendering():
                found = self.tokenizer.apply_chat_template(
                    said, add_generation_prompt=True, tokenize=True, return_dict=False
                )
        else:
            found = self.tokenizer(PLAIN.format(text))["input_ids"]
        return [int(token) for token in found]

    def ending(self, text: str) -> list[int]:
        """Tokens of an answer that follows a question."""
        return [int(token) for token in self.tokenizer(text, add_special_tokens=False)["input_ids"]]

    @property
    def padding(self) -> int:
        """A token that fills up shorter texts; it decides no number."""
        found = self.tokenizer.pad_token_id
        return int(found if found is not None else self.tokenizer.eos_token_id or 0)

    @torch.inference_mode()
    def answers(self, texts: Sequence[str], *, most: int) -> Iterator[dict[int, str]]:
        """Free answers, greedily: of each batch, by the places of its questions.

        Args:
            texts: questions.
            most: new tokens of an answer.
        """
        questions = [self.question(text) for text in texts]
        order = sorted(range(len(questions)), key=lambda i: -len(questions[i]))
        device = next(self.model.parameters()).device
        how = greedy(self.model, most=most, padding=self.padding)
        for start in range(0, len(order), self.batch_size):
            batch = order[start : start + self.batch_size]
            width = len(questions[batch[0]])
            tokens = torch.full((len(batch), width), self.padding)
            mask = torch.zeros_like(tokens)
            for row, index in enumerate(batch):
                own = torch.tensor(questions[index])
                tokens[row, width - len(own) :], mask[row, width - len(own) :] = own, 1
            said = self.model.generate(
                input_ids=tokens.to(device),
                attention_mask=mask.to(device),
                generation_config=how,
            )
            found = self.tokenizer.batch_decode(said[:, width:], skip_special_tokens=True)
            yield dict(zip(batch, found, strict=True))


def greedy(model: Any, *, most: int, padding: int) -> Any:
    """How a model writes: always the likeliest token.

    Args:
        model: of transformers; its own defaults say where it ends, and nothing else.
        most: new tokens.
        padding: a token that fills up shorter texts.
    """
    from transformers import GenerationConfig

    make: Any = GenerationConfig
    return make(
        max_new_tokens=most,
        do_sample=False,
        pad_token_id=padding,
        eos_token_id=model.generation_config.eos_token_id,
    )
