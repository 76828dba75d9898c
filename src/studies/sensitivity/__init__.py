"""Compare jobs on perturbed pictures with the same jobs on pictures as they are."""
