"""Exit with a message about the new name of this command."""

if __name__ == "__main__":
    raise SystemExit("src.truth has moved: python -m validation.truth, in the checkout, same arguments.")
