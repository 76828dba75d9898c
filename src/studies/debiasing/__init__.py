"""Debiasing: what a projection changes, over the studies."""
