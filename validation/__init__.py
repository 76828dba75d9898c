"""Provide checks of the instrument against worlds in which the truth is known."""
