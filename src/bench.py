"""Exit with a message about the new name of this command."""

if __name__ == "__main__":
    raise SystemExit(
        "src.bench has moved. Run `python -m benchmarks` from the checkout with the same arguments."
    )
