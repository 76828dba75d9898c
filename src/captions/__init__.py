"""Entry of the audit of training captions."""
