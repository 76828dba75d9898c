"""Generative models, local or served, and the log of their answers."""
