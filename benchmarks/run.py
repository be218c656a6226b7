"""A run of the benchmark: its measurements, and figures derived from them."""

import dataclasses
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cases import (
    EMPTY_FUNCTION,
    FORWARD_BACKWARD,
    FUNCTION,
    OPS_ALONE,
    PENALTY,
    Case,
    Model,
    PenalizedNetwork,
    Product,
    parse_case,
)
from measure import DISTURBANCE, Measurement
from memory import StepMemory
from peers import OURS, PEERS
from sections import MAIN, MODELS, SECOND_ORDER, scaling


@dataclasses.dataclass(frozen=True)
class MemoryMeasurement:
    """The memory of a peer's training step.

    Attributes:
      case: the network.
      peer: the peer's name in `PEERS`.
      memory: the measured memory.
    """

    case: Case
    peer: str
    memory: StepMemory


@dataclasses.dataclass(frozen=True)
class Run:
    """One run of the benchmark.

    Attributes:
      date: the date of the start.
      rounds: the number of samples of each measurement of the main section.
      threads: the number of threads of each library.
      has_amx: whether the CPU has AMX for bfloat16.
      load_before: the load averages over 1, 5 and 15 minutes at the start.
      load_after: the load averages at the end.
      versions: the versions that each peer reports, by peer name.
      left_out: the missing packages of each skipped peer, by peer name.
      measurements: all times.
      memory: all memory measurements.
    """

    date: str
    rounds: int
    threads: int
    has_amx: bool
    load_before: Sequence[float]
    load_after: Sequence[float]
    versions: Mapping[str, Mapping[str, str]]
    left_out: Mapping[str, Sequence[str]]
    measurements: Sequence[Measurement]
    memory: Sequence[MemoryMeasurement]

    def of_section(self, section: str) -> list[Measurement]:
        """Returns the measurements of a section; of the main section without its matrix products."""
        own = [each for each in self.measurements if each.section == section]
        return [each for each in own if section != MAIN or not isinstance(each.case, Product)]

    def cases(self, section: str = MAIN) -> list[Case]:
        """Returns the cases of a section in the order of measurement."""
        return list(dict.fromkeys(each.case for each in self.of_section(section)))

    def peers(self, section: str = MAIN) -> list[str]:
        """Returns the names of the peers of a section, in the order of `PEERS`."""
        names = {each.peer for each in self.of_section(section)}
        return [name for name in PEERS if name in names]

    def find(self, case: Case, peer: str, task: str, section: str = MAIN) -> Measurement | None:
        """Returns a measurement, or None if it was not measured."""
        wanted = (section, case, peer, task)
        return next((each for each in self.measurements if _key(each) == wanted), None)

    def products(self, dtype: str) -> list[Measurement]:
        """Returns the measurements of the matrix products of a dtype in the main section."""
        own = [each for each in self.measurements if each.section == MAIN]
        return [each for each in own if isinstance(each.case, Product) and each.case.dtype == dtype]

    def limit(self, dtype: str) -> float | None:
        """Returns the median GFLOP/s of the fastest product of any size and peer, or None if none was measured."""
        return max((each.gflops[1] for each in self.products(dtype)), default=None)

    def share(self, case: Case, peer: str, task: str) -> float | None:
        """Returns a peer's speed divided by the limit, or None if it was not measured."""
        measurement, limit = self.find(case, peer, task), self.limit(case.dtype)
        return measurement.gflops[1] / limit if measurement and limit else None

    def ratio(self, case: Case, task: str, peers: Iterable[str], section: str = MAIN, own: str = OURS) -> float | None:
        """Returns the speedup of `own` over the fastest of the peers, or None if it was not measured."""
        ours = self.find(case, own, task, section)
        theirs = [found for peer in peers if (found := self.find(case, peer, task, section))]
        return min(each.quartiles[1] for each in theirs) / ours.quartiles[1] if ours and theirs else None

    def num_threads(self) -> list[int]:
        """Returns the numbers of threads of the scaling benchmark, in ascending order."""
        prefix = scaling("")
        names = {each.section for each in self.measurements if each.section.startswith(prefix)}
        return sorted(int(name.removeprefix(prefix)) for name in names)

    def efficiency(self, case: Case, task: str, threads: int, peer: str = OURS) -> float | None:
        """Returns a peer's speedup over one thread divided by the threads, or None if it was not measured."""
        one, several = (self.seconds(case, peer, task, scaling(count)) for count in (1, threads))
        return one / several / threads if one is not None and several is not None else None

    def seconds(self, case: Case, peer: str, task: str, section: str = MAIN) -> float | None:
        """Returns the median seconds of a call, or None if it was not measured."""
        measurement = self.find(case, peer, task, section)
        return measurement.quartiles[1] if measurement else None

    def ops_seconds(self, case: Case) -> float | None:
        """Returns the seconds of the ops of a model's recurrent layers alone, or None if not measured."""
        repeated = self.seconds(case, OURS, OPS_ALONE, MODELS)
        empty = self.seconds(case, OURS, EMPTY_FUNCTION, MODELS)
        if not isinstance(case, Model) or repeated is None or empty is None:
            return None
        return max(0.0, repeated - empty) / case.repeats

    def model_overhead(self, case: Case) -> float | None:
        """Returns the seconds of a call of a model beyond the ops and an empty function, or None if not measured."""
        call, ops = self.seconds(case, OURS, FUNCTION, MODELS), self.ops_seconds(case)
        empty = self.seconds(case, OURS, EMPTY_FUNCTION, MODELS)
        return None if call is None or ops is None or empty is None else call - ops - empty

    def penalty_cost(self, case: Case, peer: str) -> float | None:
        """Returns the time of a peer's penalty gradient over that of its plain step, or None if not measured."""
        penalty = self.find(case, peer, PENALTY, SECOND_ORDER)
        plain = self.find(case, peer, FORWARD_BACKWARD, SECOND_ORDER)
        return penalty.quartiles[1] / plain.quartiles[1] if penalty and plain else None

    def penalty_memory(self, case: Case, peer: str) -> float | None:
        """Returns the memory of a step with a penalty over that of the plain step, or None if not measured."""
        if not isinstance(case, PenalizedNetwork):
            return None
        penalty, plain = self.step_bytes(case, peer), self.step_bytes(case.plain, peer)
        return penalty / plain if penalty is not None and plain is not None else None

    def disturbed(self) -> float:
        """Returns the share of disturbed samples."""
        others = [share for each in self.measurements for share in each.others]
        return sum(share > DISTURBANCE for share in others) / max(1, len(others))

    def memory_cases(self) -> list[Case]:
        """Returns the networks whose memory was measured."""
        return list(dict.fromkeys(each.case for each in self.memory))

    def step_bytes(self, case: Case, peer: str) -> int | None:
        """Returns the median bytes of a peer's training step, or None if it was not measured."""
        found = [each.memory.step for each in self.memory if (each.case, each.peer) == (case, peer)]
        return round(statistics.median(found)) if found else None

    def memory_ratio(self, case: Case, peer: str) -> float | None:
        """Returns the memory of our training step over that of a peer, or None if it was not measured."""
        ours, theirs = self.step_bytes(case, OURS), self.step_bytes(case, peer)
        return ours / theirs if ours is not None and theirs else None


def _key(measurement: Measurement) -> tuple[str, Case, str, str]:
    return (measurement.section, measurement.case, measurement.peer, measurement.task)


def join(runs: Sequence[Run]) -> Run:
    """Joins runs of different sections; date, versions and other conditions are those of the first run."""
    measurements = [each for run in runs for each in run.measurements]
    return dataclasses.replace(runs[0], measurements=measurements, memory=[each for run in runs for each in run.memory])


def to_json(run: Run) -> dict[str, Any]:
    """Returns a run as JSON types; the inverse of `from_json`."""
    fields = {field.name: getattr(run, field.name) for field in dataclasses.fields(run)}
    limits = {dtype: run.limit(dtype) for dtype in ("float32", "bfloat16")}
    return {
        **fields,
        "limit_gflops": limits,
        "measurements": [_measurement_to_json(each, run) for each in run.measurements],
        "memory": [
            {
                "case": each.case.name,
                "peer": each.peer,
                "baseline_bytes": each.memory.baseline,
                "peak_bytes": each.memory.peak,
            }
            for each in run.memory
        ],
    }


def _measurement_to_json(measurement: Measurement, run: Run) -> dict[str, Any]:
    names = ("lower_quartile", "median", "upper_quartile")
    return {
        "section": measurement.section,
        "case": measurement.case.name,
        "peer": measurement.peer,
        "task": measurement.task,
        "flops": measurement.case.flops(measurement.task),
        "seconds": {**dict(zip(names, measurement.quartiles, strict=True)), "samples": list(measurement.seconds)},
        "gflops": dict(zip(names, measurement.gflops, strict=True)),
        "ratio": run.ratio(measurement.case, measurement.task, [measurement.peer], measurement.section),
        "error": measurement.error,
        "others": list(measurement.others),
        "waits": list(measurement.waits),
    }


def from_json(data: Mapping[str, Any]) -> Run:
    """Returns the run that `to_json` encoded."""
    fields = {field.name: data[field.name] for field in dataclasses.fields(Run)}
    measurements = [
        Measurement(
            each["section"],
            parse_case(each["case"]),
            each["peer"],
            each["task"],
            each["seconds"]["samples"],
            each["error"],
            each["others"],
            each["waits"],
        )
        for each in data["measurements"]
    ]
    memory = [
        MemoryMeasurement(
            parse_case(each["case"]), each["peer"], StepMemory(each["baseline_bytes"], each["peak_bytes"])
        )
        for each in data["memory"]
    ]
    return Run(**{**fields, "measurements": measurements, "memory": memory})
