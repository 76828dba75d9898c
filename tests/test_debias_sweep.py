"""The command that asks what debiasing does, on the shrunk built-in world."""

import pandas as pd
import pytest
from mlflow import MlflowClient

from tests.commands import command
from tests.conftest import AUDITS, SHRUNK, places

pytestmark = pytest.mark.thorough

METHODS = ["none", "orth_proj", "orth_proj_scm"]
ARGUMENTS = ["-m", f"debias={','.join(METHODS)}", "exp=glob(*)", *SHRUNK, "protocol.bootstrap=200"]
ARGUMENTS += ["protocol.placebo=99", "protocol.property_draws=0", "protocol.attribute_draws=0"]
ARGUMENTS += ["protocol.partitions=200", "protocol.faces_per_group=40"]
ARGUMENTS += ["protocol.vocabulary=200", "protocol.permutations=99"]


@pytest.fixture(scope="module")
def swept(kept, sweeps, tmp_path_factory):
    output = tmp_path_factory.mktemp("debias")
    return command(output, *ARGUMENTS, *apart(kept, output), "report=true")


def apart(kept, output):
    """The suite's toy, but vectors and runs of its own."""
    own = [f"store.dir={output}/vectors", f"tracking.uri=sqlite:///{output}/mlflow.db"]
    return [*places(kept), *own]


def test_only_prompts_are_embedded_anew_for_a_method(swept, kept):
    assert swept.code == 0
    assert swept.trained == 0
    tables = [path.parent.parent.name for path in (swept.output / "vectors").glob("*/*/manifest.json")]
    # Four lists of words (two audits share theirs), the taxonomy's captions without and with the baseline's,
    # and the sentences of two methods.
    assert {role: tables.count(role) for role in {*tables}} == {
        **dict.fromkeys(("faces", "scenes", "words", "labels"), 1),
        "prompts": 8,
    }


def test_every_experiment_ran_with_every_method(swept):
    found = swept.analyses()
    assert found.groupby("debias")["exp"].nunique().to_dict() == dict.fromkeys(METHODS, 17)
    audits = found[found["exp"].isin(AUDITS)]
    assert set(audits["n_a"]) == {40}
    assert audits["cles"].between(0, 1).all()
    assert audits["p_null"].between(1 / 201, 1).all()
    propagation = found[found["stratum"].notna()]
    assert propagation.groupby("debias").size().to_dict() == dict.fromkeys(METHODS, 38)


def test_a_projection_changes_numbers_and_none_does_not(swept, sweeps):
    """Without a method each rho is that of the main job, which has other draws."""
    found, before = swept.analyses().dropna(subset=["stratum"]), sweeps[0].analyses()
    rho = {method: own.set_index(["exp", "stratum"])["rho"] for method, own in found.groupby("debias")}
    expected = before.set_index(["exp", "stratum"])["rho"]
    pd.testing.assert_series_equal(rho["none"].sort_index(), expected.sort_index(), check_exact=True)
    for method in METHODS[1:]:
        assert (rho[method].reindex(expected.index) != expected).mean() > 0.9


def test_the_report_answers_the_question(swept):
    page = (swept.output / "report" / "index.html").read_text()
    for method in METHODS[1:]:
        assert method in page
    assert "Debias" in page
    assert "Implicit bias" in page


def test_a_run_bears_its_kind_s_numbers_and_what_was_removed(swept):
    client = MlflowClient(f"sqlite:///{swept.output}/mlflow.db")
    (experiment,) = [e.experiment_id for e in client.search_experiments() if e.name == "demo"]
    (run,) = client.search_runs(
        [experiment], "tags.exp = 'cles_emotions' and tags.debias = 'orth_proj_scm' and tags.kind = 'job'"
    )
    metrics = run.data.metrics
    emotions = [metrics[f"cles_gap.{name}"] for name in ("emotions_positive", "emotions_negative")]
    assert metrics["cles_gap.emotions"] == pytest.approx(sum(emotions) / 2)
    assert "rho" not in metrics
    assert "'A photo of a niffite person.'" in run.data.tags["notes"]
    assert {"input.prompts", "input.faces.vectors"} <= set(run.data.tags)


def test_a_second_time_all_is_taken_over(swept, kept, tmp_path, capsys):
    again = command(tmp_path / "again", *ARGUMENTS, *apart(kept, swept.output))
    assert (again.code, again.passes) == (0, 0)
    assert "51 of 51 jobs were finished already" in " ".join(capsys.readouterr().out.split())


def test_a_plan_names_what_is_left_to_do(kept, sweeps, tmp_path, capsys):
    arguments = ["exp=cles_warmth", "debias=orth_proj", *SHRUNK, *places(kept), "seed=5", "plan=true"]
    assert command(tmp_path / "plan", *arguments).code == 0
    said = capsys.readouterr().out
    assert "cles_warmth orth_proj" in " ".join(said.split())
    assert not (tmp_path / "plan" / "results").exists()
