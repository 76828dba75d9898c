"""Audit implicit bias: compare groups by the similarity of their faces to prompts (Capitani et al. 2024)."""
