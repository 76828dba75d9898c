"""Classify faces among classes of groups and harmful classes (Radford et al. 2021, section 7.1)."""
