"""Say where this command went."""

import sys

sys.exit("src.truth has moved: python -m validation.truth, in the checkout, same arguments.")
