"""Compare jobs in other languages with the same jobs in English, and check that languages are read."""
