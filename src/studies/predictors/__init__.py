"""Relate the bias of models to their training data and size (docs/methods.md, section 6.19)."""
