"""Debiasing, compared over the studies: a section of the report."""

from __future__ import annotations

from src.report.study import StudyReport
from src.studies.debiasing.section import section

# It has no jobs of its own: all that is asked of it is its report.
STUDY = StudyReport(section=section)
