"""Moved to benchmarks, at the top of the repository."""
