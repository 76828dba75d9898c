"""Does what is said of a rho hold where the truth is known? Coverage of intervals, size of the placebo."""
