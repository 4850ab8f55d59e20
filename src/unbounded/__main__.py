"""The command `unbounded`, and `python -m unbounded`."""

import sys


def start() -> int:
    """Run the command line; its exit code, 130 for Ctrl-C while it is still being imported."""
    try:
        from unbounded.cli.main import main

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("unbounded: stopped by Ctrl-C\n")
        return 130


if __name__ == "__main__":
    sys.exit(start())
