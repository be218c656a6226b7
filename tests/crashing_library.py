"""A peer of the benchmark that ends with its process."""

import os
import signal


class Crashing:
    """Stands for a `programs.Library`.

    Args:
      threads: ignored.
    """

    def __init__(self, threads):
        pass

    def versions(self):
        """It starts well."""
        return {}

    def program(self, case):
        """It crashes at its work."""
        os.kill(os.getpid(), signal.SIGSEGV)
