"""Define the studies, a folder each: its measures and its section of the report."""
