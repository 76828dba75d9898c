"""What debiasing changes in an audit of implicit bias, and in how useful an encoder is."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from src.report.findings import Findings
from src.studies.debiasing.change import ACCURACY, CLES, IAT, NOTHING, Change, mean_of, means, stacked
from src.studies.debiasing.job_pairs import Pair, joined
from src.studies.shared.draws import Draws

GROUPS = ["group_a", "group_b"]
COLUMNS = ["attribute", *GROUPS, "kind", "draw", CLES, IAT, ACCURACY]


def audit(findings: Findings, draws: Draws, pair: Pair) -> list[Change]:
    """|CLES - 1/2| and IAT of each attribute, the mean over the pairs of groups that both jobs have."""
    same = draws.sets(pair.before) == draws.sets(pair.after)
    drawn = [_bootstrap(findings, config) if same else None for config in (pair.before, pair.after)]
    attributes = dict.fromkeys(pd.concat([rows["attribute"] for rows in pair.rows]))
    found = [_change(drawn, pair, one, measure) for one in attributes for measure in (CLES, IAT)]
    return [change for change in found if change]


def _change(drawn: Sequence[pd.DataFrame | None], pair: Pair, attribute: str, measure: str) -> Change | None:
    """None where neither job has the measure: an audit without pairs of words has no IAT."""
    own = [rows.reindex(columns=[*dict.fromkeys((*rows, measure))]) for rows in pair.rows]
    wanted = max(rows.loc[rows["attribute"] == attribute, measure].count() for rows in own)
    if not wanted:
        return None
    rows = joined(pair, ["attribute", *GROUPS], measure)
    rows = rows[rows["attribute"] == attribute]
    keys = [*rows[GROUPS].itertuples(index=False, name=None)]
    boots = stacked([_draws(frame, attribute, keys, measure) for frame in drawn])
    said = [] if len(rows) == wanted else [f"{len(rows)} of {wanted} pairs of groups in both"]
    if keys and not boots.size:
        said.append("no interval: " + ("other faces" if drawn[0] is None else "no bootstrap"))
    # The null is of the one or of the other.
    of_null = (pair.job["paper"] == "IAT") == (measure == IAT)
    return Change(
        pair,
        measure,
        attribute,
        values=means(rows, measure),
        draws=boots,
        chance=means(rows, "null_mean") if of_null else (np.nan, np.nan),
        n=_faces(rows),
        over=len(rows),
        reason="; ".join(said),
    )


def accuracy(findings: Findings, draws: Draws, pair: Pair) -> Change:
    """How often the word nearest to a scene is one of its own."""
    one, other = (rows.iloc[0] for rows in pair.rows)
    same = draws.stimuli(pair.before, "scenes") == draws.stimuli(pair.after, "scenes")
    both = [_bootstrap(findings, config)[ACCURACY] for config in (pair.before, pair.after)]
    boots = stacked(both) if same else NOTHING
    return Change(
        pair,
        ACCURACY,
        values=(float(one[ACCURACY]), float(other[ACCURACY])),
        draws=boots,
        chance=(float(one["chance"]), float(other["chance"])),
        n=int(min(one["n"], other["n"])),
        over=1,
        reason="" if boots.size else "no interval: " + ("no bootstrap" if same else "other scenes"),
    )


def _bootstrap(findings: Findings, config: str) -> pd.DataFrame:
    found = findings.read(config, "draws").reindex(columns=COLUMNS)
    return found[found["kind"] == "bootstrap"].sort_values("draw", kind="stable")


def _draws(
    drawn: pd.DataFrame | None, attribute: str, keys: Sequence[tuple[str, str]], measure: str
) -> np.ndarray:
    """[R] mean over pairs of groups, draw by draw."""
    if drawn is None:
        return np.empty(0)
    own = drawn[drawn["attribute"] == attribute].groupby(GROUPS, sort=False)[measure]
    # Both measures are sizes; the IAT's draws may carry their sign.
    parts = {pair: values.abs().to_numpy(dtype=float) for pair, values in own}
    return mean_of([parts.get(key, np.empty(0)) for key in keys])


def _faces(rows: pd.DataFrame) -> int:
    sizes = {row[f"group_{side}"]: row[f"n_{side}_after"] for row in rows.to_dict("records") for side in "ab"}
    return int(sum(sizes.values()))
