"""Sweep over methods of debiasing and all experiments on the shrunk built-in world."""

import json
from collections import Counter

import pandas as pd
import pytest
from mlflow import MlflowClient

from tests.commands import command
from tests.conftest import SHRUNK, store_overrides

pytestmark = pytest.mark.exhaustive

METHODS = ["none", "orth_proj_scm"]
ARGUMENTS = ["-m", f"debias={','.join(METHODS)}", "exp=glob(*)", *SHRUNK, "protocol.bootstrap=200"]
ARGUMENTS += ["protocol.placebo=99", "protocol.property_draws=0", "protocol.attribute_draws=0"]
ARGUMENTS += ["protocol.partitions=200", "protocol.faces_per_group=40"]
ARGUMENTS += ["protocol.vocabulary=200", "protocol.permutations=99"]


@pytest.fixture(scope="module")
def swept(stores, sweeps, tmp_path_factory):
    output = tmp_path_factory.mktemp("debias")
    return command(output, *ARGUMENTS, *apart(stores, output), "report=true")


def apart(stores, output):
    """Return overrides that use the suite's toy, and put vectors and runs below `output`."""
    separate = [f"store.dir={output}/vectors", f"tracking.uri=sqlite:///{output}/mlflow.db"]
    return [*store_overrides(stores), *separate]


def test_a_method_embeds_no_more_than_its_sentences(swept, stores):
    assert swept.code == 0
    assert swept.trained == 0
    page = (swept.output / "report" / "index.html").read_text()
    assert all(text in page for text in (*METHODS[1:], "Debias", "Implicit bias"))
    tables = [path.parent.parent.name for path in (swept.output / "vectors").glob("*/*/manifest.json")]
    # Prompts: four lists of words (two audits share one), the taxonomy's captions without and with those of
    # the baseline, the classes without and with a child; `none` and the method share these. The ninth has the
    # sentences of the method.
    assert Counter(tables) == {"faces": 1, "scenes": 1, "words": 1, "labels": 1, "prompts": 9}


def test_a_projection_changes_rho_and_debias_none_does_not(swept, sweeps):
    """Compare with the suite's sweep.

    This one has other numbers of random draws, which do not change rho. What else it changes (`partitions`,
    `faces_per_group`, `vocabulary`, `permutations`) belongs to other studies.
    """
    assert swept.analyses().groupby("debias")["exp"].nunique().to_dict() == dict.fromkeys(METHODS, 20)
    result, undebiased = swept.analyses().dropna(subset=["stratum"]), sweeps[0].analyses()
    rho = {method: rows.set_index(["exp", "stratum"])["rho"] for method, rows in result.groupby("debias")}
    expected = undebiased.set_index(["exp", "stratum"])["rho"]
    pd.testing.assert_series_equal(rho["none"].sort_index(), expected.sort_index(), check_exact=True)
    for method in METHODS[1:]:
        assert (rho[method].reindex(expected.index) != expected).mean() > 0.9


def test_a_run_of_an_audit_logs_its_metrics_and_the_projected_prompts(swept):
    client = MlflowClient(f"sqlite:///{swept.output}/mlflow.db")
    (experiment,) = [e.experiment_id for e in client.search_experiments() if e.name == "demo"]
    (run,) = client.search_runs(
        [experiment], "tags.exp = 'cles_emotions' and tags.debias = 'orth_proj_scm' and tags.kind = 'job'"
    )
    metrics = run.data.metrics
    emotions = [metrics[f"cles_gap/{name}"] for name in ("emotions_positive", "emotions_negative")]
    assert metrics["cles_gap/emotions"] == pytest.approx(sum(emotions) / 2)
    assert "rho" not in metrics
    assert "'A photo of a niffite person.'" in run.data.tags["notes"]
    assert {"input.prompts", "input.faces.vectors"} <= set(json.loads(run.data.tags["inputs"]))


def test_a_second_sweep_reuses_all_jobs(swept, stores, tmp_path, capsys):
    again = command(tmp_path / "again", *ARGUMENTS, *apart(stores, swept.output))
    assert (again.code, again.passes) == (0, 0)
    # `eat_ieat`, `matched` and `matched_words` do not apply to the built-in world, with either method.
    assert "40 of 46 jobs were finished already" in " ".join(capsys.readouterr().out.split())
