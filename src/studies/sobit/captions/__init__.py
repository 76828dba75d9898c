"""Audit training captions for loaded words that co-occur with groups (docs/methods.md, section 4)."""
