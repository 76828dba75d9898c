"""Remove what is computed from texts of a language that an encoder does not place."""

from src.configs import ENGLISH
from src.report.findings import Findings
from src.studies.languages.differences import COUNTS, JOB, NOT_PLACED, has_languages, split_languages
from src.studies.languages.validity import LANGUAGE, NO, add_placement

# Columns of an analysis that remain: its names, what was measured, and what shows whether texts are placed.
REMAINING = {
    *(*JOB, LANGUAGE, "config", *COUNTS, "group", "stratum", "n", "n_excluded", "clusters", "df"),
    *("measured", "measured_low", "measured_high", "sd_measured", "validity"),
    *("intrinsic_label", "extrinsic_label"),
}


def withhold_unplaced(findings: Findings) -> Findings:
    """Remove ρ, level and what belongs to them from analyses with texts that are not placed.

    Of English, which other sweeps state as well, nothing is removed. The `reason` says why numbers are
    missing.
    """
    if not has_languages(findings):
        return findings
    for study, frame in split_languages(findings).frames.items():
        columns = {"stratum": "item", "measured_low": "low"}
        values = frame.rename(columns=columns).assign(study=study, measure="measured")
        placed = add_placement(values, findings)["placed"]
        is_withheld = (placed == NO) & (frame[LANGUAGE] != ENGLISH)
        if not is_withheld.any():
            continue
        analyses = findings.of(study)
        names = [name for name in analyses if name not in REMAINING]
        removed = analyses.assign(**{str(name): analyses[name].mask(is_withheld) for name in names})
        removed["reason"] = analyses["reason"].mask(is_withheld, NOT_PLACED)
        findings = findings.with_frame(study, removed)
    return findings
