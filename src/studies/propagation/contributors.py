"""What is retrieved that moves a group's outcome most."""

from __future__ import annotations

import pandas as pd

from src.report.findings import Findings
from src.studies.propagation.combined import shown

# Each way, per stratum.
MOST = 5


def contributors(findings: Findings) -> pd.DataFrame:
    """The items that push each stratum's outcome up and down most, of the shown reading.

    Faces are never shown, nor named, for their names may tell a person: they bear a number, the
    same within a job.

    Returns:
        `config, exp, model, stratum, item, outcome, share, reference, against, contribution`; of each
        config and stratum the largest contributions first. Empty where no job left any.
    """
    parts = []
    jobs = shown(findings).drop_duplicates("config")
    for job in jobs.to_dict("records"):
        if not findings.has(job["config"], "retrieved"):
            continue
        found = findings.read(job["config"], "retrieved")
        if str(job["exp"]).endswith("_to_faces"):
            numbers = {item: number for number, item in enumerate(sorted(found["item"].unique()), 1)}
            found = found.assign(item=[f"face no. {numbers[item]}" for item in found["item"]])
        found = found.sort_values("contribution", ascending=False, kind="stable")
        groups = found.groupby("stratum", sort=False)
        up, down = groups.head(MOST), groups.tail(MOST)
        up, down = up[up["contribution"] > 0], down[down["contribution"] < 0]
        kept = pd.concat([up, down])
        about = {name: job[name] for name in ("config", "exp", "model")}
        parts.append(kept.assign(**about))
    columns = ["config", "exp", "model", "stratum", "item", "outcome", "share", "reference", "against"]
    columns.append("contribution")
    if not parts:
        return pd.DataFrame(columns=columns)
    every = pd.concat(parts, ignore_index=True)[columns]
    order = {key: number for number, key in enumerate(shown(findings)["stratum"].drop_duplicates())}
    rank = every["stratum"].map(order)
    jobs_order = every["config"].map({key: number for number, key in enumerate(jobs["config"])})
    sorting = pd.DataFrame({"job": jobs_order, "stratum": rank, "last": -every["contribution"]})
    return every.loc[sorting.sort_values(["job", "stratum", "last"], kind="stable").index]
