"""Audit of training captions: which loaded words stand beside which groups (docs/methods.md, section 4)."""
