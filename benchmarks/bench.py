"""Compares the speed of the ops with other implementations of the same networks on the CPU.

The sections measure Keras models as users call them; networks in inference and training, and GRUBlockCell; time by
sequence length and batch size; call overhead; memory of a training step; gradients of penalties; and sharing the
machine with other work. Each library runs in its own process, and the libraries take turns. The program prints a line
for each measurement and writes results.json, results.md, results.png and models.png. docs/design/benchmarks.md explains
the method and the options.
"""

import argparse
import datetime
import importlib.util
import json
import os
import pathlib
from collections.abc import Collection, Mapping, Sequence

# For the libraries' processes, which must not use a GPU.
os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["KERAS_BACKEND"] = "tensorflow"

from cases import Case, Model, Product
from measure import Bench, Measurement, merge
from options import QUICK_ROUNDS, add_common, cases, names_of, positive
from peers import OTHERS, OURS, PEERS, REFERENCE, find_available
from report import LineTable, print_memory, targets_to_text, to_markdown
from run import MemoryMeasurement, Run, to_json
from sections import MAIN, MEMORY, MODELS, PRODUCT_DTYPES, PRODUCT_SIZES, QUICK_PRODUCT_SIZES, SECTIONS, Section
from targets import judge_measured
from workers import Worker, WorkerError

OPTIONS = list(dict.fromkeys(section.option for section in SECTIONS.values()))
ROUNDS = 12
LEAST_ROUNDS = 3
MEMORY_PROCESSES = 3  # measurements of memory, which differs between processes


def parse_arguments() -> argparse.Namespace:
    """Returns the command-line settings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sections",
        type=names_of(OPTIONS),
        metavar="SECTION,...",
        help=f"sections to run: {', '.join(OPTIONS)} (default: all; with --cases: {MODELS} or {MAIN})",
    )
    parser.add_argument(
        "--cases",
        type=cases,
        metavar="CASE,...",
        help="cases to measure instead of the default ones, such as lstm-32-100-128-256 (cell, batch, time, input, "
        "units), gru-8-20-64-64-2layers-bidirectional-varying-bfloat16, gru_block_cell-1-128-256 or "
        "model-lstm-16-200-24-64",
    )
    add_common(parser, OTHERS, ROUNDS)
    parser.add_argument(
        "--threads",
        type=positive,
        default=len(os.sched_getaffinity(0)),
        metavar="N",
        help="threads of each library (default: the number of CPUs, %(default)s)",
    )
    parser.add_argument(
        "--publish",
        action="store_true",
        help="also write the results into docs/performance.md and README.md, as publish.py does",
    )
    settings = parser.parse_args()
    if not settings.sections:
        of_cases = (MODELS if isinstance(case, Model) else MAIN for case in settings.cases or ())
        settings.sections = list(dict.fromkeys(of_cases)) or OPTIONS
    settings.rounds = settings.rounds or (QUICK_ROUNDS if settings.quick else ROUNDS)
    return settings


def run_benchmark(settings: argparse.Namespace) -> Run:
    """Runs the selected sections, prints the measurements, and returns the run."""
    date, load_before = datetime.date.today().isoformat(), os.getloadavg()
    others, left_out = find_available([PEERS[name] for name in settings.peers])
    peers = [OURS, *(peer.name for peer in others)]
    log = settings.output / "libraries.log"
    memory = _measure_memory(settings, peers, log) if MEMORY in settings.sections else []
    measurements: list[Measurement] = []
    versions: Mapping[str, Mapping[str, str]] = {}
    for factor, sections in _by_threads_per_cpu(settings).items():
        taking_part = [PEERS[name] for name in peers if any(name in section.peers for section in sections)]
        with Bench(taking_part, REFERENCE, factor * settings.threads, log) as bench:
            versions = {**bench.versions, **versions}
            measurements += [each for section in sections for each in _time(section, bench, settings)]
    return Run(
        date=date,
        rounds=settings.rounds,
        threads=settings.threads,
        has_amx="amx_bf16" in _cpu_flags(),
        load_before=load_before,
        load_after=os.getloadavg(),
        versions=versions,
        left_out=left_out,
        measurements=merge(measurements),
        memory=memory,
    )


def _by_threads_per_cpu(settings: argparse.Namespace) -> Mapping[int, Sequence[Section]]:
    """Returns the sections to time, by threads per CPU of the libraries' processes."""
    timed = [each for each in SECTIONS.values() if each.option in settings.sections and each.name != MEMORY]
    factors = dict.fromkeys(section.load.threads_per_cpu for section in timed)
    return {factor: [each for each in timed if each.load.threads_per_cpu == factor] for factor in factors}


def _cases_of(section: Section, settings: argparse.Namespace) -> Sequence[Case]:
    if settings.cases:
        return [case for case in settings.cases if isinstance(case, Model) == (section.option == MODELS)]
    return section.quick_cases if settings.quick else section.cases


def _measure_memory(settings: argparse.Namespace, peers: Collection[str], log: pathlib.Path) -> list[MemoryMeasurement]:
    """Measures each peer in each case, each time in a new process.

    A process that ends, for example because it runs out of memory, is skipped.
    """
    section = SECTIONS[MEMORY]
    print(f"\n{section.title}")
    names = [name for name in section.peers if name in peers]
    measured = []
    for case in _cases_of(section, settings):
        for name in names * (1 if settings.quick else MEMORY_PROCESSES):
            with Worker(PEERS[name], settings.threads, log) as worker:
                try:
                    memory = worker.step_memory(case)
                except WorkerError as error:
                    print(f"{case.title}  not measured: {error}", flush=True)
                    continue
            measured.append(MemoryMeasurement(case, name, memory))
            print_memory(measured[-1])
    return measured


def _time(section: Section, bench: Bench, settings: argparse.Namespace) -> list[Measurement]:
    """Times all cases of a section."""
    chosen = _cases_of(section, settings)
    rounds = settings.rounds
    if section.rounds_divisor > 1:
        rounds = min(rounds, max(LEAST_ROUNDS, rounds // section.rounds_divisor))
    print(f"\n{section.title}")
    table = LineTable(chosen)
    sizes = QUICK_PRODUCT_SIZES if settings.quick else PRODUCT_SIZES
    dtypes = (
        [dtype for dtype in PRODUCT_DTYPES if any(case.dtype == dtype for case in chosen)]
        if section.name == MAIN
        else []
    )
    products = [turn for dtype in dtypes for size in sizes for turn in bench.prepare(Product(size, dtype), list(PEERS))]
    measurements = []
    for case in chosen:
        limits = [turn for turn in products if turn.case.dtype == case.dtype]
        load = section.quick_load if settings.quick else section.load
        of_case = bench.measure(section.name, case, section.peers, rounds, limits, section.tasks, load)
        table.print_case([each for each in of_case if each.case == case])
        measurements += of_case
    return measurements


def _cpu_flags() -> Collection[str]:
    """Returns the words of /proc/cpuinfo, which include the CPU's features."""
    try:
        return pathlib.Path("/proc/cpuinfo").read_text().split()
    except OSError:
        return []


def write(run: Run, folder: pathlib.Path) -> None:
    """Writes the result files and prints their location."""
    (folder / "results.json").write_text(json.dumps(to_json(run), indent=1) + "\n")
    (folder / "results.md").write_text(to_markdown(run))
    written = ["results.json", "results.md"]
    if importlib.util.find_spec("matplotlib"):
        import picture

        pictures = {"results.png": picture.draw, "models.png": picture.draw_models}
        written += [name for name, draw in pictures.items() if draw(run, folder / name)]
    else:
        print("skipping the charts: matplotlib is not installed")
    print(f"wrote {', '.join(written)} to {folder.resolve()}")


def main() -> None:
    """Measures, prints and writes the results."""
    settings = parse_arguments()
    settings.output.mkdir(parents=True, exist_ok=True)
    run = run_benchmark(settings)
    print(f"\n{targets_to_text(judge_measured(run))}\n")
    print(f"load average {run.load_before[0]:.2f} before, {run.load_after[0]:.2f} after; ", end="")
    print(f"{run.disturbed():.0%} of the samples were disturbed by other processes")
    write(run, settings.output)
    if settings.publish:
        import publish

        for page in publish.publish(run, publish.DOCS):
            print(f"updated {page}")


if __name__ == "__main__":
    main()
