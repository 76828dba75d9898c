"""Compute recorded outputs of generators, of the scoring of answers, and of studies of generators."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from src import configs
from src.configs import TinyConfig
from src.generators import tiny
from src.storage.answer_log import AnswerLog
from src.studies.poems.study import compare_groups
from src.studies.subtler import answers, domains, item_composition, items
from src.studies.subtler.parsing import match_option
from src.studies.subtler.scoring import code_answers, score_answers
from tests.studies.subtler.item_files import row, write_csv

# The last response matches no option.
RESPONSES = ("adaptable", "Rigid.", "Option 2: extraverted", "**rigid**", "adaptable.", "not rigid")
WRAPPED = ("option b: rigid", "<think>Adaptable?</think>rigid", "Answer: rigid", "\\boxed{rigid}")
WRAPPED += ("答案：rigid", None)


def read_items(folder: Path) -> pd.DataFrame:
    """Read items of two genders, both polarities, five templates and six stimuli, with RESPONSES."""
    rows = [
        row(
            target_gender=gender,
            context=f"The {person} {verb} {age} years old, {person} is BLANK.",
            item_category="positive" if age < 50 else "negative",
            template=verb,
            stimulus=str(age),
            response=RESPONSES[(gender_index + 2 * verb_index + age) % len(RESPONSES)],
        )
        for gender_index, (gender, person) in enumerate([("male", "man"), ("female", "woman")])
        for verb_index, verb in enumerate(("is", "turns", "seems", "looks", "becomes"))
        for age in (21, 27, 33, 64, 70, 81)
    ]
    return items.read_items(write_csv(folder / "items.csv", rows))


def generators_outputs(folder: Path) -> dict[str, Any]:
    """Compose items and prompts; answer them by planted bias and by a tiny model."""
    domain = domains.read_domain(configs.CHECKOUT / "conf" / "domain" / "en" / "ageism.yaml")
    composed = items.parse_items(item_composition.compose_items(domain, count=12, seed=0), folder)
    question = configs.compose(["llm=tiny"], entry="generate")[0].task.question
    prompts = [
        answers.compose_question(
            question,
            entry["context"],
            ["a", "b", "c"],
            answers.draw_order(str(position), entry["context"], 0),
        )
        for position, entry in enumerate(composed.to_dict("records"))
    ]
    planted = answers.simulate_answers(composed, lean=0.7, seed=0)
    model = tiny.load(TinyConfig(width=32, layers=2, heads=2, seed=0))
    with AnswerLog(folder / "weighed.jsonl", answers.are_option_scores) as log:
        likeliest, _ = answers.choose_likeliest(
            model, composed.head(2), question, per_token=False, answer_log=log
        )
    return {
        "likeliest": likeliest["response"].tolist(),
        "position_effect": likeliest["position_effect"].tolist(),
        "composed": composed["context"].tolist(),
        "prompts": prompts,
        "planted": planted["response"].tolist(),
        "free": [
            text for batch in model.generate_answers(prompts[:2], max_new_tokens=6) for text in batch.values()
        ],
    }


def scoring_outputs(_: Path) -> dict[str, Any]:
    """Match answers to options."""
    options = ["adaptable", "rigid", "St. Louis (Missouri)"]
    responses = [*RESPONSES, *WRAPPED, "ST. LOUIS (MISSOURI)", "“Rigid”", "rigid and adaptable"]
    responses += ["option 3: st. louis (missouri)"]
    responses += ["<|begin_of_thought|>rigid<|end_of_thought|>Adaptable", "### Answer\nrigid"]
    return {"matched": [match_option(response, options) for response in responses]}


def subtler_outputs(folder: Path) -> dict[str, Any]:
    """Score answered items by both codings."""
    answered = read_items(folder)
    outputs: dict[str, Any] = {"y": code_answers(answered, "published")["y"].tolist()}
    for coding in ("published", "corrected"):
        scores = score_answers(answered, coding)
        for name in scores:
            values = scores[name].tolist()
            outputs[f"{coding}.{name}"] = [None if value != value else value for value in values]
    return outputs


def poems_outputs(_: Path) -> dict[str, Any]:
    """Compare the poems of two groups, of 12 people, and of 14 people with two pictures each."""
    outputs: dict[str, Any] = {}
    for count, prefix in ((12, ""), (28, "people.")):
        faces = pd.DataFrame({"id": [f"f{number:02d}" for number in range(count)]})
        faces["group"] = ["A", "B"] * (count // 2)
        rng = np.random.default_rng(0)
        scores = faces.assign(tokens=rng.integers(5, 9, count))
        for pool in ("positive", "negative"):
            for shared in ("kept", "removed"):
                scores[f"{pool}_{shared}"] = rng.normal(size=count)
        if prefix:
            faces["person"] = [f"{group}{number // 4}" for number, group in enumerate(faces["group"])]
        sizes = {(pool, shared): 3 for pool in ("positive", "negative") for shared in ("kept", "removed")}
        table, _ = compare_groups(faces, scores, sizes, permutations=39, bootstrap=40, seed=0)
        outputs |= {f"{prefix}{name}": table[name].tolist() for name in table}
    return outputs
