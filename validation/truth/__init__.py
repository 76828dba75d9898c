"""Compare measured bias with the bias planted in the built-in world."""
