"""Record outputs of generators, of what scores their answers, and of the studies that read them."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from src import configs
from src.configs import TinyConfig
from src.generators import tiny
from src.generators.answer_log import AnswerLog
from src.studies.poems import comparison
from src.studies.subtler import answers, domains, item_composition, items
from src.studies.subtler.parsing import match
from src.studies.subtler.scoring import coded, score
from tests.studies.subtler.item_files import row, write_csv

# The last of them matches no option.
RESPONSES = ("adaptable", "Rigid.", "Option 2: extraverted", "**rigid**", "adaptable.", "not rigid")
WRAPPED = ("option b: rigid", "<think>Adaptable?</think>rigid", "Answer: rigid", "\\boxed{rigid}")
WRAPPED += ("答案：rigid", None)


def rated(folder: Path) -> pd.DataFrame:
    """Read items of two templates and both polarities, with answers of several kinds."""
    rows = [
        row(
            target_gender=gender,
            context=f"The {person} is {age} years old, {person} is BLANK.",
            item_category=polarity,
            response=RESPONSES[3 * number + place],
        )
        for number, (gender, person) in enumerate([("male", "man"), ("female", "woman")])
        for place, (age, polarity) in enumerate(((64, "negative"), (27, "positive"), (81, "negative")))
    ]
    return items.read(write_csv(folder / "items.csv", rows))


def of_generators(folder: Path) -> dict[str, Any]:
    """Compose items and prompts; take planted answers and a tiny model's log-probabilities."""
    domain = domains.read(configs.CHECKOUT / "conf" / "domain" / "en" / "ageism.yaml")
    composed = items.parse(item_composition.compose(domain, count=12, seed=0), folder)
    question = configs.compose(["llm=tiny"], entry="generate")[0].task.question
    texts = [
        answers.compose_question(
            question, entry["context"], ["a", "b", "c"], answers.order_of(str(place), entry["context"], 0)
        )
        for place, entry in enumerate(composed.to_dict("records"))
    ]
    answered = answers.planted(composed, lean=0.7, seed=0)
    model = tiny.load(TinyConfig(width=32, layers=2, heads=2, seed=0))
    with AnswerLog(folder / "weighed.jsonl", answers.is_option_scores) as log:
        weighed, _ = answers.likeliest(model, composed.head(2), question, per_token=False, answer_log=log)
    return {
        "likeliest": weighed["response"].tolist(),
        "position_effect": weighed["position_effect"].tolist(),
        "composed": composed["context"].tolist(),
        "prompts": texts,
        "planted": answered["response"].tolist(),
        "free": [answer for batch in model.answers(texts[:2], max_new_tokens=6) for answer in batch.values()],
    }


def of_scoring(_: Path) -> dict[str, Any]:
    """Match answers to options."""
    options = ["adaptable", "rigid", "St. Louis (Missouri)"]
    responses = [*RESPONSES, *WRAPPED, "ST. LOUIS (MISSOURI)", "“Rigid”", "rigid and adaptable"]
    responses += ["option 3: st. louis (missouri)"]
    return {"matched": [match(response, options) for response in responses]}


def of_subtler(folder: Path) -> dict[str, Any]:
    """Score items with answers in both codings."""
    answered = rated(folder)
    outputs: dict[str, Any] = {"y": coded(answered, "published")["y"].tolist()}
    for coding in ("published", "corrected"):
        figures = score(answered, coding, bootstrap=40, seed=0)
        for name in figures:
            values = figures[name].tolist()
            outputs[f"{coding}.{name}"] = [None if value != value else value for value in values]
    return outputs


def of_poems(_: Path) -> dict[str, Any]:
    """Compare two groups' poems by their scores."""
    faces = pd.DataFrame({"id": [f"f{number:02d}" for number in range(12)]})
    faces["group"] = ["A", "B"] * 6
    rng = np.random.default_rng(0)
    scores = faces.assign(tokens=rng.integers(5, 9, 12))
    for pool in ("positive", "negative"):
        for shared in ("kept", "removed"):
            scores[f"{pool}_{shared}"] = rng.normal(size=12)
    sizes = {(pool, shared): 3 for pool in ("positive", "negative") for shared in ("kept", "removed")}
    compared = comparison.compare(faces, scores, sizes, permutations=39, bootstrap=40, seed=0)
    return {str(name): compared[name].tolist() for name in compared}
