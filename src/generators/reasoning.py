"""Find and remove reasoning and control tokens in what language models write."""

import re

_TAGS = r"(?:\w+[:_])?(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad|analysis)"
# Marks around reasoning: of Qwen3, DeepSeek-R1, Seed and LongCat, of Magistral, Kimi, OpenThinker, Command A,
# Apertus, Gemma 4, MedGemma and Granite.
_OPENED = (
    rf"(?:<{_TAGS}>|\[THINK\]|◁think▷|<\|begin_of_thought\|>|<\|START_THINKING\|>|<\|inner_prefix\|>"
    r"|<\|channel>thought|<unused94>thought|Here is my thought process:)"
)
_CLOSED = (
    rf"(?:</{_TAGS}>|\[/THINK\]|◁/think▷|<\|end_of_thought\|>|<\|END_THINKING\|>|<\|inner_suffix\|>"
    r"|<channel\|>|<unused95>|Here is my response:)"
)
OPENING, CLOSING = re.compile(_OPENED, re.IGNORECASE), re.compile(_CLOSED, re.IGNORECASE)
# gpt-oss writes to channels, of which the last is the answer.
CHANNEL, FINAL = "<|channel|>", "<|channel|>final<|message|>"
CONTROL = re.compile(
    r"<[|｜][^<>|｜]{1,40}[|｜]>|</?s>|<(?:eos|bos|pad|start_of_turn|end_of_turn)>", re.IGNORECASE
)


def strip_reasoning(text: str) -> str:
    """Remove blocks of reasoning and control tokens; empty if the reasoning never ends.

    The answer is the text after the last block, or, if that is empty, the text before the first. A chat
    template may have opened a block that the answer closes. An unclosed block was truncated at the token
    limit before any answer.

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
