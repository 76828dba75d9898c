"""Poems about faces (Capitani et al. 2024)."""
