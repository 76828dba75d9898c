"""Sweep languages: with files of published layouts and a small multilingual checkpoint, and with toys."""

import json
import re

import pandas as pd
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import ChineseCLIPConfig, XLMRobertaConfig

from src.configs import CONF
from src.studies.eat.published_tests import SETS
from tests.commands import FEW_DRAWS, TINY, command
from tests.conftest import SHRUNK, store_overrides
from tests.encoders import dual_checkpoints, small_checkpoints
from tests.encoders.dual_checkpoints import dual_files
from tests.encoders.small_checkpoints import SPECIAL, write_folder
from tests.stimuli import drawn

# Language -> its name in NRC-VAD, and letters of which words are drawn.
LANGUAGES = {
    "es": ("Spanish", "abcdeñ"),
    "zh": ("Chinese-Simplified", "快乐灾难好坏"),
    "ar": ("Arabic", "ابتثجح"),
}
SMALL = ["faces.per_group=6", "protocol.k=30", "protocol.extremes=12", "protocol.set_size=12", *FEW_DRAWS]
SWEEPS = {"scenes_to_words": "en,es,zh,ar", "labels_to_scenes": "en,es,zh,ar"}


@pytest.fixture
def root(tmp_path):
    """Draw OASIS, and NRC-VAD with translations: two rows have none, and two have the same."""
    raw = tmp_path / "raw"
    drawn.oasis(raw / "oasis", 60)
    drawn.nrc_vad(raw / "nrc_vad", 60)
    folder = raw / "nrc_vad" / "OneFilePerLanguage"
    folder.mkdir()
    for name, letters in LANGUAGES.values():
        words = [first + second + third for first in letters for second in letters for third in letters][:60]
        cells = [*words, words[0], "NO TRANSLATION", ""]
        rows = [f"word {i}\t{i / len(cells):.3f}\t.5\t.5\t{cell}" for i, cell in enumerate(cells)]
        header = f"English Word\tValence\tArousal\tDominance\t{name} Word"
        (folder / f"{name}-NRC-VAD-Lexicon.txt").write_text("\n".join([header, *rows]) + "\n", "utf-8")
    return raw


def draw_weathub(path):
    """Write WEATHub's columns, a test per row, with words that a set repeats."""
    rows = []
    for code, letters in {
        "en": "abcdefgh",
        **{code: letters for code, (_, letters) in LANGUAGES.items()},
    }.items():
        words = [letter + other for letter in letters for other in letters]
        for test in ("WEAT6", "WEAT7"):
            row = {"language": code, "weat": test}
            for number, key in enumerate(SETS):
                chosen = words[5 * number : 5 * number + 5]
                row |= {f"{key}.category": key, f"{key}.examples": [*chosen, chosen[0]]}
            rows.append(row)
    pd.DataFrame(rows).to_parquet(path)
    return path


@pytest.mark.thorough
def test_association_tests_of_weathub_are_those_of_the_language(root, tmp_path, capsys):
    checkpoint = write_folder(dual_files("siglip2", tmp_path / "made"), tmp_path / "multilingual")
    tests = [
        f"exp.file={draw_weathub(tmp_path / 'original_weat.parquet')}",
        "exp.languages=['${language.code}']",
    ]
    model = ["model=hf", f"model.id={checkpoint}", "model.languages=[multilingual]", "trainer=cpu"]
    swept = command(
        *(tmp_path / "out", "-m", "language=en,es,zh,ar", "exp=eat", *tests, f"dataset.root={root}"),
        *("dataset=photos", *model, "trainer.workers=0", "report=false", *store_overrides(tmp_path)[:-1]),
    )
    assert swept.code == 0, capsys.readouterr().out
    analyses = swept.analyses()
    codes = analyses["language"].fillna("en")
    assert {*zip(analyses["test"], codes, strict=True)} == {
        (f"{test} {code}", code) for test in ("WEAT6", "WEAT7") for code in ("en", *LANGUAGES)
    }
    assert {*analyses["n_x"]} == {5}


@pytest.mark.thorough
def test_languages_of_a_sweep_are_measured_and_reused(root, tmp_path, capsys):
    checkpoint = write_folder(dual_files("siglip2", tmp_path / "made"), tmp_path / "multilingual")
    model = ["model=hf", f"model.id={checkpoint}", "model.languages=[multilingual]", "trainer=cpu"]
    given = [f"dataset.root={root}", *model, *SMALL, "trainer.workers=0", *store_overrides(tmp_path)[:-1]]
    for exp, codes in SWEEPS.items():
        sweep = ["-m", f"language={codes}", f"exp={exp}", "dataset=photos", *given]
        swept = command(tmp_path / exp, *sweep)
        assert swept.code == 0, capsys.readouterr().out
        analyses = swept.analyses()
        assert set(analyses["language"].fillna("en")) == {*codes.split(",")}
        assert analyses.groupby("protocol").ngroups == len(codes.split(","))
        # Some Arabic phrases have more bytes than the context of the small checkpoint holds.
        unread = analyses.groupby("language")["n_unread"].max().to_dict()
        has_phrases = exp == "labels_to_scenes"
        assert {code for code, count in unread.items() if count} == ({"ar"} if has_phrases else set())
        assert analyses[analyses["language"].isna()]["n_texts"].isna().all()
        page = (swept.output / "report" / "index.html").read_text("utf-8")
        assert all(f"language={code}" in page for code in codes.split(",")[1:])
        again = command(tmp_path / f"{exp}-again", *sweep, "report=false")
        assert (again.code, again.passes) == (0, 0)


def pieces():
    """List words and letters of the templates and labels of all languages here, and of the drawn words."""
    folders = ("language", "labels")
    texts = [path.read_text("utf-8") for folder in folders for path in (CONF / folder).glob("*.yaml")]
    letters = "".join(letters for _, letters in LANGUAGES.values())
    words = {word.lower() for text in texts for word in re.findall(r"\w+", text)}
    return sorted(words | {*"".join(words), *letters, *"abcdefghijklmnopqrstuvwxyz0123456789"})


def chinese_clip(scratch, cache, monkeypatch):
    """Write a small Chinese-CLIP whose tokenizer, like BERT's, knows the letters of all languages here."""
    vocabulary = [*SPECIAL, *pieces(), *(f"##{piece}" for piece in pieces() if len(piece) == 1)]
    text = dual_checkpoints.TEXT | {"vocab_size": len(vocabulary)}
    config = ChineseCLIPConfig(text_config=text, vision_config=dual_checkpoints.VISION, projection_dim=16)
    images = dual_checkpoints.CONFIGS["chinese_clip"][1]
    monkeypatch.setitem(dual_checkpoints.CONFIGS, "chinese_clip", (config, images))
    tokenizer = Tokenizer(
        models.WordPiece({piece: i for i, piece in enumerate(vocabulary)}, unk_token="[UNK]")
    )
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    files = dual_checkpoints.dual_files("chinese_clip", scratch / "made")
    files["tokenizer.json"] = tokenizer.to_str().encode()
    return "hf", write_folder(files, scratch / "chinese_clip")


def xlm_roberta_clip(scratch, cache, monkeypatch):
    """Write a small CLIP of open_clip whose text tower is XLM-R, with its tokenizer of pieces of words."""
    vocabulary = ["<s>", "<pad>", "</s>", "<unk>", "▁", *(f"▁{piece}" for piece in pieces()), *pieces()]
    # Long pieces are likely.
    scored = [(piece, -len(vocabulary) / (1 + len(piece))) for piece in vocabulary]
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2}
    # XLM-R's positions begin after the id of the padding.
    roberta = XLMRobertaConfig(
        vocab_size=len(vocabulary), max_position_embeddings=80, pad_token_id=1, **sizes
    )
    roberta.save_pretrained(scratch / "text")
    text = {"hf_model_name": str(scratch / "text"), "hf_tokenizer_name": "lab/words", "context_length": 77}
    text |= {"hf_pooler_type": "mean_pooler", "hf_proj_type": "mlp"}
    architecture = {"embed_dim": 16, "vision_cfg": small_checkpoints.VISION, "text_cfg": text}
    monkeypatch.setitem(small_checkpoints.SMALL, "xlm_roberta", architecture)
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=3))
    tokenizer.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    names = {"pad": "<pad>", "unk": "<unk>", "bos": "<s>", "eos": "</s>", "cls": "<s>", "sep": "</s>"}
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 77}
    config |= {f"{kind}_token": token for kind, token in names.items()}
    files = small_checkpoints.open_clip_files("xlm_roberta", scratch)
    # A published config names a repository of the hub, not a folder.
    config_name = "open_clip_config.json"
    files[config_name] = files[config_name].replace(str(scratch / "text").encode(), b"lab/text")
    text_config = {"config.json": (scratch / "text" / "config.json").read_bytes()}
    small_checkpoints.write_to_cache(cache, "lab/text", text_config)
    files |= {
        "tokenizer.json": tokenizer.to_str().encode(),
        "tokenizer_config.json": json.dumps(config).encode(),
    }
    return "open_clip", write_folder(files, scratch / "xlm_roberta")


def siglip2(scratch, cache, monkeypatch):
    """Write a small SigLIP 2, whose tokenizer reads unknown letters as bytes."""
    return "hf", write_folder(dual_checkpoints.dual_files("siglip2", scratch / "made"), scratch / "siglip2")


@pytest.mark.exhaustive
@pytest.mark.parametrize("write_checkpoint", [xlm_roberta_clip, chinese_clip, siglip2])
def test_all_experiments_run_in_four_languages(write_checkpoint, root, cache, tmp_path, monkeypatch, capsys):
    drawn.fairface(root / "fairface", per_group=12)
    model, folder = write_checkpoint(tmp_path, cache, monkeypatch)
    given = [f"model={model}", f"model.id={folder}", "model.languages=[multilingual]", "trainer=cpu"]
    given += [f"dataset.root={root}", *SMALL, "faces.per_group=12", "trainer.workers=0"]
    given += store_overrides(tmp_path)[:-1]
    sweep = ["-m", "language=en,es,zh,ar", "dataset=photos", "exp=glob(*_to_*)", *given]
    swept = command(tmp_path / "out", *sweep)
    assert swept.code == 0, capsys.readouterr().out
    analyses = swept.analyses()
    ran = {*zip(analyses["language"].fillna("en"), analyses["exp"], strict=True)}
    assert len(ran) == 4 * 8
    assert (
        analyses.groupby("language")["n_unread"].max() < 0.2 * analyses.groupby("language")["n_texts"].max()
    ).all()
    again = command(tmp_path / "again", *sweep, "report=false")
    assert (again.code, again.passes) == (0, 0)


@pytest.mark.thorough
def test_a_toy_of_two_languages_is_trained_once_and_run_in_both(tmp_path, capsys):
    given = [*TINY, *FEW_DRAWS, *store_overrides(tmp_path)[:-1]]
    experiments = "exp=faces_to_words,scenes_to_labels,words_to_scenes"
    swept = command(tmp_path / "out", "-m", "dataset=demo_languages", "language=en,qaa", experiments, *given)
    displayed = capsys.readouterr().out
    assert (swept.code, swept.trained) == (0, 1), displayed
    assert "in captions that are not in English, times 0" in " ".join(displayed.split())
    assert len(swept.analyses()["config"].unique()) == 6
    words = {
        path.parts[-3]: set(pd.read_parquet(path)["id"])
        for path in swept.output.glob("*/results/targets.parquet")
        if pd.read_csv(path.parent / "analyses.csv")["exp"][0] == "words_to_scenes"
    }
    english, invented = sorted(words.values(), key=lambda texts: any(not text.isascii() for text in texts))
    assert all(text.isascii() for text in english)
    assert not english & invented
    table = pd.read_csv(swept.output / "report" / "tables" / "languages.csv")
    assert set(table["language"]) == {"en", "qaa"}
    paired = table[table["measure"].eq("level") & table["language"].eq("qaa")].set_index("exp")
    assert paired.loc[["faces_to_words", "scenes_to_labels"], "difference_low"].notna().all()
    assert "Umkrish" in (swept.output / "report" / "index.html").read_text("utf-8")


@pytest.mark.exhaustive
@pytest.mark.timeout(1800)
def test_a_toy_of_english_does_not_place_the_words_of_another_language(stores, sweeps, tmp_path, capsys):
    """Run the toy that the session has trained on English captions in front of Umkrish words."""
    assert sweeps[0].code == 0
    given = ["exp=words_to_scenes,faces_to_words", *SHRUNK, *store_overrides(stores)[:-1]]
    choices = ["language=en,qaa", "language.unclaimed=true"]
    swept = command(tmp_path / "out", "-m", *choices, *given)
    assert (swept.code, swept.trained) == (0, 0), capsys.readouterr().out
    table = pd.read_csv(swept.output / "report" / "tables" / "languages.csv")
    assert table.groupby("language")["placed"].unique().map(list).to_dict() == {"en": ["yes"], "qaa": ["no"]}
    levels = table[(table["exp"] == "faces_to_words") & (table["language"] == "qaa")].dropna(
        subset="difference_low"
    )
    assert len(levels)
    assert set(levels["verdict"]) == {"not interpreted: texts not placed"}
    page = (swept.output / "report" / "index.html").read_text("utf-8")
    assert "does not place the words of Umkrish" in page
    assert command(tmp_path / "refused", "-m", choices[0], *given, "report=false").code == 1
