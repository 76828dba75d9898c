"""Measure zero-shot accuracy, of which debiasing may cost a part."""
