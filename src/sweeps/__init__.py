"""Run many jobs: launchers, collection of results, summary."""
