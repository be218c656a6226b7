"""Runs many pieces of code in separate processes that share the import of TensorFlow."""

import dataclasses
import json
import textwrap

from environment import processes

# Seconds for one piece of code. Long enough for a busy machine.
TIMEOUT = 300

_DRIVER = """
import json, os, pathlib, signal, sys, traceback
import keras, tensorflow

def run(code, file):
    os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 1)
    os.dup2(1, 2)
    signal.alarm(int(sys.argv[2]))
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
    """The result of a piece of code: exit status, negative for a signal, and output."""

    status: int
    output: str

    @property
    def last_line(self) -> str:
        """The last line of the output: for an error, its message."""
        return self.output.strip().splitlines()[-1]


def run_codes(folder, codes, prefix=(), **environment):
    """Runs each piece of code in a fork of a process that has imported TensorFlow and Keras, but not tf_rnn_ops.

    Args:
      folder: folder for temporary files.
      codes: Python code by name.
      prefix: a program with arguments that starts the process.
      **environment: environment variables of the process.

    Returns:
      The results by name.
    """
    file = folder / "codes.json"
    file.write_text(json.dumps({str(name): textwrap.dedent(code) for name, code in codes.items()}))
    timeout = TIMEOUT * (1 + len(codes))
    printed = processes.run_code(_DRIVER, str(file), str(TIMEOUT), prefix=prefix, timeout=timeout, **environment)
    ended = json.loads(printed.splitlines()[-1])
    return {name: Ended(*ended[str(name)]) for name in codes}
