"""Remove what models put around an answer: reasoning, labels, markup."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_IGNORE = re.IGNORECASE | re.DOTALL
_TAGS = r"(?:seed:)?(?:think|thinking|thought|thoughts|reasoning|reflection|scratchpad)"
# Qwen3 and DeepSeek-R1, Magistral, Kimi.
_OPENED = rf"(?:<{_TAGS}>|\[THINK\]|◁think▷)"
_CLOSED = rf"(?:</{_TAGS}>|\[/THINK\]|◁/think▷)"
OPENED, CLOSED = re.compile(_OPENED, _IGNORE), re.compile(_CLOSED, _IGNORE)
# gpt-oss writes into channels, of which the last is the answer.
CHANNEL, FINAL = "<|channel|>", "<|channel|>final<|message|>"
CONTROL = re.compile(r"<\|[^<>|]{1,40}\|>|</?s>|<(?:eos|bos|pad|end_of_turn)>", _IGNORE)

# Signs that may stand before a label, and between it and what it labels.
_BEFORE = r"[\s\"'“”‘’*_`{(\[]*"
_SIGNS = r"[\s\"'“”‘’*_`]*"
_LETTER = r"(?:\d{1,2}|[a-e一二三])"
_CHINESE = r"[\u3400-\u9fff「『“‘\"《【]"
_ENGLISH_LABEL = (
    r"(?:(?:so|thus|hence|therefore),?\s+)?(?:(?:the|my)\s+)?(?:(?:final|correct|best|right)\s+)?"
    r"(?:answer|option|choice)"
)
_CHINESE_LABEL = r"(?:因此|所以)?[,，]?(?:我的|正确|最终|最佳|最合适的?)?(?:答案|选项|选择|回答)"
# Layers of wrapping; each leaves the text `inside`, none looks into it.
LAYERS = tuple(
    re.compile(rf"\A(?:{pattern})\Z", _IGNORE)
    for pattern in (
        r"(?:`{3,}|~{3,})\w*\s*\n(?P<inside>.*?)\n?\s*(?:`{3,}|~{3,})",
        r"(?P<dollars>\$+)(?P<inside>[^$]+)(?P=dollars)[.。]?",
        r"\\[(\[](?P<inside>.+)\\[)\]][.。]?",
        r"\\(?:f?box(?:ed)?|text|textbf|textit|mathrm|mathbf)\{(?P<inside>.*)\}[.。]?",
        r"<(?P<tag>[a-z][\w-]*)>(?P<inside>.*)</(?P=tag)>",
        r"\[(?P<bracketed>[a-z]+)\](?P<inside>.*)\[/(?P=bracketed)\]",
        rf"{_BEFORE}{_ENGLISH_LABEL}(?:{_SIGNS}[:=]{_SIGNS}|\s+is(?:{_SIGNS}:{_SIGNS}|\s+{_SIGNS}))(?P<inside>.+)",
        rf"(?:【\s*)?{_CHINESE_LABEL}(?:{_SIGNS}[是为]?{_SIGNS}[:=]|[是为]|\s*】:?){_SIGNS}(?P<inside>.+)",
        rf"(?:option|choice|选项)\s*\(?{_LETTER}\)?\s*[:.)、-]\s*(?P<inside>\S.*)",
        rf"\(\s*{_LETTER}\s*\)\s*(?P<inside>\S.*)",
        r"[a-e][.):]\s+(?P<inside>\S.*)",
        rf"{_LETTER}[.):、]\s*(?P<inside>{_CHINESE}.*)",
        r"(?:[-*•+>]|#{1,6})\s+(?P<inside>\S.*)",
        rf"(?P<inside>.*\S)\s*\((?:option|选项)\s*{_LETTER}\)[.。]?",
    )
)
CIRCLED = {ord("①"): "(1)", ord("②"): "(2)", ord("③"): "(3)"}
# Far more layers than any model writes.
DEEPEST = 8


def without_reasoning(text: str) -> str:
    """Drop blocks of reasoning and control tokens; empty where the reasoning never ends.

    What follows the last block is the answer, or what precedes the first where nothing follows. A chat
    template may have opened a block that the answer closes. A block that is not closed was cut off at the
    token limit before any answer.

    >>> without_reasoning("<think>Which one?</think> rigid"), without_reasoning("<think>Which")
    ('rigid', '')
    """
    if CHANNEL in text:
        text = text.rpartition(FINAL)[2] if FINAL in text else ""
    before, *_, after = [text, *CLOSED.split(text)]
    if OPENED.search(after):
        return ""
    answer = CONTROL.sub(" ", after).strip()
    return answer or CONTROL.sub(" ", OPENED.split(before)[0]).strip()


def unwrapped(text: str) -> Iterator[str]:
    """Yield a text without its reasoning, then without one layer of wrapping after the other.

    Args:
        text: answer of a model.

    >>> list(unwrapped("<think>Hm.</think> **Answer:** (a) rigid"))
    ['**Answer:** (a) rigid', '(a) rigid', 'rigid']
    """
    text = unicodedata.normalize("NFKC", without_reasoning(text).translate(CIRCLED)).strip()
    for _ in range(DEEPEST):
        yield text
        layer = next(filter(None, (layer.match(text) for layer in LAYERS)), None)
        if layer is None:
            return
        text = layer["inside"].strip()
