"""Provide functions that several studies use."""
