"""Runs many pieces of code that each need a fresh process, without the time that TensorFlow's import takes in each."""

import dataclasses
import json
import textwrap

import processes

_DRIVER = """
import json, os, pathlib, signal, sys, traceback
import keras, tensorflow

def run(code, file):
    os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    signal.alarm(60)
    status = 1
    try:
        exec(code, {"__name__": "__main__"})
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)

codes, file = json.loads(pathlib.Path(sys.argv[1]).read_text()), sys.argv[1] + ".output"
results = {}
for name, code in codes.items():
    child = os.fork()
    if child == 0:
        run(code, file)
    _, status = os.waitpid(child, 0)
    results[name] = os.waitstatus_to_exitcode(status), pathlib.Path(file).read_text(errors="replace")
print(json.dumps(results))
"""


@dataclasses.dataclass(frozen=True)
class Ended:
    """How a piece of code ended: its process's status, negative for a signal, and what it printed."""

    status: int
    output: str

    @property
    def last_line(self) -> str:
        """Of an error, what it says."""
        return self.output.strip().splitlines()[-1]


def run_codes(folder, codes, prefix=(), **environment):
    """Runs each code in a child of a process that has imported TensorFlow and Keras and nothing of ours.

    Args:
      folder: for files of its own.
      codes: from names to Python code.
      prefix: a program, with its arguments, that starts the process.
      **environment: variables for the process.

    Returns:
      From names to `Ended`.
    """
    file = folder / "codes.json"
    file.write_text(json.dumps({str(name): textwrap.dedent(code) for name, code in codes.items()}))
    printed = processes.run_code(_DRIVER, str(file), prefix=prefix, **environment)
    ended = json.loads(printed.splitlines()[-1])
    return {name: Ended(*ended[str(name)]) for name in codes}
