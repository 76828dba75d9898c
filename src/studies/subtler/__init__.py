"""Measure subtler biases of language models (Kamruzzaman et al. 2024; docs/methods.md, section 5)."""
