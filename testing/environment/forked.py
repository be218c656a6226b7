"""Runs many pieces of code in separate processes that share the import of TensorFlow."""

import dataclasses
import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap

from environment import processes

# Seconds for one piece of code. Long enough for a busy machine.
TIMEOUT = 300

# The program `python -m tf_rnn_ops`.
COMMAND = "import runpy; runpy.run_module('tf_rnn_ops', run_name='__main__')"

# Reads a line of JSON for each piece of code, and prints its exit status, negative for a signal.
_SERVER = """
import json, os, signal, sys, traceback
import keras, tensorflow

def run(code, arguments, environment, folder):
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        os.dup2(os.open(os.path.join(folder, name), os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.environ.update(environment)
    sys.path[:0] = filter(None, environment.get("PYTHONPATH", "").split(os.pathsep))
    sys.argv = ["-c", *arguments]
    signal.alarm(int(timeout))
    status = 1
    try:
        exec(code, {"__name__": "__main__"})
        status = 0
    except SystemExit as ended:
        status = ended.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status if isinstance(status, int) else 1)

timeout = sys.argv[1]
for line in sys.stdin:
    child = os.fork()
    if child == 0:
        run(*json.loads(line))
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@dataclasses.dataclass(frozen=True)
class Ended:
    """The result of a piece of code: exit status, negative for a signal, and what it wrote to stdout and stderr."""

    status: int
    printed: str
    errors: str = ""

    @property
    def output(self) -> str:
        """What it wrote to stdout, then what it wrote to stderr."""
        return self.printed + self.errors

    @property
    def last_line(self) -> str:
        """The last line that it printed; after an error, the message."""
        return (self.errors if self.status else self.printed).strip().splitlines()[-1]


@functools.cache
def _server(prefix):
    """Starts a process that runs code in forks, until this process ends."""
    return subprocess.Popen(
        [*prefix, sys.executable, "-c", _SERVER, str(TIMEOUT)],
        cwd="/",
        env=processes.environment(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def run(code, *arguments, prefix=(), **environment) -> Ended:
    """Runs Python code in a fork of a process that has imported TensorFlow and Keras, but not tf_rnn_ops.

    TensorFlow does not see environment variables that it reads when it is imported.

    Args:
      code: Python code.
      *arguments: arguments of the program.
      prefix: a program with arguments that starts the process.
      **environment: environment variables.
    """
    server = _server(prefix)
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder).chmod(0o777)
        print(json.dumps([textwrap.dedent(code), arguments, environment, folder]), file=server.stdin, flush=True)
        status = server.stdout.readline()
        assert status, "the process that runs code in forks has ended"
        outputs = [(pathlib.Path(folder) / name).read_text(errors="replace") for name in ("stdout", "stderr")]
    return Ended(int(status), *outputs)


def run_code(code, *arguments, **environment):
    """Like `run`, but asserts success and returns what the code printed."""
    ended = run(code, *arguments, **environment)
    assert ended.status == 0, ended.printed[-2000:] + ended.errors[-2000:]
    return ended.printed


def run_codes(codes, **options):
    """Like `run` for several pieces of code, by name. Returns the results by name."""
    return {name: run(code, **options) for name, code in codes.items()}
