"""Compare poems about faces between groups (Capitani et al. 2024)."""
