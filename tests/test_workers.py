"""Check that parallel workers run the tests of a file together."""

import os

import pytest


@pytest.mark.skipif("PYTEST_XDIST_WORKER" not in os.environ, reason="one process runs all tests")
def test_a_file_runs_in_a_single_worker(request):
    """Check the group in the test's name, which a release of pytest dropped silently."""
    assert request.node.nodeid.endswith("@tests/test_workers.py")
