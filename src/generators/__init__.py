"""Prompts, parsing and likelihoods of generative models, and the items that they are asked."""
