"""Check the study of poems: pools and scores, comparisons of groups, and their page."""

import hashlib
import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from scipy import stats

from src import configs
from src.configs import TinyVlmConfig
from src.errors import InputError, NotApplicable
from src.generators import tiny
from src.generators.language_models import Multimodal
from src.jobs.generator_job import GeneratorJob
from src.report import page
from src.stimuli import Table
from src.storage.answer_log import AnswerLog
from src.studies.poems import poem_generation
from src.studies.poems import study as poem_study
from src.studies.poems.config import PoemConfig
from tests.generators import checkpoint
from tests.report import factory
from tests.report.conftest import frame_of

IDS = st.lists(st.integers(0, 12), max_size=8)
WORDS = {"positive": ["joy", "calm"], "negative": ["fear", "shame"]}


def make_task(**changes):
    fields = {"image_prompt": "On <image>.", "text_prompt": "On {word}.", "words": WORDS, "most": 6}
    return PoemConfig(paper="", faces=None, permutations=9, bootstrap=9, **{**fields, **changes})


@given(
    st.lists(st.tuples(st.sampled_from(poem_generation.POLES), IDS), max_size=6), st.sets(st.integers(0, 12))
)
def test_pools_hold_unique_ids_without_special_ones_and_with_or_without_shared_ones(rows, special):
    pools = poem_generation.collect_pools(pd.DataFrame(rows, columns=["pool", "ids"]), special)
    for number in range(13):
        pools_of_id = {pool for pool, ids in rows if number in ids and number not in special}
        for pool in poem_generation.POLES:
            assert pools[pool, "kept"].count(number) == (pool in pools_of_id)
            assert pools[pool, "removed"].count(number) == (pools_of_id == {pool})


@pytest.fixture(scope="module")
def model():
    tiny_model = tiny.load_multimodal(TinyVlmConfig(width=32, layers=2, heads=2, batch_size=2))
    checkpoint.enlarge(tiny_model.model)
    return tiny_model


@pytest.fixture
def faces(tmp_path):
    paths = checkpoint.pictures(tmp_path / "faces", 5)
    digests = [hashlib.sha256(path.read_bytes()).hexdigest() for path in paths]
    columns = {"id": list("abcde"), "group": ["x", "x", "y", "y", "y"]}
    return pd.DataFrame({**columns, "path": list(map(str, paths)), "sha256": digests})


def test_scores_are_those_of_the_pools_and_no_poem_is_written_twice(model, faces, tmp_path, monkeypatch):
    with AnswerLog(tmp_path / "log.jsonl") as answer_log:
        words = poem_generation.generate_on_words(model, make_task(), answer_log)
        token_pools = poem_generation.collect_pools(words, model.special_ids)
        first = poem_generation.generate_on_faces(model, make_task(), faces.head(2), token_pools, answer_log)
    assert words["word"].tolist() == ["joy", "calm", "fear", "shame"]
    assert len(token_pools["positive", "removed"]) < len(token_pools["positive", "kept"])
    prompt_counts = []  # prompts per call of generate

    def write_and_count(self, prompts, *arguments, **options):
        prompt_counts.append(len(prompts))
        return write_poems(self, prompts, *arguments, **options)

    write_poems = Multimodal.generate
    monkeypatch.setattr(Multimodal, "generate", write_and_count)
    with AnswerLog(tmp_path / "log.jsonl") as answer_log:
        words_again = poem_generation.generate_on_words(model, make_task(), answer_log)
        poems = poem_generation.generate_on_faces(model, make_task(), faces, token_pools, answer_log)
        twice = poem_generation.generate_on_faces(
            model, make_task(), pd.concat([faces, faces]), token_pools, answer_log
        )
    assert prompt_counts == [0, 3, 0]
    pd.testing.assert_frame_equal(words, words_again)
    pd.testing.assert_frame_equal(poems.head(2), first)
    pd.testing.assert_frame_equal(twice.head(5), poems)
    named_pools = {f"{pool}_{shared}": ids for (pool, shared), ids in token_pools.items()}
    pictures = [Path(faces["path"][3])]
    (batch,) = write_poems(model, ["On <image>."], pictures, max_new_tokens=6, token_pools=named_pools)
    (answer,) = batch.values()
    assert poems.loc[3, "tokens"] == len(answer.tokens)
    assert poems.loc[3, "text"] == answer.text
    assert {name: poems.loc[3, name] for name in named_pools} == pytest.approx(answer.log_p, abs=1e-4)
    # A change of length or pools requires a new poem.
    with AnswerLog(tmp_path / "log.jsonl") as answer_log:
        poem_generation.generate_on_faces(model, make_task(most=4), faces.head(1), token_pools, answer_log)
        poem_generation.generate_on_faces(
            model, make_task(), faces.head(1), {**token_pools, ("positive", "kept"): [1]}, answer_log
        )
    assert prompt_counts[3:] == [1, 1]


def test_poems_with_reasoning_are_counted(caplog):
    poems = ["<think>Roses?</think>Roses are red", "I think of roses", "◁think▷Roses"]
    (note,) = poem_generation.note_reasoning(poems)
    assert note.startswith("2 of 3 poems contain reasoning")
    assert note in caplog.text
    assert poem_generation.note_reasoning(poems[1:2]) == []


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image_prompt": "On a face."}, "task.image_prompt='On a face.': expected <image> once"),
        ({"text_prompt": "On {word} {word}."}, "expected {word} once, got it 2 times"),
        ({"words": {"positive": ["joy"]}}, "expected words under positive and negative"),
        ({"words": {"positive": ["joy"], "negative": []}}, "expected words under positive and negative"),
        ({"pool_texts": {"positive": ["joy"], "negative": [" "]}}, "task.pool_texts: expected texts under"),
    ],
)
def test_prompts_without_their_slot_and_pools_without_words_are_refused(changes, message):
    poem_generation.check_task(make_task())
    with pytest.raises(InputError, match=message):
        poem_generation.check_task(make_task(**changes))


def test_pools_of_given_texts_are_their_tokens_and_nothing_is_generated(model, monkeypatch):
    monkeypatch.setattr(Multimodal, "generate", lambda *_: pytest.fail("a poem is written"))
    texts = {"positive": ["so be", "no"], "negative": ["bo"]}
    task = make_task(words={}, text_prompt="", pool_texts=texts)
    poem_generation.check_task(task)
    table = poem_generation.read_texts(model, task)
    assert [*zip(table["pool"], table["text"], strict=True)] == [
        ("positive", "so be"), ("positive", "no"), ("negative", "bo")
    ]  # fmt: skip
    pools = poem_generation.collect_pools(table, model.special_ids)
    # The tiny model's tokens are bytes; each text follows a blank.
    spelt = {key: "".join(sorted(model.processor.tokenizer.decode([token]) for token in ids))
             for key, ids in pools.items()}  # fmt: skip
    assert spelt == {
        ("positive", "removed"): "ens", ("positive", "kept"): " benos",
        ("negative", "removed"): "", ("negative", "kept"): " bo",
    }  # fmt: skip


def test_given_pools_are_a_specification_of_their_name():
    for task, name in (("poem", ""), ("poem_words", "+pools=given")):
        composed = configs.compose([f"task={task}", "llm=tiny_vlm"], "generate")
        job = GeneratorJob.of(*composed, "out")
        assert (job.exp, job.dataset, job.protocol) == (task, "poem", f"greedy+dataset=demo{name}")
    # The words are those of the pools that the model writes about.
    words = configs.compose(["task=poem", "llm=tiny_vlm"], "generate")[0].task.words
    assert composed[0].task.pool_texts == words


def test_tasks_without_given_pools_have_the_keys_that_they_had():
    without = GeneratorJob.of(*configs.compose(["task=poem", "llm=tiny_vlm"], "generate"), "out")
    resolved = {**without.resolved, "task": {**without.resolved["task"]}}
    del resolved["task"]["pool_texts"]
    assert replace(without, resolved=resolved).config_hash == without.config_hash


POOL_SIZES = {("positive", "removed"): 4, ("positive", "kept"): 6, ("negative", "removed"): 0}


@pytest.fixture
def scores():
    rng = np.random.default_rng(0)
    groups = np.repeat(["x", "y", "z"], [9, 7, 8])
    result = pd.DataFrame(
        {"id": [f"{n:02}" for n in range(24)], "group": groups, "tokens": rng.integers(3, 9, 24)}
    )
    shift = {"x": 0.0, "y": 1.5, "z": 0.2}
    result["positive_removed"] = [round(rng.normal(shift[group]), 1) for group in groups]  # with ties
    result["positive_kept"] = rng.normal(size=24)
    return result.assign(negative_removed=np.nan)


def naive_cles(a, b):
    return np.mean([1.0 if x > y else 0.5 if x == y else 0.0 for x, y in itertools.product(a, b)])


def compare(scores, people=None, **changes):
    options = {"permutations": 400, "bootstrap": 300, "seed": 0, **changes}
    faces = scores[["id"]] if people is None else scores[["id"]].assign(person=people)
    rows, notes = poem_study.compare_groups(faces, scores, POOL_SIZES, **options)
    has_p = rows.loc[rows["pool_size"] > 0, "p"].notna().all()
    assert bool(notes) == bool(options["permutations"] and not has_p)
    return rows


def test_cles_p_and_interval_agree_with_a_naive_computation(scores):
    result = compare(scores)
    assert list(result) == [*poem_study.COLUMNS]
    assert len(result) == 9
    for row in result[result["pool_size"] > 0].to_dict("records"):
        column = f"{row['pool']}_{row['shared']}"
        a, b = (scores[scores["group"] == row[f"group_{side}"]] for side in "ab")
        assert (row["n_a"], row["n_b"]) == (len(a), len(b))
        assert (row["tokens_a"], row["tokens_b"]) == (a["tokens"].mean(), b["tokens"].mean())
        assert row["cles"] == pytest.approx(naive_cles(a[column], b[column]))
        assert row["cles_gap"] == pytest.approx(abs(row["cles"] - 0.5))
        rng, pooled = np.random.default_rng(1), np.concatenate([a[column], b[column]])
        null, bootstrap = [], []
        for _ in range(2000):
            permuted = rng.permutation(pooled)
            null.append(abs(naive_cles(permuted[: len(a)], permuted[len(a) :]) - 0.5))
            bootstrap.append(naive_cles(rng.choice(a[column], len(a)), rng.choice(b[column], len(b))))
        assert row["p"] == pytest.approx(np.mean(np.array(null) >= row["cles_gap"] - 1e-12), abs=0.07)
        assert row["p"] * 401 == pytest.approx(round(row["p"] * 401))
        assert [row["cles_low"], row["cles_high"]] == pytest.approx(
            np.percentile(bootstrap, [2.5, 97.5]), abs=0.05
        )
    tested = result[result["p"].notna()]
    assert tested["q"].to_numpy() == pytest.approx(stats.false_discovery_control(tested["p"]))


def test_draws_depend_on_the_seed_and_can_be_switched_off(scores):
    pd.testing.assert_frame_equal(compare(scores), compare(scores))
    assert (compare(scores)["p"] != compare(scores, seed=1)["p"]).any()
    without_draws = compare(scores, permutations=0, bootstrap=0)
    assert without_draws[["p", "q", "cles_low"]].isna().all(axis=None)
    assert without_draws["cles"].tolist() == pytest.approx(compare(scores)["cles"].tolist(), nan_ok=True)


def test_people_with_several_faces_are_permuted_and_resampled(scores):
    single = compare(scores)
    pd.testing.assert_frame_equal(compare(scores, people=scores["id"]), single, check_exact=True)
    # Each face twice: as many people as faces before.
    doubled = pd.concat([scores, scores.assign(id=scores["id"] + "b")], ignore_index=True)
    linked, unlinked = compare(doubled, people=doubled["id"].str[:2]), compare(doubled)
    defined = linked["cles"].notna()
    assert linked.loc[defined, "cles"].tolist() == pytest.approx(single["cles"].dropna().tolist())
    # People without ties have the same distribution as their faces, single faces a narrower one.
    assert linked.loc[defined, "p"].to_numpy() == pytest.approx(single["p"].dropna().to_numpy(), abs=0.12)
    widths = [(frame["cles_high"] - frame["cles_low"])[defined] for frame in (linked, single, unlinked)]
    assert (widths[0] > 1.15 * widths[2]).all()
    assert widths[0].to_numpy() == pytest.approx(widths[1].to_numpy(), rel=0.25)
    # Eight or nine faces of one person per group: nothing can be permuted.
    refused = compare(scores, people=scores["group"])
    assert refused["p"].isna().all()
    assert refused["cles"].notna().any()


def face_table(*groups):
    return Table("faces", pd.DataFrame({"id": [f"{n:02}" for n in range(len(groups))], "group": groups}), 0)


def test_a_limited_number_of_faces_is_drawn_and_too_few_are_refused():
    faces = face_table(*"xxxxxxyyyzz")
    assert len(poem_study.sample_faces(faces, None, 0)) == 11
    result = poem_study.sample_faces(faces, 3, 0)
    assert result["group"].tolist() == list("xxxyyyzz")
    assert result["id"].is_unique
    pd.testing.assert_frame_equal(result, poem_study.sample_faces(faces, 3, 0))
    assert any(
        result["id"].tolist() != poem_study.sample_faces(faces, 3, seed)["id"].tolist()
        for seed in range(1, 4)
    )
    with pytest.raises(NotApplicable, match="all are of group 'x'"):
        poem_study.sample_faces(face_table(*"xx"), None, 0)
    with pytest.raises(InputError, match="1 face of 'y'"):
        poem_study.sample_faces(face_table(*"xxy"), None, 0)


def test_corrected_people_are_other_inputs_and_other_faces_keep_their_hash(monkeypatch):
    cfg = GeneratorJob.of(*configs.compose(["task=poem", "llm=tiny_vlm"], "generate"), "out").cfg

    def load_hashes(**columns):
        table = face_table(*"xxyy")
        table = replace(table, frame=table.frame.assign(**columns))
        monkeypatch.setattr(poem_study.stimuli, "load_table", lambda *_: table)
        return poem_study.load_inputs(cfg, "poem").hashes

    plain = load_hashes()
    assert plain == {"faces": face_table(*"xxyy").hash}
    for column in ("person", "set", "cluster"):
        first, corrected = load_hashes(**{column: list("aabb")}), load_hashes(**{column: list("abbb")})
        assert first["faces"] == corrected["faces"] == plain["faces"]
        assert first != corrected


FIELDS = {
    "exp": "poem",
    "paper": "Capitani",
    "dataset": "poem",
    "debias": "none",
    "perturb": "none",
    "seed": 0,
}


def rows(model, *, gaps=(0.1, -0.3), size=5, drawn=True):
    pairs = [("Niffite Men", "Luupite Men"), ("Niffite Men", "Laapian Men")]
    result = pd.DataFrame(pairs, columns=["group_a", "group_b"]).assign(
        **FIELDS, model=model, protocol="greedy+dataset=demo", config=model, pool="positive", shared="removed"
    )
    result = result.assign(n_a=6, n_b=7, pool_size=size, tokens_a=20.0, tokens_b=31.4, most=64)
    values = {"cles": 0.5 + np.array(gaps), "cles_gap": np.abs(gaps), "p": 0.01, "q": 0.02}
    values |= {"cles_low": 0.1, "cles_high": 0.44}
    if not size:
        values = dict.fromkeys(values, np.nan)
    elif not drawn:
        values |= dict.fromkeys(("p", "q", "cles_low", "cles_high"), np.nan)
    return result.assign(**values)


def test_the_terminal_table_has_a_column_per_model():
    analyses = pd.concat([rows("a"), rows("b", size=0), rows("c", drawn=False)])
    (table,) = poem_study.build_terminal_tables(analyses, "demo")
    (row,) = frame_of(table).to_dict("records")
    assert row[""] == "positive, shared tokens removed"
    assert row["protocol"] == "greedy+dataset=demo"
    mean_gap_and_top_pair = "0.200 of 2; Niffite Men / Laapian Men: CLES 0.200"
    assert row["a"] == f"{mean_gap_and_top_pair} [0.10, 0.44], q 0.020, 6 and 7 faces, 20 and 31 tokens"
    assert row["b"] == "empty pool"
    assert row["c"] == f"{mean_gap_and_top_pair}, 6 and 7 faces, 20 and 31 tokens"


def test_tasks_of_poems_are_never_averaged_or_mixed(tmp_path):
    mine = rows("a", gaps=(0.2, 0.4)).assign(exp="poem_mine", config="b")
    result = pd.concat([rows("a"), mine], ignore_index=True)
    (table,) = poem_study.build_terminal_tables(result, "demo")
    cells = frame_of(table)
    label = "positive, shared tokens removed"
    assert cells[""].tolist() == [f"poem: {label}", f"poem_mine: {label}"]
    assert [cell[:10] for cell in cells["a"]] == ["0.200 of 2", "0.300 of 2"]
    text = page.write(factory.build(poems=result), tmp_path).read_text()
    assert [heading in text for heading in ("<h3>a, poem</h3>", "<h3>a, poem_mine</h3>")] == [True, True]
    for name, cles in (("poems-a-poem", "0.20"), ("poems-a-poem_mine", "0.90")):
        with Image.open(tmp_path / "figures" / f"{name}.png") as picture:
            assert f"Niffite Men / Laapian Men, positive: {cles}" in picture.info["Description"]


def test_the_page_shows_every_pair_and_says_which_pool_is_empty(tmp_path):
    negative = rows("a").assign(pool="negative")
    with_shared = [rows("a").assign(shared="kept"), negative.assign(shared="kept")]
    result = pd.concat([rows("a"), negative, *with_shared, rows("b", size=0), rows("c", drawn=False)])
    path = page.write(factory.build(poems=result), tmp_path)
    text = path.read_text()
    assert text.count("data-poems=") == len(result)
    for name in ("poems-a", "poems-c"):
        with Image.open(tmp_path / "figures" / f"{name}.png") as picture:
            assert "Niffite Men / Laapian Men, positive: 0.20" in picture.info["Description"]
    assert not (tmp_path / "figures" / "poems-b.png").exists()
    assert "Empty pools: positive, shared tokens removed." in text
    assert "At most 64 tokens per poem" in text
    assert pd.read_csv(tmp_path / "tables" / "poems.csv")["cles"].tolist() == pytest.approx(
        result["cles"].tolist(), nan_ok=True
    )
