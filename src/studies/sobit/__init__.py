"""Audit which faces an encoder finds for the loaded words of a taxonomy (So-B-IT, Hamidieh et al. 2024)."""
