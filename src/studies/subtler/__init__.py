"""What generative models choose, as tables and figures (docs/methods.md, section 5)."""
