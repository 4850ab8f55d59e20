"""The command line: one module per verb."""

from unbounded.cli.main import main

__all__ = ["main"]
