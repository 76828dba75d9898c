"""Say where this command went."""

import sys

sys.exit("src.bench has moved: python -m benchmarks, in the checkout, same arguments.")
