"""Exit with a message about the new name of this command."""

if __name__ == "__main__":
    raise SystemExit(
        "src.truth has moved. Run `python -m validation.truth` from the checkout with the same arguments."
    )
