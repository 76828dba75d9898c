"""Simulate studies whose truth is known, and check the claims about their intervals and p-values."""
