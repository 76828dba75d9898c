"""What things cost."""
