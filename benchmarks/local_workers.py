"""The benchmark's peers in this process, for tests that have made the benchmark's modules importable."""

import importlib
from collections.abc import Iterator

import pytest
import workers


def library(peer):
    """The library of a peer; skips the test if it is not installed."""
    for package in peer.packages:
        pytest.importorskip(package)
    module, class_name = peer.library.split(".")
    kind = getattr(importlib.import_module(module), class_name)
    # TensorFlow takes no settings once it runs, and PyTorch some only once.
    instance = kind.__new__(kind)
    instance._threads = 1
    return instance


class LocalWorker:
    """Stands for a `Worker`, without a process; a call of another peer's turn is recorded."""

    turns: list[tuple[str, str, str]]
    corrupted: tuple[str, str] | None
    others: Iterator[float]

    def __init__(self, peer, threads, log):
        self.peer = peer
        self._session = workers.Session(library(peer))

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def versions(self):
        return {}

    def prepare(self, case):
        return self._session.prepare(case.name)

    def results(self, case, task):
        arrays = self._session.results(case.name, task)
        last = list(arrays)[-1]
        return {**arrays, last: arrays[last] * 1.01} if self.corrupted == (self.peer.name, task) else arrays

    def calibrate(self, case, task, seconds):
        pass

    def sample(self, case, task, load):
        self.turns.append((self.peer.name, case.name, task))
        waits = self._session.serve(case.name, task, load).waits if load.seconds else ()
        return workers.Sample(float(len(self.turns)), next(self.others), waits)

    def forget(self, case):
        self._session.forget(case.name)
