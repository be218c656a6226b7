"""Compares the speed of the ops with other implementations of the same networks on the CPU.

The sections measure Keras models as users call them; networks in inference and training, GRUBlockCell and BlockLSTM;
time by sequence length and batch size; call overhead; memory of a training step; gradients of penalties; sharing the
machine with other work; served models, called from Python and in a C program; SavedModels that plain Keras wrote;
and, if asked for, 1, 2, 4, ... threads. Each library runs in its own process, and the libraries take turns. The
program prints a line for each measurement and writes results.json after each case, and results.md at the end. A
library that fails or gives wrong results is skipped for that case and listed under "failures".
docs/design/benchmarks.md explains the method and the options.
"""

import argparse
import os
import pathlib
import sys
from collections.abc import Mapping, Sequence

import program
import report
from cases import MEMORY, Case
from measure import Bench, Failure, Measurement, Peer, PeerError, Worker
from results import Run, read
from sections import (
    CALLS,
    GRAPHS,
    MAIN,
    MODELS,
    OURS,
    PEERS,
    PRODUCTS,
    REFERENCE,
    SCALING,
    SECTIONS,
    SERVING,
    Section,
)

OPTIONS = list(dict.fromkeys(section.option for section in SECTIONS.values()))
DEFAULT = [option for option in OPTIONS if option != SCALING]  # which is published from a machine with more CPUs
OTHERS = [name for name in PEERS if name != OURS]
ROUNDS = 6
LEAST_ROUNDS = 3
MEMORY_PROCESSES = 3  # measurements of memory, which differs between processes


def parse_arguments() -> argparse.Namespace:
    """Returns the command-line settings."""
    parser = program.parser(__doc__, OTHERS, ROUNDS, "build/bench")
    parser.add_argument(
        "--sections",
        type=program.names_of(OPTIONS),
        metavar="SECTION,...",
        help=f"sections to run: {', '.join(OPTIONS)} "
        f"(default: all but {SCALING}; with --cases: {MODELS}, {SERVING}, {GRAPHS} or {MAIN})",
    )
    num_cpus = len(os.sched_getaffinity(0))
    parser.add_argument(
        "--threads",
        type=program.positive,
        default=num_cpus,
        metavar="N",
        help="threads of each library (default: the number of CPUs, %(default)s)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the interrupted run in the output folder; give the same options",
    )
    parser.add_argument("--publish", action="store_true", help="also update the pages in docs and README.md")
    settings = program.parse(parser, ROUNDS)
    if not settings.sections:
        settings.sections = list(dict.fromkeys(map(option_of, settings.cases or ()))) or DEFAULT
    return settings


def option_of(case: Case) -> str:
    """Returns the section that measures a case by default."""
    kinds = {MODELS: case.is_model, SERVING: case.is_served, GRAPHS: case.is_exported}
    return next((section for section, is_one in kinds.items() if is_one), MAIN)


def cases_of(section: Section, settings: argparse.Namespace) -> Sequence[Case]:
    """Returns the cases of a section to measure."""
    cases = section.quick_cases if settings.quick else section.cases
    if not settings.cases:
        return cases
    if section.name == CALLS:
        return []
    if section.name == PRODUCTS:
        return [case for case in cases if case.dtype in {each.dtype for each in settings.cases}]
    kinds = {option_of(case) for case in cases}
    return [case for case in settings.cases if option_of(case) in kinds]


def missing_cases(section: Section, settings: argparse.Namespace, run: Run) -> list[Case]:
    """Returns the cases of a section that a run has not measured yet."""
    measured = run.cases(section.name)
    return [case for case in cases_of(section, settings) if case not in measured]


def run_benchmark(settings: argparse.Namespace) -> Run:
    """Runs the selected sections, prints the measurements, writes them after each case, and returns the run."""
    cases = [case.name for case in settings.cases or ()]
    options = {"quick": settings.quick, "rounds": settings.rounds, "peers": settings.peers, "cases": cases}
    peers, run = program.begin(
        [PEERS[name] for name in (OURS, *settings.peers)], threads=settings.threads, options=options
    )
    path, log = settings.output / "results.json", settings.output / "libraries.log"
    if settings.resume:
        run = resumed(path, run)
    sections = [each for each in SECTIONS.values() if each.option in settings.sections]

    # Sections with the same processes. Served models have their own: most peers serve models only.
    groups: dict[tuple[int, bool], list[Section]] = {}
    for section in sections:
        threads = section.num_threads or section.threads_per_cpu * settings.threads
        if section.name == MEMORY:
            run = measure_memory(section, settings, peers, run, path)
        elif section.num_threads <= settings.threads and missing_cases(section, settings, run):
            groups.setdefault((threads, section.cases[0].is_served), []).append(section)
    for (threads, _), together in groups.items():
        taking_part = [peer for peer in peers if any(peer.name in section.peers for section in together)]
        with Bench(taking_part, REFERENCE, threads, log) as bench:
            run = with_versions(run, bench.versions)
            for section in together:
                rounds = min(settings.rounds, max(LEAST_ROUNDS, settings.rounds // section.rounds_divisor))
                load = section.quick_load if settings.quick else section.load
                missing = missing_cases(section, settings, run)
                run = program.measure_section(bench, run, path, section, missing, rounds, load)
    return run


def resumed(path: pathlib.Path, run: Run) -> Run:
    """Returns the run in a file if its conditions are those of a new run. Ends the program if they differ."""
    if not path.exists():
        sys.exit(f"cannot resume: there is no {path}")
    earlier = read(path)
    for what in ("commit", "threads", "options", "left_out"):
        check_same(what, getattr(earlier, what), getattr(run, what))
    return earlier


def with_versions(run: Run, versions: Mapping[str, Mapping[str, str]]) -> Run:
    """Returns a run with the versions that peers report. Ends the program if an interrupted run had others."""
    for name in versions.keys() & run.versions.keys():
        check_same(f"versions of {PEERS[name].label}", run.versions[name], versions[name])
    return run.replace(versions={**versions, **run.versions})


def check_same(what: str, earlier: object, now: object) -> None:
    """Ends the program if the conditions of an interrupted run have changed."""
    if earlier != now:
        sys.exit(f"cannot resume: {what}: {earlier} when the run was interrupted, {now} now")


def measure_memory(
    section: Section, settings: argparse.Namespace, peers: Sequence[Peer], run: Run, path: pathlib.Path
) -> Run:
    """Measures each peer in each case, each time in a new process. One that runs out of memory may end."""
    print(f"\n{section.title}, MiB")
    for case in cases_of(section, settings):
        for peer in (each for each in peers if each.name in section.peers):
            found = run.find(MEMORY, case, peer.name, MEMORY)
            for _ in range(len(found.samples) if found else 0, 1 if settings.quick else MEMORY_PROCESSES):
                measured, failures = [], []
                with Worker(peer, settings.threads, settings.output / "libraries.log") as worker:
                    try:
                        run = with_versions(run, {peer.name: worker.request("versions")})
                        before, peak = worker.request("step_memory", case)
                    except PeerError as error:
                        failures = [Failure(MEMORY, case.name, peer.name, str(error))]
                    else:
                        measured = [Measurement(MEMORY, case, peer.name, MEMORY, [peak - before])]
                run = program.add(run, measured, failures, path)
                if failures:
                    break
    return run


def main() -> None:
    """Measures, prints and writes the results. The exit status is 1 if tf_rnn_ops failed."""
    program.use_cpus()
    settings = parse_arguments()
    settings.output.mkdir(parents=True, exist_ok=True)
    run = run_benchmark(settings)
    print(f"\nload average {run.load_before[0]:.2f} before, {run.load_after[0]:.2f} after; ", end="")
    print(f"{run.disturbed():.0%} of the samples were disturbed by other processes")
    (settings.output / "results.md").write_text(report.to_markdown(run))
    print(f"wrote results.json and results.md to {settings.output.resolve()}")
    if settings.publish:
        for page in report.publish(run, report.DOCS):
            print(f"updated {page}")
    program.exit_if_ours_failed(run)


if __name__ == "__main__":
    main()
