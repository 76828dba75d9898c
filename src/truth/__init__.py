"""Moved to validation.truth, at the top of the repository."""
