"""Measure time and memory of the stages, and compare them with other implementations."""
