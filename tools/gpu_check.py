"""Checks the GPU engine on a machine with a GPU and PyTorch. TensorFlow is not required.

    python tools/gpu_check.py run --output FOLDER
    python tools/gpu_check.py publish FOLDER

`run` runs families of checks, each in a separate process: parity of all kinds of networks with the float64 reference
and PyTorch, dropout, second derivatives, streams and threads, bad arguments, GRUBlockCell, timings compared with
PyTorch, a selection under compute-sanitizer, and golden data of cuDNN itself. It writes gpu_check.jsonl (all results,
one case at a time), summary.txt, cudnn.zip (golden data) and log.txt to the folder. The exit status is 0 if all checks
passed.

`publish` copies the results of a run into the repository: tests/golden and docs/design/gpu.md.

`run` starts `family` internally. tools/gpu_session.sh wraps `run` in a time limit.
"""

import argparse
import os
import pathlib
import signal
import sys

from gpu_checks import results, supervisor
from gpu_checks.families import FAMILIES

ROOT = pathlib.Path(__file__).resolve().parent.parent
ENGINE = "libtf_rnn_ops_gpu_engine.so"
# Default time limit of a run.
SECONDS = 520


def find_engine() -> pathlib.Path:
    """Returns the path of the engine: in the root folder (in a bundle) or in the build folder of make."""
    places = [ROOT / ENGINE, ROOT / "build/gpu-libraries" / ENGINE]
    return next((place for place in places if place.exists()), places[0])


def parse_arguments() -> argparse.Namespace:
    """Parses the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    shared = argparse.ArgumentParser(add_help=False)
    shared.add_argument("--engine", type=pathlib.Path, default=find_engine(), help=f"path of {ENGINE}")
    shared.add_argument("--fakes", type=pathlib.Path, help="folder with fake CUDA libraries, to run without a GPU")
    shared.add_argument("--quick", action="store_true", help="time small networks, a few rounds each")

    run = commands.add_parser("run", parents=[shared], help="run families of checks")
    run.add_argument("--output", type=pathlib.Path, default=pathlib.Path("gpu_results"), help="output folder")
    run.add_argument(
        "--families", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="FAMILY", help=" ".join(FAMILIES)
    )
    run.add_argument("--seconds", type=float, default=SECONDS, help="time limit of the run")

    family = commands.add_parser("family", parents=[shared], help="run one family in this process")
    family.add_argument("name")
    family.add_argument("function", help="module:function")
    family.add_argument("arguments", nargs="*")
    family.add_argument("--results", type=pathlib.Path, required=True)
    family.add_argument("--after", help="skip the cases up to and including this one")

    publish = commands.add_parser("publish", help="copy the results of a run into the repository")
    publish.add_argument("folder", type=pathlib.Path)
    return parser.parse_args()


def shared_options(settings: argparse.Namespace) -> list[str]:
    """Returns the options that `run` passes on to its families."""
    options = ["--engine", str(settings.engine.resolve())]
    if settings.fakes is not None:
        options += ["--fakes", str(settings.fakes.resolve())]
    return options + ["--quick"] * settings.quick


def run(settings: argparse.Namespace) -> bool:
    """Runs families, and returns whether all passed."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # so that the process of the family is killed
    environment = {}
    if settings.fakes is not None:
        paths = [str(settings.fakes.resolve()), os.environ.get("LD_LIBRARY_PATH", "")]
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, paths))
    families = {name: FAMILIES[name] for name in settings.families}
    try:
        report = supervisor.run(families, settings.output, shared_options(settings), environment, settings.seconds)
    except FileExistsError as error:
        sys.exit(str(error))
    print((settings.output / results.SUMMARY).read_text(), end="")
    return report.passed


def run_family(settings: argparse.Namespace) -> None:
    """Runs one family in this process."""
    from gpu_checks import family_process
    from gpu_checks.device import Cuda
    from gpu_checks.engine import Engine
    from gpu_checks.fake_device import Fakes
    from gpu_checks.outcome import Context

    device = Cuda() if settings.fakes is None else Fakes(settings.fakes)
    archive = settings.results.with_name(results.ARCHIVE)
    context = Context(Engine(settings.engine, device), archive, settings.quick)
    cases = family_process.find_cases(settings.function, settings.arguments, context)
    family_process.run(settings.name, cases, device, settings.results, settings.after)


def publish(settings: argparse.Namespace) -> None:
    """Publishes a run."""
    from gpu_checks.publish import publish as publish_folder

    for path in publish_folder(settings.folder):
        print(f"updated {path}")


def main() -> None:
    """Runs the command line."""
    settings = parse_arguments()
    if settings.command == "run":
        sys.exit(0 if run(settings) else 1)
    elif settings.command == "family":
        run_family(settings)
    else:
        publish(settings)


if __name__ == "__main__":
    main()
