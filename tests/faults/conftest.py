"""Provide one bench for all tests of faults: undisturbed results are made once."""

import pytest

from tests.faults.stages import Bench


@pytest.fixture(scope="package")
def bench(tmp_path_factory):
    shared = Bench(tmp_path_factory.mktemp("faults"))
    yield shared
    shared.close()
