"""Say what a command waits for, where that takes more than a few seconds."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger(__name__)

# Seconds without a word.
SILENCE = 4.0


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Log what is waited for, where the block takes longer than `SILENCE`."""
    timer = threading.Timer(SILENCE, log.warning, ("waiting for %s", what))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
