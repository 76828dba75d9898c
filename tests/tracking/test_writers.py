"""Several writers of one store at once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, BrokenBarrierError

from src.tracking import Tracker

WRITERS = 6


def test_runs_that_read_the_same_at_once_all_note_it(tmp_path):
    """MLflow looks whether it knows a dataset, then writes it: somebody may have written it meanwhile."""
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    Tracker(uri)
    barrier = Barrier(WRITERS, timeout=300)

    def write(number):
        tracker = Tracker(uri)
        for step in range(5):
            run = tracker.open("demo", f"{number} {step}")
            barrier.wait()
            try:
                run.inputs({f"demo faces {step}": "a" * 64, f"demo words {step}": "b" * 64})
            except Exception:
                barrier.abort()  # nobody shall wait for this one
                raise
        return True

    with ThreadPoolExecutor(WRITERS) as pool:
        told = [pool.submit(write, number) for number in range(WRITERS)]
    failed = [one.exception() for one in told if not isinstance(one.exception(), BrokenBarrierError | None)]
    assert failed == []
    client = Tracker(uri).client
    (experiment,) = [found.experiment_id for found in client.search_experiments() if found.name == "demo"]
    runs = client.search_runs([experiment])
    assert len(runs) == WRITERS * 5
    for run in runs:
        step = run.info.run_name.split()[1]
        noted = sorted(found.dataset.name for found in run.inputs.dataset_inputs)
        assert noted == [f"demo faces {step}", f"demo words {step}"]
