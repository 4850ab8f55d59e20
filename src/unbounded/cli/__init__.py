"""The command line, with one module for each verb."""

from unbounded.cli.main import main

__all__ = ["main"]
