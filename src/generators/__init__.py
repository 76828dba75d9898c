"""Run generative models, local or served, and log their answers."""
