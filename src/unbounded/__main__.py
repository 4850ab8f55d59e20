"""The command `unbounded`, and `python -m unbounded`."""

import os
import sys


def start() -> int:
    """Run the command line and return its exit code, which is 130 for Ctrl-C during the import."""
    _wait_briefly()
    try:
        from unbounded.lab import missing

        if message := missing("the command line"):
            sys.stderr.write(f"unbounded: {message}\n")
            return 2
        from unbounded.cli.main import main

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("unbounded: stopped by Ctrl-C\n")
        return 130


def _wait_briefly() -> None:
    """Let torch's threads sleep after about 50 microseconds of waiting for each other.

    libgomp reads this variable when torch is loaded. By default its threads spin for many
    milliseconds, which wastes time on cores shared with other processes (benchmarks/contention.py).
    Existing settings in the environment are kept.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


if __name__ == "__main__":
    sys.exit(start())
