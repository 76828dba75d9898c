"""Studies: one folder each, with its question, its measure and its section of the report."""
