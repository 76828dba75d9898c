"""Exit with a message about the new name of this command."""

if __name__ == "__main__":
    raise SystemExit(
        "src.calibration has moved. Run `python -m validation.calibration` from the checkout with the same "
        "arguments."
    )
