"""Compares the speed of the installed package with that of another revision, in turns in one pair of processes.

A task is slower if a t-test of the samples says p <= 0.05, and the median or the minimum differs by at least 10%. The
exit status is 1 if a task is slower. Inference of one sequence is also measured with several threads that call at once.
`make compare BASE=revision` builds the other package, and runs this program.
"""

import argparse
import os
import pathlib
import sys
from collections.abc import Sequence

import numpy as np
import program
from cases import (
    BACKWARD,
    FORWARD,
    FORWARD_BACKWARD,
    FROZEN,
    FUNCTION,
    PENALTY,
    SIGNATURE,
    TRAIN_ON_BATCH,
    Case,
)
from measure import QUIET, Bench, Load, Measurement
from scipy import stats
from sections import OURS, OURS_PACKED, PEERS, REFERENCE

CASES = (
    "lstm-1-100-128-256 lstm-32-100-128-256 gru-1-100-128-256 gru-32-100-128-256 tanh-32-100-128-256 "
    "lstm-32-100-128-256-2layers-bidirectional lstm-32-100-128-256-varying penalty-lstm-32-20-128-256 "
    "gru_block_cell-32-128-256 block_lstm-32-100-128-256 lstm-1-1-1-1 model-lstm-1-60-32-96 "
    "model-gru-48-60-40-256-2layers served-lstm-1-10-64-96 served-lstm-1-50-64-512 served-gru-8-1-64-256"
)
TASKS = (FORWARD, FORWARD_BACKWARD, BACKWARD, PENALTY, FUNCTION, TRAIN_ON_BATCH, SIGNATURE, FROZEN)
TASKS_OF_CLIENTS = (FORWARD, FUNCTION, SIGNATURE, FROZEN)
CLIENTS = Load(seconds=0.3, clients=4)
ROUNDS = 10
MOST_P = 0.05
LEAST_CHANGE = 1.1
_LINE = "{:<56}  {:<32}  {:>9}  {:>9}  {:>6}  {:>6}  {}"


def verdict(base: Sequence[float], now: Sequence[float]) -> tuple[float, str]:
    """Returns the p-value of a test that two series of times have the same mean, and a word for the second.

    It is "slower", "faster" or "".
    """
    p = float(stats.ttest_ind(base, now, equal_var=False).pvalue)
    is_slower = np.mean(now) > np.mean(base)
    fast, slow = (base, now) if is_slower else (now, base)
    differs = any(statistic(slow) >= LEAST_CHANGE * statistic(fast) for statistic in (np.median, np.min))
    return p, ("slower" if is_slower else "faster") if p <= MOST_P and differs else ""


def compare(folder: str, cases: Sequence[Case], rounds: int, log: pathlib.Path) -> list[str]:
    """Measures and prints all tasks of cases, and returns the slower ones.

    Args:
      folder: the folder with the other package.
      cases: the cases.
      rounds: the number of samples.
      log: the file for messages of the processes.
    """
    slower = []
    print(_LINE.format("case", "task", "base, ms", "now, ms", "ratio", "p", ""))
    # Served models have packed weights.
    for peer, is_served in ((PEERS[OURS], False), (PEERS[OURS_PACKED], True)):
        peers = [peer._replace(name="base", label="base", folder=folder), peer._replace(name="now")]
        chosen = [case for case in cases if case.is_served == is_served]
        if not chosen:
            continue
        with Bench(peers, REFERENCE, len(os.sched_getaffinity(0)), log) as bench:
            for case in chosen:
                of_clients = [(CLIENTS, TASKS_OF_CLIENTS, f", {CLIENTS.clients} threads")] if case.batch == 1 else []
                for load, tasks, words in ((QUIET, TASKS, ""), *of_clients):
                    measured, failures = bench.measure("compare", case, ["base", "now"], rounds, tasks, load)
                    if failures:
                        sys.exit(f"{case.name}: {failures[0].message}")
                    slower += _judge(case, measured, words)
    return slower


def _judge(case: Case, measured: Sequence[Measurement], words: str) -> list[str]:
    """Prints the tasks of a case, with words that say under which load, and returns the slower ones."""
    times = {(each.task, each.peer): each.samples for each in measured}
    slower = []
    for task in dict.fromkeys(each.task for each in measured):
        base, now = times[task, "base"], times[task, "now"]
        p, word = verdict(base, now)
        before, after = 1e3 * np.median(base), 1e3 * np.median(now)
        figures = [f"{before:.3g}", f"{after:.3g}", f"{before / after:.2f}", f"{p:.2f}"]
        print(_LINE.format(case.title[:56], f"{task}{words}", *figures, word), flush=True)
        slower += [f"{case.name}, {task}{words}"] if word == "slower" else []
    return slower


def main() -> None:
    """Compares, and ends with the exit status 1 if a task is slower."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="the folder with the other package")
    parser.add_argument("--cases", type=program.parsed_cases, default=CASES, help="cases instead of the default ones")
    parser.add_argument("--rounds", type=program.positive, default=ROUNDS, help="samples of each task (%(default)s)")
    settings = parser.parse_args()
    program.use_cpus()
    slower = compare(settings.folder, settings.cases, settings.rounds, pathlib.Path("build/compare.log"))
    if slower:
        sys.exit(f"slower than the base: {'; '.join(slower)}")


if __name__ == "__main__":
    main()
