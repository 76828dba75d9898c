"""So-B-IT: whose faces an encoder finds for the loaded words of a taxonomy (Hamidieh et al. 2024)."""
