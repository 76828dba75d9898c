"""Draw the built-in world, whose bias is planted and therefore known, and train small encoders on it."""
