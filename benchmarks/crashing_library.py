"""A benchmark peer that crashes its process."""

import os
import signal


class Crashing:
    """A fake `programs.Library`.

    Args:
      threads: ignored.
    """

    def __init__(self, threads):
        pass

    def versions(self):
        """Succeeds."""
        return {}

    def program(self, case):
        """Crashes."""
        os.kill(os.getpid(), signal.SIGSEGV)
