"""Find and remove reasoning and control tokens in texts that language models generate."""

import re

_TAGS = r"(?:\w+[:_])?(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)"
# Marks before and after reasoning in texts of Qwen3, DeepSeek-R1, Seed, LongCat, Magistral, Kimi,
# OpenThinker, Command A, Apertus, Gemma 4, MedGemma and Granite.
_OPENED = (
    rf"(?:<{_TAGS}>|\[THINK\]|◁think▷|<\|begin_of_thought\|>|<\|START_THINKING\|>|<\|inner_prefix\|>"
    r"|<\|channel>thought|<unused94>thought|Here is my thought process:)"
)
_CLOSED = (
    rf"(?:</{_TAGS}>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|END_THINKING\|>|<\|inner_suffix\|>"
    r"|<channel\|>|<unused95>|Here is my response:)"
)
OPENING, CLOSING = re.compile(_OPENED, re.IGNORECASE), re.compile(_CLOSED, re.IGNORECASE)
# gpt-oss writes to several channels; the answer is in the channel `final`.
CHANNEL, FINAL = "<|channel|>", "<|channel|>final<|message|>"
CONTROL = re.compile(
    r"<[|｜][^<>|｜]{1,40}[|｜]>|</?s>|<(?:eos|bos|pad|start_of_turn|end_of_turn)>", re.IGNORECASE
)


def strip_reasoning(text: str) -> str:
    """Return the answer in a text, without blocks of reasoning and control tokens.

    The answer is the text after the last block or, if this is empty, before the first block. The text may
    close a block that the chat template opened. The answer is empty if the last block is not closed, as the
    token limit then truncated the text before the answer.

    >>> strip_reasoning("<think>Which one?</think> rigid"), strip_reasoning("<think>Which")
    ('rigid', '')
    """
    if CHANNEL in text:
        text = text.rpartition(FINAL)[2] if FINAL in text else ""
    before, *_, after = [text, *CLOSING.split(text)]
    if OPENING.search(after):
        return ""
    answer = CONTROL.sub(" ", after).strip()
    return answer or CONTROL.sub(" ", OPENING.split(before)[0]).strip()


def has_reasoning(text: str) -> bool:
    """Return whether a text contains a mark of reasoning.

    >>> has_reasoning("<think>A rhyme?"), has_reasoning("I think of roses.")
    (True, False)
    """
    return bool(CHANNEL in text or OPENING.search(text) or CLOSING.search(text))
