"""`unbounded VERB ...`: finds the verb, and turns every foreseen error into one message."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import Final

from unbounded import __version__
from unbounded.cli.output import outliving
from unbounded.errors import ChoiceError, NonFiniteError, UnboundedError

#: Each verb with what it does; its module in this folder has the same name.
VERBS: Final[dict[str, str]] = {
    "train": "train a model on a task and report on its test split",
    "evaluate": "score a trained run over length ranges",
    "reproduce": "make a paper's table: published values beside measured ones",
    "sample": "show examples of a task, or write them to a file",
    "list": "show the tasks, memories, controllers, presets and papers",
    "bench": "time the fused kernels beside torch, the reference and jax",
    "doctor": "show what is installed and whether it can be used",
}

#: The verbs whose work goes on when their output is no longer read.
WORKING: Final = ("train", "reproduce")

_HELP = """usage: unbounded VERB [options]

Neural networks with external memory: train them, test them, watch them generalise.

{verbs}

`unbounded VERB --help` shows a verb's options and an example.
`unbounded --print_shtab bash` (or zsh, tcsh) prints a completion script.

example:
  unbounded train copy

exit codes: 0 done; 2 bad input or a full disk; 3 training diverged (NaN or infinite);
130 stopped by Ctrl-C; 143 stopped by SIGTERM.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the command line without the program's name; None for the process's own.
    Returns:
        The exit code: 0 done, 2 bad input, 3 a NaN or infinite loss, 130 or 143 stopped.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with outliving(work=bool(given) and given[0] in WORKING):
            return _run(given)
    except BrokenPipeError:
        return 0  # the reader of our output has gone (head, less): nobody wants the rest
    except KeyboardInterrupt:
        return _fail("stopped by Ctrl-C", 130)
    except NonFiniteError as error:
        return _fail(str(error), 3)
    except UnboundedError as error:
        return _fail(str(error), 2)
    except (MemoryError, RuntimeError) as error:
        if not _out_of_memory(error):
            raise
        reason = str(error).split("\n", 1)[0]
        return _fail(f"there is not enough memory for these sizes: {reason}", 2)


def _run(given: list[str]) -> int:
    if not given or given[0] in ("-h", "--help"):
        verbs = "\n".join(f"  {name:<10} {text}" for name, text in VERBS.items())
        print(_HELP.format(verbs=verbs), end="")
        return 0 if given else 2
    if given[0] == "--version":
        print(f"unbounded {__version__}")
        return 0
    if given[0].split("=", 1)[0] == "--print_shtab":
        from unbounded.cli.completion import print_completion

        return print_completion(given)
    verb, rest = given[0], given[1:]
    if verb not in VERBS:
        raise ChoiceError("command", verb, VERBS)
    from unbounded.cli.parsing import UsageError

    try:
        code: int = verb_module(verb).run(rest)
    except UsageError as error:
        return _fail(f"{error}\n`unbounded {verb} --help` shows the options.", 2)
    return code


def verb_module(verb: str) -> ModuleType:
    """The module of a verb: `parser(arguments)` and `run(arguments) -> exit code`."""
    return importlib.import_module(f"unbounded.cli.{'list_' if verb == 'list' else verb}")


def _out_of_memory(error: Exception) -> bool:
    # torch has no class of its own for memory of the CPU.
    text = str(error)
    return isinstance(error, MemoryError) or any(
        part in text for part in ("can't allocate memory", "out of memory")
    )


def _fail(message: str, code: int) -> int:
    with suppress(OSError):
        print(f"unbounded: {message}", file=sys.stderr)
    return code
