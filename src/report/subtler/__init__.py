"""What generative models choose, as tables and figures (METHODS §5)."""
