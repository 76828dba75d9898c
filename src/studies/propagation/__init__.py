"""Measure propagation of bias from the representation into retrieval (Ghate et al. 2025)."""
