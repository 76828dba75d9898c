"""Poems about faces, in the report."""
