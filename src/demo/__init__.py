"""The built-in world, whose bias is planted and therefore known, and the small encoders for it."""
