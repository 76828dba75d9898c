"""Audit implicit bias: the groups whose faces an encoder finds nearer to prompts (Capitani et al. 2024)."""
