"""Define paths of the checkout and of shared data."""

from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent
# Real data, read in place where it is at hand; tests that need it skip where it is not.
SHARED = CHECKOUT.parent / "shared" / "data"
# Packages that are linted, typed and tested.
PACKAGES = [CHECKOUT / name for name in ("src", "benchmarks", "validation")]
