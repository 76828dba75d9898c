"""Many jobs: launchers, collection of results, summary."""
