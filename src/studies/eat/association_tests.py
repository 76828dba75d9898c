"""List the tests of an experiment: four sets each, and the orders in which they can be tested."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from src.configs import RunConfig
from src.errors import InputError, did_you_mean
from src.stimuli import IMAGE_ROLES, PROMPTS, ROLES
from src.studies.eat.config import ORDERS, EatConfig, SetConfig
from src.studies.eat.published_tests import read_tests

# Sources of images and of texts: fields of `SetConfig`, and the roles of their stimuli.
SOURCES = {"image": {role: role for role in IMAGE_ROLES}}
SOURCES["text"] = {"labels": "labels", "words": "words", "texts": PROMPTS}
LETTERS = ("X", "Y", "A", "B")


@dataclass(frozen=True)
class AssociationTest:
    """Test of two sets of targets and two sets of attributes.

    Attributes:
        name: name of the test.
        names: names of the sets X, Y, A and B.
        sets: their items.
    """

    name: str
    names: tuple[str, ...]
    sets: tuple[SetConfig, ...]

    def roles_in(self, order: str) -> list[str]:
        """Return the role of each set in an order; an empty list where a set lacks that modality."""
        targets, attributes = order.split("_")
        roles = [get_role(items, targets) for items in self.sets[:2]]
        roles += [get_role(items, attributes) for items in self.sets[2:]]
        return roles if all(roles) else []


def get_role(items: SetConfig, modality: str) -> str:
    """Return the role of a set's images or texts; "" if it has none of them."""
    return next((role for source, role in SOURCES[modality].items() if getattr(items, source)), "")


def list_tests(exp: EatConfig, groups: Sequence[str]) -> list[AssociationTest]:
    """List the tests of an experiment; `groups` are those that `exp.attributes` are tested with, in pairs.

    Raises:
        InputError: a test has other than four sets, a set is unknown, empty or from two sources of a
            modality, an order is unknown, no order fits a test, or two tests have one name.
    """
    _check_settings(exp)
    tests = [*_read_file(exp)] if exp.file is not None else [*_list_declared(exp), *_pair_groups(exp, groups)]
    if not tests:
        raise InputError("exp.tests: no test. Give name: [X, Y, A, B] with names of exp.sets, or exp.file.")
    for test in tests:
        if not any(test.roles_in(order) for order in exp.orders):
            available = {
                letter: " and ".join(name for name in SOURCES if get_role(items, name))
                for letter, items in zip(LETTERS, test.sets, strict=True)
            }
            raise InputError(
                f"exp.tests.{test.name}: X and Y share no modality, nor A and B, in exp.orders="
                f"{list(exp.orders)}; the sets have {available}. Add images or texts to exp.sets."
            )
        for order in exp.orders:
            if len({*test.roles_in(order)[:2]}) > 1:
                raise InputError(
                    f"exp.tests.{test.name}: X is from {test.roles_in(order)[0]}, Y from "
                    f"{test.roles_in(order)[1]}. "
                    "Take both from one role: their items change places in the test."
                )
    return tests


def list_roles(exp: EatConfig) -> tuple[str, ...]:
    """Return the roles of the dataset that an experiment needs."""
    # Any two groups need the same roles.
    used = {
        role
        for test in list_tests(exp, ("first group", "second group"))
        for order in exp.orders
        for role in test.roles_in(order)
    }
    return tuple(role for role in ROLES if role in used)


def list_texts(cfg: RunConfig) -> list[tuple[AssociationTest, int, list[str]]]:
    """List the sets of `texts` that some order needs: test, position in `LETTERS`, and texts."""
    assert isinstance(cfg.exp, EatConfig)
    exp, chosen = cfg.exp, []
    for test in list_tests(exp, ("first group", "second group")):
        for position, items in enumerate(test.sets):
            if any(PROMPTS in test.roles_in(order)[position : position + 1] for order in exp.orders):
                chosen.append((test, position, list(items.texts)))
    return chosen


def _check_settings(exp: EatConfig) -> None:
    unknown = [order for order in exp.orders if order not in ORDERS]
    if unknown or not exp.orders:
        hint = did_you_mean(unknown[0], ORDERS) if unknown else ""
        raise InputError(
            f"exp.orders={list(exp.orders)}: expected some of {', '.join(ORDERS)} (targets_attributes).{hint}"
        )
    if exp.languages is not None and exp.file is None:
        raise InputError(
            "exp.languages: only tests of a file have a language. Set exp.file, or leave it out."
        )
    for name, items in exp.sets.items():
        for modality, sources in SOURCES.items():
            used = [source for source in sources if getattr(items, source)]
            if len(used) > 1:
                raise InputError(
                    f"exp.sets.{name}: {' and '.join(used)} are two sources of {modality}s. Give one."
                )


def _read_file(exp: EatConfig) -> Iterator[AssociationTest]:
    assert exp.file is not None
    for name, sets in read_tests(Path(exp.file), exp.languages).items():
        names = tuple(category for category, _ in sets)
        yield AssociationTest(name, names, tuple(SetConfig(texts=texts) for _, texts in sets))


def _list_declared(exp: EatConfig) -> Iterator[AssociationTest]:
    for name, names in exp.tests.items():
        if len(names) != len(LETTERS):
            raise InputError(
                f"exp.tests.{name}: expected the names of four sets, X, Y, A and B, got {len(names)}. "
                "Correct the list."
            )
        yield AssociationTest(
            name, tuple(names), tuple(_get_set(exp, f"tests.{name}", each) for each in names)
        )


def _pair_groups(exp: EatConfig, groups: Sequence[str]) -> Iterator[AssociationTest]:
    if not exp.attributes:
        return
    if len(exp.attributes) != 2:
        raise InputError(
            f"exp.attributes={list(exp.attributes)}: expected the names of two sets, A and B. Correct it."
        )
    attributes = [_get_set(exp, "attributes", name) for name in exp.attributes]
    for pair in combinations(groups, 2):
        targets = [SetConfig(faces=[group], labels=[group]) for group in pair]
        yield AssociationTest(", ".join(pair), (*pair, *exp.attributes), (*targets, *attributes))


def _get_set(exp: EatConfig, setting: str, name: str) -> SetConfig:
    if name not in exp.sets:
        raise InputError(
            f"exp.{setting}: no set {name!r}.{did_you_mean(name, exp.sets)} "
            f"exp.sets has {', '.join(exp.sets) or 'no set'}."
        )
    return exp.sets[name]
