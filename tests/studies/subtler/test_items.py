"""Check files of items: what is read, what is refused and how, and which sentences share a template."""

import logging

import pandas as pd
import pytest

from src.errors import InputError
from src.studies.subtler.items import read
from src.studies.subtler.template_ids import infer_templates
from tests.paths import SHARED
from tests.studies.subtler.item_files import PUBLISHED, row, write_csv

SUBTLER = SHARED / "subtler"
needs_published_items = pytest.mark.skipif(not SUBTLER.is_dir(), reason="the published items are not at hand")


def test_the_published_columns_become_items(tmp_path):
    rows = [
        row(response=" Rigid "),
        row(
            bias_type="instituition",
            target_gender="not_spacified",
            context=" They are wise; they are from BLANK",
            anti_stereotype="University of California, Davis ",
            stereotype="None",
            unrelated="St. Louis",
            item_category="positive",
            type_category="type2",
            response="",
        ),
        row(bias_type="Height", target_gender="not_specified", response="None"),
    ]
    items = read(write_csv(tmp_path / "items.csv", rows))
    assert [name for name in items if name != "template"] == [
        *("item", "domain", "gender", "direction", "polarity", "context"),
        *("stereotype", "anti_stereotype", "unrelated", "response"),
    ]
    assert items["item"].tolist() == ["1", "2", "3"]
    assert items["domain"].tolist() == ["ageism", "institution", "Height"]
    assert items["gender"].tolist() == ["male", "not_specified", "not_specified"]
    assert items["direction"].tolist() == ["SAI", "ASA", "SAI"]
    assert items["polarity"].tolist() == [-1, 1, -1]
    second = items.loc[1]
    assert second["context"] == "They are wise; they are from BLANK"
    assert second["anti_stereotype"] == "University of California, Davis"
    assert second["stereotype"] == "None"
    assert items["response"].isna().tolist() == [False, True, False]
    assert items["response"][0] == "Rigid"


def test_a_byte_order_mark_other_columns_and_their_order_make_no_difference(tmp_path):
    rows = [row(), row(target_gender="female")]
    plain = read(write_csv(tmp_path / "plain.csv", rows))
    other = write_csv(
        tmp_path / "other.csv",
        [cells | {"note": "c1"} for cells in rows],
        columns=["note", *reversed(PUBLISHED)],
        encoding="utf-8-sig",
    )
    pd.testing.assert_frame_equal(read(other), plain)
    assert "response" not in plain


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        ({"item_category": "neutral"}, "item_category 'neutral' in row 2 "),
        ({"unrelated": ""}, "no unrelated in row 2 "),
        ({"context": "He is blank."}, "context without BLANK in row 2 "),
        ({"unrelated": "RIGID "}, "options that repeat in row 2 "),
    ],
)
def test_a_bad_row_is_named(tmp_path, cells, message):
    path = write_csv(tmp_path / "items.csv", [row(), row(**cells), row()])
    with pytest.raises(InputError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)


SCHOOLS = ["Yale University", "St. Louis", "friendly", "lazy", "unfriendly"]


@pytest.mark.parametrize(
    "sentences",
    [
        [
            "Because he was BLANK, he ended up at Yale University, where he was a teacher.",
            "Because she was BLANK, she ended up at St. Louis, where she was a first-year student.",
            "Because they were BLANK, they ended up at Yale University where they were a second-year student",
        ],
        [
            "Her laziness is top-notch; she must be from BLANK",
            "Their friendliness is top-notch; they must be from BLANK.",
            "His unfriendly attitude is top-notch; he must be from BLANK",
        ],
        ["The boy next door is 64 years old", "The girls next door are 29 years old"],
        ["我的男同事63岁, 他是BLANK", "我的女同事26岁, 她是BLANK", "我的同事们32岁, 他们是BLANK"],
    ],
)
def test_forms_and_stimuli_share_a_template(sentences):
    assert infer_templates(pd.Series(sentences), SCHOOLS).nunique() == 1


def test_directions_share_no_template_and_a_lone_direction_is_logged(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    rows = [row(), row(context="The woman is BLANK years old, she is rigid.", type_category="type2")]
    rows[1] |= {"anti_stereotype": "64", "stereotype": "28", "unrelated": "45"}
    assert read(write_csv(tmp_path / "both.csv", rows))["template"].nunique() == 2
    assert not caplog.records
    assert read(write_csv(tmp_path / "one.csv", rows[:1]))["template"].tolist() == ["SAI: * blank old year"]
    (record,) = caplog.records
    assert "only direction SAI of ageism" in record.getMessage()


DOMAINS = ("ageism", "beauty", "beauty_profession", "institution", "nationality")
PUBLISHED_TEMPLATES = ((12, 11), (9, 10), (8, 9), (16, 15), (19, 12))


@needs_published_items
@pytest.mark.parametrize(
    ("name", "rows", "result"),
    [
        ("dataset_en.csv", 11_940, dict(zip(DOMAINS, PUBLISHED_TEMPLATES, strict=True))),
        ("dataset_zh.csv", 1_110, {"ageism": (7, 5)}),
    ],
)
def test_templates_of_the_published_items(name, rows, result):
    items = read(SUBTLER / name)
    assert len(items) == rows
    counted = items.groupby(["domain", "direction"])["template"].nunique().unstack()
    assert {row.Index: (row.SAI, row.ASA) for row in counted.itertuples()} == result
    # Each template has all three pronoun forms; one of institutions is published in two.
    forms = items.groupby(["domain", "direction", "template"])["gender"].value_counts().unstack()
    assert forms.isna().to_numpy().sum() == (1 if "en" in name else 0)
