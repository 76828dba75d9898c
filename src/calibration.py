"""Exit with a message about the new name of this command."""

if __name__ == "__main__":
    raise SystemExit(
        "src.calibration has moved: python -m validation.calibration, in the checkout, same arguments."
    )
