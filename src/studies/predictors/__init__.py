"""Compare the bias of models with their training data and size (docs/methods.md, section 6.19)."""
