"""The command `unbounded`, and `python -m unbounded`."""

import os
import sys


def start() -> int:
    """Run the command line; its exit code, 130 for Ctrl-C while it is still being imported."""
    _wait_briefly()
    try:
        from unbounded.cli.main import main

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("unbounded: stopped by Ctrl-C\n")
        return 130


def _wait_briefly() -> None:
    """Have torch's threads sleep after some 50 microseconds of waiting for each other.

    libgomp, which reads this when torch is loaded, has them spin for many milliseconds: on a core
    that another process wants too, a thread that spins uses up the share that it then needs
    (benchmarks/contention.py). What the environment says already stays.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "1000")


if __name__ == "__main__":
    sys.exit(start())
