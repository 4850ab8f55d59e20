"""The command line: one file a verb."""

from unbounded.cli.main import main

__all__ = ["main"]
