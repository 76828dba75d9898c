"""What debiasing changes in an experiment of propagation: rho, and how far apart groups lie."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from src.report.findings import Findings
from src.studies.debiasing import spreads
from src.studies.debiasing.change import (
    INTRINSIC,
    NOTHING,
    OUTCOME,
    RHO,
    Change,
    mean_of,
    means,
    stacked,
    two,
)
from src.studies.debiasing.job_pairs import Pair, joined
from src.studies.shared.draws import Draws, p_of_difference


def propagation(findings: Findings, draws: Draws, pair: Pair) -> list[Change]:
    """Rho, the mean over the analyses that have one in both jobs; and the two spreads over groups."""
    tables = [findings.read(config, "targets") for config in (pair.before, pair.after)]
    targets = spreads.units(*tables)
    every = max(table["id"].nunique() if "id" in table else 0 for table in tables)
    return [_rho(draws, pair, targets), *_spreads(draws, pair, targets, every)]


def _rho(draws: Draws, pair: Pair, targets: pd.DataFrame) -> Change:
    rows = joined(pair, ["stratum"], RHO)
    strata = [*rows["stratum"]]
    wanted = max(len(own) for own in pair.rows)
    said = [] if len(strata) == wanted else [f"a ρ before and after in {len(strata)} of {wanted} analyses"]
    alike = all(draws.stimuli(pair.before, one) == draws.stimuli(pair.after, one) for one in strata)
    boots, placebos = (
        _drawn(draws, pair, strata, kind) if alike else NOTHING for kind in ("bootstrap", "placebo")
    )
    if strata and not boots.size:
        said.append("no interval: " + ("no bootstrap" if alike else "other targets, or other A and B"))
    before, after = means(rows, "rho_placebo_units")
    return Change(
        pair,
        RHO,
        values=means(rows, RHO),
        draws=boots,
        chance=means(rows, "placebo_mean"),
        p_placebo=p_of_difference(after - before, placebos[1] - placebos[0]),
        n=targets.loc[targets["stratum"].isin(strata), "id"].nunique(),
        over=len(strata),
        reason="; ".join(said),
    )


def _spreads(draws: Draws, pair: Pair, targets: pd.DataFrame, every: int) -> list[Change]:
    """Of an experiment with groups; `every` is how many targets the larger job had."""
    groups = set.intersection(*(set(rows.dropna(subset=["group"])["stratum"]) for rows in pair.rows))
    if not groups:
        return []
    own = targets[targets["stratum"].isin(groups)]
    over, n = own["stratum"].nunique(), own["id"].nunique()
    if over < 2:
        reason = "a spread needs targets of two groups or more"
        return [Change(pair, one, n=n, over=over, reason=reason) for one in (INTRINSIC, OUTCOME)]
    # As many as the jobs drew: who wanted no interval gets none.
    jobs = (pair.before, pair.after)
    samples = min(len(draws.of(config, one, "bootstrap")) for config in jobs for one in groups)
    labels = str(pair.job["exp"]).startswith("labels_to_")
    said = [] if n == every else [f"{n} of {every} targets have both scores before and after"]
    said += [] if draws.sets(pair.before) == draws.sets(pair.after) else ["other A and B"]
    said += [] if samples else ["no interval: no bootstrap"]
    found = spreads.spreads(own, labels=labels, draws=samples, seed=int(pair.job["seed"]))
    return [
        Change(
            pair,
            name,
            values=two(found[score].observed),
            draws=found[score].draws,
            chance=two(found[score].chance),
            n=n,
            over=over,
            reason="; ".join(said),
        )
        for name, score in zip((INTRINSIC, OUTCOME), spreads.MEASURES, strict=True)
    ]


def _drawn(draws: Draws, pair: Pair, strata: Sequence[str], kind: str) -> np.ndarray:
    """[2, R] mean over strata, draw by draw."""
    both = [[draws.of(config, one, kind) for one in strata] for config in (pair.before, pair.after)]
    return stacked([mean_of(one) for one in both])
