"""Compare the people in sets of pictures that differ in the person only."""
