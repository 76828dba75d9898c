"""Measure zero-shot accuracy, which debiasing may reduce."""
