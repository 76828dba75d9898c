"""Zero-shot accuracy: what a projection costs in use."""
