"""Match a free answer to an option (docs/methods.md, section 5, "Answers").

An answer counts only if it equals one option, whatever its case and typography, after reasoning and the usual
wrappings are removed. A sentence around an option does not count: "it is not rigid" contains one option and
means another; the published answers have no such sentences either. The number of an option alone does not
count either, because the order of the options is not known here.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain

from src.generators.reasoning import strip_reasoning

# Characters that may surround an answer: final punctuation, quotes, brackets and emphasis.
SURROUNDING = " \t\r\n.,;:!?。、·…\"'“”„‘’«»‹›「」『』《》〈〉()[]{}<>【】*_`\u200b\u2060\ufeff"
DASHES = re.compile(r"\s*[-‐‑‒–—―−]+\s*")
# "Option 2: ", "选项二：" or "2. "; a bare number has one digit, so that no age or year matches.
OPTION_NUMBER = re.compile(r"\A(?:(?:option|选项)\s*(?:\d+|[a-e一二三])\s*[:.)、-]\s*|\(?\d[.):、]\s+)(?=\S)")

# Labels and markup that models add to an answer.
_IGNORE = re.IGNORECASE | re.DOTALL
# Parts of the patterns below: signs that may precede a label, and signs between a label and its text.
_BEFORE = r"[\s\"'“”‘’*_`{(\[]*"
_SIGNS = r"[\s\"'“”‘’*_`]*"
_LETTER = r"(?:\d{1,2}|[a-e一二三])"
_CHINESE = r"[\u3400-\u9fff「『“‘\"《【]"
_ENGLISH_LABEL = (
    r"(?:(?:so|thus|hence|therefore),?\s+)?(?:(?:the|my)\s+)?(?:most\s+)?"
    r"(?:(?:final|correct|best|right|appropriate|suitable|selected|chosen)\s+)?"
    r"(?:answer|option|choice|response|output)"
)
_CHINESE_LABEL = r"(?:因此|所以)?[,，]?(?:我的|正确|最终|最佳|最合适的?)?(?:答案|选项|选择|回答)"
# Layers of wrapping; each pattern captures the text `inside` without interpreting it.
LAYERS = tuple(
    re.compile(rf"\A(?:{pattern})\Z", _IGNORE)
    for pattern in (
        r"(?:`{3,}|~{3,})\w*\s*\n(?P<inside>.*?)\n?\s*(?:`{3,}|~{3,})",  # a fenced block
        r"(?P<dollars>\$+)(?P<inside>[^$]+)(?P=dollars)[.。]?",  # TeX: $…$, \(…\), \boxed{…}
        r"\\[(\[](?P<inside>.+)\\[)\]][.。]?",
        r"\\(?:f?box(?:ed)?|text|textbf|textit|mathrm|mathbf)\{(?P<inside>.*)\}[.。]?",
        r"<(?P<tag>[a-z][\w-]*)>(?P<inside>.*)</(?P=tag)>",  # tags: <answer>…</answer>, [INST]…[/INST]
        r"\[(?P<bracketed>[a-z]+)\](?P<inside>.*)\[/(?P=bracketed)\]",
        rf"{_BEFORE}{_ENGLISH_LABEL}(?:{_SIGNS}[:=]{_SIGNS}|\s+is(?:{_SIGNS}:{_SIGNS}|\s+{_SIGNS}))(?P<inside>.+)",
        # A label, or the role of a chat template, on a line of its own.
        rf"{_BEFORE}(?:{_ENGLISH_LABEL}|{_CHINESE_LABEL}|assistant|model)[*_:]*\s*\n(?P<inside>.+)",
        rf"(?:【\s*)?{_CHINESE_LABEL}(?:{_SIGNS}[是为]?{_SIGNS}[:=]|[是为]|\s*】:?){_SIGNS}(?P<inside>.+)",
        rf"(?:option|choice|选项)\s*[(*_]*{_LETTER}[)*_]*\s*[:.)、–—-]\s*(?P<inside>\S.*)",  # "Option b: …"
        rf"\(\s*{_LETTER}\s*\)\s*(?P<inside>\S.*)",  # "(b) …", "b. …"
        r"[a-e][.):]\s+(?P<inside>\S.*)",
        rf"{_LETTER}[.):、]\s*(?P<inside>{_CHINESE}.*)",
        r"(?:[-*•+>]|#{1,6})\s+(?P<inside>\S.*)",  # a list item, quotation or heading
        rf"(?P<inside>.*\S)\s*\((?:option|选项)\s*{_LETTER}\)[.。]?",
    )
)
CIRCLED = {ord("①"): "(1)", ord("②"): "(2)", ord("③"): "(3)"}
# Maximum number of layers that are removed, far more than any model writes.
MAX_LAYERS = 8


def match_option(response: object, options: Sequence[str]) -> int | None:
    """Return the index of the option that an answer equals, None if it equals none or several.

    Case, full-width forms, surrounding spaces, quotes and punctuation, and kinds of dashes and apostrophes
    are ignored, as are a leading "option N:", reasoning, and a wrapping such as "Answer: …". Normalisations
    are tried from the most literal on, and the first with a match decides; options may therefore contain
    punctuation, and even differ by it alone.

    Args:
        response: answer of the model; anything but text (a missing cell) matches no option.
        options: two or more distinct options.

    >>> schools = ["Yale University", "Washington University in St. Louis"]
    >>> match_option(" Option 2: washington university in St. Louis.", schools)
    1
    >>> match_option("Option 2", schools) is None
    True
    >>> match_option("<think>Not the second.</think> **Answer:** Yale University", schools)
    0
    """
    if not isinstance(response, str):
        return None
    for text in chain([response], unwrap(response)):
        matching = _list_matches(text, options)
        if matching:
            return matching[0] if len(matching) == 1 else None
    return None


def _list_matches(text: str, options: Sequence[str]) -> list[int]:
    """List the indices of the options that a text equals, by the most literal normalisation with a match."""
    for normalise_answer, normalise_option in (
        (_fold_case, _fold_case),
        (_strip_signs, _strip_signs),
        (_strip_number, _strip_signs),
    ):
        answer = normalise_answer(text)
        matching = [index for index, option in enumerate(options) if normalise_option(option) == answer]
        if answer and matching:
            return matching
    return []


@lru_cache(2**16)
def _fold_case(text: str) -> str:
    # NFKC replaces full-width digits, letters and punctuation by their usual forms.
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


@lru_cache(2**16)
def _strip_signs(text: str) -> str:
    return DASHES.sub("-", _fold_case(text).strip(SURROUNDING)).replace("’", "'")


@lru_cache(2**16)
def _strip_number(text: str) -> str:
    # The number may be in brackets or emphasis: "**Option 2:** rigid".
    return _strip_signs(OPTION_NUMBER.sub("", _fold_case(text).lstrip("*_`\"'“‘「 ")))


def unwrap(text: str) -> Iterator[str]:
    """Yield an answer without its reasoning, then without one more layer of wrapping each time.

    >>> list(unwrap("<think>Hm.</think> **Answer:** (a) rigid"))
    ['**Answer:** (a) rigid', '(a) rigid', 'rigid']
    """
    text = unicodedata.normalize("NFKC", strip_reasoning(text).translate(CIRCLED)).strip()
    for _ in range(MAX_LAYERS):
        yield text
        layer = next(filter(None, (layer.match(text) for layer in LAYERS)), None)
        if layer is None:
            return
        text = layer["inside"].strip()
