"""Run causal language models of transformers: tokenise questions, and generate answers."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from src.generators import chat_templates

# Prompt for a model without a chat template, up to the beginning of its answer.
PLAIN = "{}\n"


@dataclass(frozen=True)
class Causal:
    """A causal language model and its tokenizer."""

    model: Any  # model on its device, in its precision
    tokenizer: Any  # tokenizer, whose chat template, if any, wraps each question
    batch_size: int  # texts per forward pass

    def question(self, text: str) -> list[int]:
        """Tokenise a question, up to the beginning of the answer."""
        if self.tokenizer.chat_template:
            tokens = chat_templates.render(self.tokenizer, text, tokenize=True, return_dict=False)
        else:
            tokens = self.tokenizer(PLAIN.format(text))["input_ids"]
        return [int(token) for token in tokens]

    def answer_tokens(self, text: str) -> list[int]:
        """Tokenise an answer that follows a question."""
        return [int(token) for token in self.tokenizer(text, add_special_tokens=False)["input_ids"]]

    @torch.inference_mode()
    def answers(self, texts: Sequence[str], *, max_new_tokens: int) -> Iterator[dict[int, str]]:
        """Generate free answers greedily, and yield those of each batch by index of the question."""
        questions = [self.question(text) for text in texts]
        generation_config = greedy(self.model, self.tokenizer, max_new_tokens)
        for batch in longest_first(questions, self.batch_size):
            tokens, mask = pad_left([questions[index] for index in batch], padding_id(self.tokenizer))
            device = next(self.model.parameters()).device
            generated = self.model.generate(
                input_ids=tokens.to(device),
                attention_mask=mask.to(device),
                generation_config=generation_config,
            )
            answers = self.tokenizer.batch_decode(generated[:, tokens.shape[1] :], skip_special_tokens=True)
            yield dict(zip(batch, answers, strict=True))


def padding_id(tokenizer: Any) -> int:
    """Return the id of the token that pads shorter texts; it is masked, and does not affect the results."""
    padding = tokenizer.pad_token_id
    return int(padding if padding is not None else tokenizer.eos_token_id or 0)


def longest_first(texts: Sequence[Sequence[int]], size: int) -> Iterator[list[int]]:
    """Yield batches of at most `size` indices of texts, the longest texts first."""
    order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
    for start in range(0, len(order), size):
        yield order[start : start + size]


def pad_left(texts: Sequence[Sequence[int]], padding: int) -> tuple[Tensor, Tensor]:
    """Pad the tokens of texts on the left, and return them with the attention mask."""
    rows = [torch.tensor(text, dtype=torch.long) for text in texts]
    pad = partial(pad_sequence, batch_first=True, padding_side="left")
    return pad(rows, padding_value=padding), pad([torch.ones_like(row) for row in rows])


def greedy(model: Any, tokenizer: Any, max_new_tokens: int) -> Any:
    """Make a config of greedy decoding that takes only the end token from the model's defaults."""
    from transformers import GenerationConfig

    make: Any = GenerationConfig
    end = model.generation_config.eos_token_id
    return make(
        max_new_tokens=max_new_tokens, do_sample=False, pad_token_id=padding_id(tokenizer), eos_token_id=end
    )
