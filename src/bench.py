"""Exit with a message about the new name of this command."""

if __name__ == "__main__":
    raise SystemExit("src.bench has moved: python -m benchmarks, in the checkout, same arguments.")
