"""Carryover: how bias in an encoder's representations carries over into what it retrieves."""
