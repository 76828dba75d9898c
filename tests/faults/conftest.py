"""One bench for all tests of faults: what nobody disturbed is made once."""

import pytest

from tests.faults.stages import Bench


@pytest.fixture(scope="package")
def bench(tmp_path_factory):
    made = Bench(tmp_path_factory.mktemp("faults"))
    yield made
    made.close()
