"""Check names, keys and logged facts of jobs, and the names of their runs and parameters in MLflow."""

import subprocess
from dataclasses import replace

import pytest
import yaml

from src import configs
from src.errors import InputError, NotApplicable
from src.jobs import encoder_job, generator_job, run_metadata
from src.jobs.identity import Job
from src.jobs.run_metadata import name_run, name_sweep, read_commit_tags
from src.storage import versions
from src.storage.cache import fingerprint
from src.studies.subtler.answers import is_free_answer
from src.sweeps.sweep import make_label_unique
from src.tracking import names
from tests.conftest import precomputed
from tests.generators import checkpoint
from tests.generators.test_causal import CLOCKS, with_template
from tests.paths import CHECKOUT


@pytest.mark.parametrize(
    ("overrides", "model", "protocol"),
    [
        ([], "toy_m", "paper"),
        (["protocol.k=500", "model.seed=0", "model.batch_size=7"], "toy_m", "paper"),
        (["protocol=held_out", "protocol.k=100"], "toy_m", "held_out+k=100"),
        (["model=toy_s", "model.seed=3", "demo.bias=0"], "toy_s+seed=3+bias=0", "paper"),
        (["model.name=mine", "demo.bias=0.25", "protocol.ddof=0"], "mine+bias=0.25", "paper+ddof=0"),
        (["model=precomputed", "model.path=some/lab/"], "lab", "paper"),
        (["model=clip_b32", "model.weights=random", "model.sha256=''"], "clip_b32+random", "paper"),
        (["model=open_clip", "model.id=hf-hub:a/b", "model.precision=fp16"], "hf-hub:a/b+fp16", "paper"),
        (["model=precomputed", "model.path=some/lab", "model.name=other"], "other", "paper"),
    ],
)
def test_names_contain_differences_from_the_yaml(job, overrides, model, protocol):
    composed = job(*overrides)
    assert (composed.model, composed.protocol) == (model, protocol)


def test_the_config_s_hash_is_blind_to_places_only(job):
    first = job("dataset=photos", "dataset.root=here").config_hash
    places = ("dataset.root=/there", "store.dir=x", "tracking.uri=y", "trainer.workers=2")
    assert first == job("dataset=photos", *places).config_hash
    morphs = ("dataset=photos", "faces=morphs", "faces@faces.parents=fairface")
    moved = ("dataset.root=/there", "faces.workers=2")
    assert job(*morphs, "dataset.root=here").config_hash == job(*morphs, *moved).config_hash
    for change in ("seed=1", "protocol.k=2", "exp=words_to_faces", "faces.per_group=9", "model.seed=1"):
        assert first != job("dataset=photos", "dataset.root=here", change).config_hash


@pytest.mark.parametrize(
    ("section", "field", "first", "other"),
    [
        ("faces", "morphs", "pairs", "families"),
        ("protocol", "intrinsic", "sc_eat", "difference"),
        ("protocol", "extrinsic", "top_k", "zero_shot"),
    ],
)
def test_some_defaults_are_in_no_key_because_keys_of_old_jobs_lack_them(job, section, field, first, other):
    default, changed = job("faces=morphs"), job("faces=morphs", f"{section}.{field}={other}")
    values = dict(default.resolved[section])
    assert values.pop(field) == first
    older = replace(default, resolved={**default.resolved, section: values})
    assert older.config_hash == default.config_hash != changed.config_hash
    if section == "protocol":
        assert (changed.protocol, job(f"protocol={other}").protocol) == (f"paper+{other}", other)


def test_a_perturbation_is_in_name_and_key_and_none_is_in_no_key(job):
    plain, grey = job("perturb=none"), job("perturb=grey")
    assert not {"perturb", "face_box"} & ({*plain.resolved} | {*plain.resolved["faces"]})
    assert (plain.columns["perturb"], grey.columns["perturb"]) == ("none", "grey")
    assert "perturb" not in plain.label
    assert name_run(grey) == "toy_m · faces_to_words · perturb grey"
    jpeg = job("perturb=jpeg", "perturb.quality=5")
    assert jpeg.perturb == "jpeg+quality=5"
    assert name_sweep([plain, grey, jpeg]) == "toy_m × faces_to_words × none, grey, jpeg+quality=5"
    assert len({each.config_hash for each in (plain, grey, jpeg, job("perturb=jpeg"))}) == 4
    # The box of standardised portraits matters to perturbations of the face alone.
    box = "faces.face_box=[0,0,1,1]"
    assert job(box).config_hash == plain.config_hash
    assert job("perturb=grey", box).config_hash == grey.config_hash
    assert job("perturb=crop_face", box).config_hash != job("perturb=crop_face").config_hash


def test_a_missing_value_is_named(job):
    with pytest.raises(InputError, match=r"model.path: not set. Set model.path=VALUE"):
        job("model=precomputed")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("demo.noise=0", "demo.noise=0.0: must be at least 0.001"),
        ("+demo.traits.wit=[funny]", r"got warmth \(3\), competence \(3\), wit \(1\). Leave out a trait"),
        ("demo.traits.warmth=[]", r"expected words of two traits, got warmth \(0\), competence \(3\)"),
    ],
)
def test_captions_that_cannot_be_drawn_are_refused(job, override, message):
    with pytest.raises(InputError, match=message):
        job("dataset=demo", override)


def test_random_weights_are_in_the_name_whatever_the_yaml_says(job):
    assert job("model=clip_b32", "model.name=mine", "model.weights=random").model == "mine+random"
    composed, choices = configs.compose(["model=clip_b32", "model.weights=random"])
    # As if model/other.yaml of a user set weights=random.
    assert Job.of(composed, choices | {"model": "other"}, "").model == "other+random"


@pytest.mark.parametrize(
    ("exp", "protocol", "field"),
    [
        ("faces_to_labels", "extremes_10", "extremes"),
        ("faces_to_words", "unit_sentence", "unit"),
        ("words_to_faces", "strata_all", "strata"),
        ("faces_to_words", "pooling_mean", "pooling"),
        ("cles_warmth", "difference", "intrinsic"),
        ("sobit_association", "zero_shot", "extrinsic"),
    ],
)
def test_a_specification_without_effect_is_not_applicable(tmp_path, job, exp, protocol, field):
    lab = precomputed(tmp_path / "lab")
    composed = job(f"model.path={lab}", "model=precomputed", f"exp={exp}", f"protocol={protocol}")
    with pytest.raises(NotApplicable, match=f"differs from protocol=paper only in {field},"):
        encoder_job.prepare(composed)
    # Numbers, unlike named specifications, are accepted by every experiment.
    numbers = ["protocol.extremes=10", "protocol.k=11", "exp=faces_to_labels"]
    encoder_job.prepare(job(f"model.path={lab}", "model=precomputed", *numbers))


def test_a_set_of_words_called_study_decides_and_the_study_s_name_does_not(job):
    sets = ("exp=cles_warmth", "+exp.sets.study=[{}]")
    first, other = (job(sets[0], sets[1].format(word)) for word in ("diligent", "idle"))
    assert first.config_hash != other.config_hash
    plain = job("exp=cles_warmth")
    assert plain.resolved["exp"].pop("study") == "implicit"
    assert plain.config_hash == job("exp=cles_warmth").config_hash


@pytest.mark.parametrize(
    ("choice", "swept"),
    [
        ("perturb=jpeg", ("perturb.roles=[faces]", "perturb.roles=[scenes]", "perturb.roles=[faces,scenes]")),
        ("debias=orth_proj", ("debias.nouns.Men=[male]", "debias.nouns.Men=[man]")),
        ("dataset=demo", ("demo.traits.warmth=[warm]", "demo.traits.warmth=[friendly]")),
    ],
)
def test_jobs_that_differ_in_a_list_alone_have_different_labels(job, choice, swept):
    labels = set()
    for override in swept:
        labels.add(make_label_unique(job(choice, override), [choice, override], labels).label)
    assert len(labels) == len(swept)


@pytest.mark.parametrize("group", ["classes", "debias", "perturb"])
def test_a_yaml_that_inherits_a_name_is_named_after_its_file(group):
    chosen = {"classes": "clip", "debias": "orth_proj", "perturb": "jpeg"}[group]
    composed, choices = configs.compose([f"{group}={chosen}", "exp=harms"])
    made = Job.of(composed, choices | {group: "mine"}, "")
    assert getattr(made.cfg, group).name.partition("+")[0] == "mine"


def test_an_unset_variable_is_named(job):
    with pytest.raises(InputError, match="NO_SUCH_VARIABLE"):
        job("model=precomputed", "model.path=${oc.env:NO_SUCH_VARIABLE}")


@pytest.mark.parametrize("name", ["workers", "key", "date", "report"])
def test_a_set_of_words_is_in_the_hash_whatever_its_name(job, name):
    assert job("exp=cles_warmth", f"+exp.sets.{name}=[x]").config_hash != job("exp=cles_warmth").config_hash


def test_a_test_of_association_is_in_the_hash_whatever_its_name(job):
    published = ("exp=eat_ieat", "exp.orders=[image_image]")
    added = "+exp.tests.plan=[flower,insect,tool,weapon]"
    assert job(*published, added).config_hash != job(*published).config_hash


def task(tmp_path, *overrides):
    few = ["task.domains=[ageism]", "task.count=12", f"store.answers={tmp_path}/logs"]
    return generator_job.GeneratorJob.of(
        *configs.compose([*few, *overrides], "generate"), str(tmp_path / "out")
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return checkpoint.write_checkpoint(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize(("template", "dated"), [(CLOCKS["llama"][0], True), ("", False)])
def test_a_date_is_in_key_and_log_where_a_chat_template_asks_for_it(folder, tmp_path, template, dated):
    with_template(folder, template + checkpoint.TEMPLATE)
    chosen = ["llm=hf", f"llm.id={folder}", "llm.name=m"]
    jobs = [task(tmp_path, *chosen), task(tmp_path, *chosen, "llm.date=2020-02-29")]
    prepared = [generator_job.prepare(job) for job in jobs]
    dates = ["2024-07-26", "2020-02-29"] if dated else [None, None]
    assert [item.weights_identity.get("chat_date") for item in prepared] == dates
    logs = [
        generator_job.open_answer_log(item.job, item.weights_identity, "free", is_free_answer)
        for item in prepared
    ]
    assert (logs[0].path != logs[1].path) == dated
    assert jobs[1].model == "m+2020-02-29"
    assert generator_job.compute_key(prepared[0]) != generator_job.compute_key(prepared[1])


def test_a_log_from_before_the_options_of_a_server_is_read(tmp_path):
    chosen = ["llm=openai_compatible", "llm.url=http://127.0.0.1:9/v1", "llm.id=m", "answer=generate"]
    old_options = {"name": None, "url": "http://127.0.0.1:9/v1", "id": "m", "most": 32}
    log = generator_job.open_answer_log(task(tmp_path, *chosen), {}, "free", is_free_answer)
    assert log.path.stem == fingerprint([old_options, {}, "free"])
    with_options = task(tmp_path, *chosen, "llm.limit=max_completion_tokens", "llm.temperature=null")
    assert generator_job.open_answer_log(with_options, {}, "free", is_free_answer).path != log.path
    assert with_options.model == "openai_compatible+max_completion_tokens+temperature=None"


def test_another_version_of_generators_has_another_log(tmp_path, monkeypatch):
    def name_log():
        return generator_job.open_answer_log(task(tmp_path, "llm=tiny"), {}, "free", is_free_answer).path

    first = name_log()
    monkeypatch.setitem(versions.all_declared_versions(), "generators", 2)
    assert name_log() != first


def test_only_fields_that_a_study_names_change_the_hash(tmp_path):
    hashes = {task(tmp_path, "llm=tiny", override).config_hash for override in ("seed=0", "dataset=demo")}
    assert len(hashes) == 1
    assert task(tmp_path, "llm=tiny", "answer=generate").config_hash not in hashes


def test_only_the_repository_of_the_code_gives_its_commit(tmp_path):
    """Imitate packages that are installed in a folder within another repository."""
    (tmp_path / "packages").mkdir()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@localhost"]
    for arguments in (["init"], ["commit", "--allow-empty", "--message", "a state"]):
        subprocess.run([*git, *arguments, "--quiet"], cwd=tmp_path, check=True)
    assert read_commit_tags(tmp_path / "packages") == {"git.commit": "unknown", "git.dirty": "unknown"}
    assert [len(read_commit_tags(folder)["git.commit"]) for folder in (tmp_path, CHECKOUT)] == [40, 40]


@pytest.mark.parametrize(
    ("overrides", "name"),
    [
        ([], "toy_m · faces_to_words"),
        (["model=clip_b32", "exp=words_to_faces"], "clip_b32 · words_to_faces"),
        (["protocol.k=60"], "toy_m · faces_to_words · k=60"),
        (["protocol=k_100", "seed=3"], "toy_m · faces_to_words · k_100 · seed 3"),
        (["debias=orth_proj"], "toy_m · faces_to_words · debias orth_proj"),
        (["dataset=paper"], "toy_m · faces_to_words · flow morphs"),
        (
            ["dataset=paper", "faces.method=landmark", "seed=2"],
            "toy_m · faces_to_words · landmark morphs · seed 2",
        ),
        # The paper's method, and an experiment that has no faces.
        (["dataset=paper", "faces.method=stylegan2"], "toy_m · faces_to_words"),
        (["dataset=paper", "exp=scenes_to_words"], "toy_m · scenes_to_words"),
        (
            ["model=qwen3_vl_embedding_2b", "model.prompt='Name the person.'"],
            "qwen3_vl_embedding_2b · faces_to_words · prompt=Name the person.",
        ),
    ],
)
def test_a_run_is_named_by_its_choices_without_the_defaults(job, overrides, name):
    assert name_run(job(*overrides)) == name


def test_a_sweep_is_named_by_what_it_varies_and_its_jobs_differ_in_name(job):
    small = job("model=toy_s")
    models = [replace(small, model=f"m{number}") for number in range(100)]
    exps = [replace(small, exp=f"e{number}") for number in range(8)]
    assert name_sweep([small]) == "toy_s × faces_to_words"
    assert name_sweep(models[:3]) == "m0, m1, m2 × faces_to_words"
    assert name_sweep([*models, *exps]) == "101 models × 9 experiments"
    assert name_sweep([small, replace(small, model="m" * 61)]) == "2 models × faces_to_words"
    assert name_sweep([job("protocol=k_100", "seed=2"), job("protocol=paper", "seed=2")]) == (
        "toy_m × faces_to_words × k_100, paper × seed 2"
    )
    settings = ([], ["protocol=k_100"], ["debias=orth_proj"], ["seed=1"], ["seed=1", "protocol.k=100"])
    jobs = [job(*overrides) for overrides in settings]
    assert len({name_run(item) for item in jobs}) == len(jobs)


def test_a_sweep_names_morphs_that_are_not_those_of_the_paper(job):
    exps = "faces_to_words", "scenes_to_words"
    jobs = [job("dataset=paper", f"exp={exp}") for exp in exps]
    assert name_sweep(jobs) == "toy_m × faces_to_words, scenes_to_words × flow morphs"
    jobs = [job("dataset=paper", f"exp={exp}", "faces.method=stylegan2") for exp in exps]
    assert name_sweep(jobs) == "toy_m × faces_to_words, scenes_to_words"


def paths(job):
    return names.flatten(run_metadata.select_settings(job))


def test_a_job_has_only_the_parameters_that_it_uses(job):
    small = job("model=toy_s")
    assert {name: getattr(small, name) for name in run_metadata.LOGGED_NAMES} == {
        "model": "toy_s", "exp": "faces_to_words", "protocol": "paper", "debias": "none", "perturb": "none",
    }  # fmt: skip
    logged = paths(small)
    assert len(logged) <= 45
    assert {"seed", "protocol.k", "faces.per_group", "words.count", "templates", "exp.corpus"} <= {*logged}
    prefixes = {name.partition(".")[0] for name in logged}
    assert not prefixes & {"store", "tracking", "scenes", "labels", "debias", "resume", "plan", "report"}
    unused = {"protocol.top_k", "protocol.iat", "protocol.set_size", "dataset.root", "model.name"}
    assert not unused & {*logged}
    assert not any(name.startswith("demo.planted") for name in logged)


def test_what_is_switched_on_is_a_parameter_and_a_config_is_valid_yaml(job):
    logged = paths(job("debias=orth_proj", "exp=cles_emotions"))
    names = {"debias.name", "debias.spurious", "debias.side", "protocol.partitions", "protocol.ties"}
    assert names <= {*logged}
    assert any(name.startswith("exp.sets.") for name in logged)
    assert not {"templates", "protocol.k"} & {*logged}
    assert any(name.startswith("taxonomy.") for name in paths(job("exp=sobit_association")))
    resolved = job("model=toy_s", "exp=cles_emotions", "debias=orth_proj").resolved
    assert yaml.safe_load(yaml.safe_dump(dict(resolved), allow_unicode=True)) == resolved
