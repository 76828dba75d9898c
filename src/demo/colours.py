"""Convert colours."""

import colorsys

Colour = tuple[int, int, int]


def rgb(hue: float, saturation: float, value: float) -> Colour:
    """Convert hue (cyclic), saturation and value to a colour in 0 to 255."""
    red, green, blue = colorsys.hsv_to_rgb(hue % 1, saturation, value)
    return round(255 * red), round(255 * green), round(255 * blue)
