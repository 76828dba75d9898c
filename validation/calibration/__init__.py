"""Simulate studies whose true rho is known, and check the claims about its interval and its p-value."""
