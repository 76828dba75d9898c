"""Moved to validation.calibration, at the top of the repository."""
