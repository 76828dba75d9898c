"""Say where this command went."""

import sys

sys.exit("src.calibration has moved: python -m validation.calibration, in the checkout, same arguments.")
