"""The results of a run, their JSON form, and figures derived from them."""

import dataclasses
import functools
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cases import EMPTY_FUNCTION, FUNCTION, MEMORY, OPS_ALONE, REPEATS, Case, parse_case
from measure import DISTURBANCE, Failure, Measurement
from sections import MAIN, OURS, PEERS, PRODUCTS, SCALING_THREADS


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of the benchmark.

    Attributes:
      date: the date of the start.
      commit: the commit that last changed the op library or the package.
      threads: the number of threads of each library.
      options: what the command line said about what to measure.
      load_before: the load averages over 1, 5 and 15 minutes at the start.
      load_after: the load averages at the end.
      versions: the versions that each peer reports, by peer name.
      left_out: the missing packages of each skipped peer, by peer name.
      measurements: all times, and bytes of memory.
      failures: the peers that failed or gave wrong results.
      gpu: the name of the GPU.
      tf32: whether float32 products on the GPU use TF32.
    """

    date: str
    threads: int
    commit: str = ""
    options: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    load_before: Sequence[float] = (0.0, 0.0, 0.0)
    load_after: Sequence[float] = (0.0, 0.0, 0.0)
    versions: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    left_out: Mapping[str, Sequence[str]] = dataclasses.field(default_factory=dict)
    measurements: Sequence[Measurement] = ()
    failures: Sequence[Failure] = ()
    gpu: str = ""
    tf32: bool = False

    def replace(self, **fields: Any) -> "Run":
        """Returns the run with other fields."""
        return dataclasses.replace(self, **fields)

    def cases(self, section: str = MAIN) -> list[Case]:
        """Returns the cases of a section in the order of measurement."""
        return list(dict.fromkeys(each.case for each in self.measurements if each.section == section))

    def find(self, section: str, case: Case, peer: str, task: str) -> Measurement | None:
        """Returns a measurement, or None if it was not measured."""
        return self._index.get((section, case, peer, task))

    @functools.cached_property
    def _index(self) -> dict[tuple[str, Case, str, str], Measurement]:
        return {(each.section, each.case, each.peer, each.task): each for each in self.measurements}

    def limit(self, dtype: str) -> float | None:
        """Returns the median GFLOP/s of the fastest product of any size and peer, or None if none was measured."""
        products = [each for each in self.measurements if each.section == PRODUCTS and each.case.dtype == dtype]
        return max((each.gflops for each in products), default=None)

    def num_threads(self) -> list[int]:
        """Returns the numbers of threads in the sections `scaling`, in ascending order."""
        measured = {each.section for each in self.measurements}
        return [count for count, section in SCALING_THREADS.items() if section in measured]

    def disturbed(self) -> float:
        """Returns the share of disturbed samples."""
        others = [share for each in self.measurements for share in each.others]
        return sum(share > DISTURBANCE for share in others) / max(1, len(others))

    def write(self, path: pathlib.Path) -> None:
        """Writes all results. The write is atomic: an interruption leaves the previous file."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        fields["failures"] = [each._asdict() for each in self.failures]
        fields["measurements"] = [
            {
                **{field.name: getattr(each, field.name) for field in dataclasses.fields(each)},
                "case": each.case.name,
                "median": each.median,
                "speedup": speedup(each.task, each.peer)(self, each.section, each.case),
            }
            for each in self.measurements
        ]
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(fields, indent=1) + "\n")
        unfinished.replace(path)


def read(path: pathlib.Path) -> Run:
    """Returns the run that `Run.write` wrote."""
    data = json.loads(path.read_text())

    def measurement(each: dict[str, Any]) -> Measurement:
        fields = {field.name: each[field.name] for field in dataclasses.fields(Measurement)}
        return Measurement(**{**fields, "case": parse_case(each["case"])})

    measurements = [measurement(each) for each in data["measurements"]]
    failures = [Failure(**each) for each in data["failures"]]
    return Run(**{**data, "measurements": measurements, "failures": failures})


def merge(measurements: Sequence[Measurement]) -> list[Measurement]:
    """Joins the samples of measurements of the same section, case, peer and task."""
    merged: dict[tuple, Measurement] = {}
    for each in measurements:
        key = (each.section, each.case, each.peer, each.task)
        if (first := merged.get(key)) is not None:
            each = dataclasses.replace(
                each,
                samples=[*first.samples, *each.samples],
                others=[*first.others, *each.others],
                waits=[*first.waits, *each.waits],
            )
        merged[key] = each
    return list(merged.values())


# ---------------------------------------------------------------- figures

# Returns a figure of a case in a section, or None if a part of it was not measured.
Figure = Callable[[Run, str, Case], float | None]


def median(task: str, peer: str = OURS, section: str = "", unit: float = 1.0) -> Figure:
    """Returns the median time or memory of a peer, in a section other than the row's if given."""

    def figure(run: Run, row: str, case: Case) -> float | None:
        found = run.find(section or row, case, peer, task)
        return unit * found.median if found else None

    return figure


def wait(percent: float, task: str, peer: str = OURS, unit: float = 1e3, least: int = 1) -> Figure:
    """Returns a percentile of the times of at least `least` single calls, by default in milliseconds."""

    def figure(run: Run, row: str, case: Case) -> float | None:
        found = run.find(row, case, peer, task)
        return unit * found.wait(percent) if found and len(found.waits) >= least else None

    return figure


def gflops(task: str, peer: str = OURS) -> Figure:
    """Returns the median GFLOP/s of a peer."""
    return over(lambda _, __, case: case.flops(task) / 1e9, median(task, peer))


def over(dividend: Figure, divisor: Figure) -> Figure:
    """Returns the ratio of two figures."""

    def figure(run: Run, row: str, case: Case) -> float | None:
        above, below = dividend(run, row, case), divisor(run, row, case)
        return above / below if above is not None and below else None

    return figure


def speedup(task: str, *peers: str) -> Figure:
    """Returns the time of the fastest of those of some peers that were measured over ours: above 1, we are faster."""

    def fastest(run: Run, row: str, case: Case) -> float | None:
        times = [median(task, peer)(run, row, case) for peer in peers]
        return min((time for time in times if time is not None), default=None)

    return over(fastest, median(task))


def penalty_memory(peer: str) -> Figure:
    """Returns the memory of a step with a penalty over that of the same step without."""

    def without(run: Run, row: str, case: Case) -> float | None:
        return median(MEMORY, peer)(run, row, dataclasses.replace(case, kind="network"))

    return over(median(MEMORY, peer), without)


def share(task: str) -> Figure:
    """Returns our speed over that of the fastest matrix product."""
    return over(gflops(task), lambda run, _, case: run.limit(case.dtype))


def efficiency(task: str, threads: int, peer: str = OURS) -> Figure:
    """Returns a peer's speedup over one thread divided by the threads."""
    one, several = (median(task, peer, SCALING_THREADS[count]) for count in (1, threads))
    return over(one, lambda *row: None if (value := several(*row)) is None else threads * value)


def call_part(part: str) -> Figure:
    """Returns the µs of a part of our call of a model: an empty function, the ops, or the rest."""

    def figure(run: Run, row: str, case: Case) -> float | None:
        tasks = (FUNCTION, EMPTY_FUNCTION, OPS_ALONE)
        call, empty, repeated = (median(task, unit=1e6)(run, row, case) for task in tasks)
        if call is None or empty is None or repeated is None:
            return None
        ops = max(0.0, repeated - empty) / REPEATS
        return {"empty": empty, "ops": ops, "other": call - ops - empty}[part]

    return figure


def label(peer: str) -> str:
    """Returns a peer's name in tables."""
    return PEERS[peer].label
