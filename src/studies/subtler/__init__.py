"""Measure subtler biases of language models (Kamruzzaman et al. 2023; docs/methods.md, section 5)."""
