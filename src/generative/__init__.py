"""Generative models: subtler biases in what they choose (METHODS §5)."""
