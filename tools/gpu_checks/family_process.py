"""The process of one family: runs its cases and writes each result immediately."""

import faulthandler
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable

from gpu_checks import results
from gpu_checks.device import Device, DeviceLostError
from gpu_checks.outcome import Cases, Context, Outcome

# Time limit of a case, in seconds. The first case of a process loads libraries and kernels; memcheck makes this slow.
CASE_SECONDS = float(os.environ.get("GPU_CHECK_CASE_SECONDS", "60"))


def find_cases(function: str, arguments: list[str], context: Context) -> Cases:
    """Returns the cases of a family.

    Args:
      function: see Family.
      arguments: see Family.
      context: passed to the function.
    """
    module, name = function.split(":")
    return getattr(importlib.import_module(module), name)(*arguments, context)


def run(family: str, cases: Cases, device: Device, path, after: str | None) -> None:
    """Runs cases and adds their results to a file.

    Args:
      family: name of the family.
      cases: its cases.
      device: the device to run on.
      path: file for the results.
      after: skip the cases up to and including this one; None to run all.
    """
    faulthandler.enable()
    seen: set[str] = set()
    for name, check in cases:
        if name in seen:
            raise ValueError(f"{family} has two cases named {name}")
        seen.add(name)
        if after is None:
            _run_case(family, name, check, device, path)
        elif name == after:
            after = None


def _run_case(family, name, check, device, path):
    results.add_case(path, family, results.CaseResult(name, results.STARTED))
    begin = time.monotonic()
    faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)  # the supervisor continues with the next case
    outcome, is_lost = _attempt(check, device)
    faulthandler.cancel_dump_traceback_later()
    status = results.FAILED if outcome.problems else results.SKIPPED if outcome.skipped else results.PASSED
    seconds = time.monotonic() - begin
    case = results.CaseResult(name, status, seconds, outcome.measured, outcome.problems, outcome.skipped)
    results.add_case(path, family, case)
    if is_lost:
        sys.exit(results.DEVICE_LOST)


def _attempt(check: Callable[[], Outcome], device: Device) -> tuple[Outcome, bool]:
    """Returns the outcome of a check, and whether the device is lost."""
    try:
        outcome = check()
    except Exception as error:  # any kind: the other cases must still run
        traceback.print_exc()
        outcome = Outcome(problems=[f"{type(error).__name__}: {error}"])
    try:
        device.synchronize()
    except DeviceLostError as error:
        outcome.problems.append(f"the device is lost: {error}")
        return outcome, True
    outcome.problems += device.take_misuses()
    return outcome, False
