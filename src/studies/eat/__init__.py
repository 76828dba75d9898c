"""Measure associations of two sets of targets with two sets of attributes (EAT)."""
