"""Debiasing, compared over the studies: a section of the report."""

from __future__ import annotations

from src.report.study import StudyReport
from src.studies.debiasing.section import section
from src.studies.protocol import ReportedStudy

STUDY = ReportedStudy("debiasing", StudyReport(section=section))
