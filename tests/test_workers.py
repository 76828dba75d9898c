"""Workers that test beside each other keep a file's tests together."""

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process runs all tests")
def test_a_file_is_one_worker_s(request):
    """By its group in the test's name: a release of pytest once dropped it without a word."""
    assert request.node.nodeid.endswith("@tests/test_workers.py")
