"""Write figures and tables of results."""
