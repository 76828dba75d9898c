"""Audit of training captions: which loaded words stand beside which groups (METHODS §4)."""
