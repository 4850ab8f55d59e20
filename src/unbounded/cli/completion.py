"""Shell completion, with one script for all verbs."""

from __future__ import annotations

from collections.abc import Sequence

from unbounded.cli.main import VERBS, verb_module
from unbounded.cli.names import names_of
from unbounded.cli.parsing import Parser
from unbounded.errors import ChoiceError, ConfigError

#: The kinds of the positional arguments that are names.
_KINDS = {"task": "tasks", "paper": "papers"}


def print_completion(arguments: Sequence[str]) -> int:
    """Print the completion script of a shell.

    Args:
        arguments: `--print_shtab SHELL` or `--print_shtab=SHELL`.
    Raises:
        ChoiceError: shtab does not support the shell.
        ConfigError: the arguments name no shell.
    """
    import shtab

    words = " ".join(arguments).replace("=", " ").split()
    if len(words) != 2:
        raise ConfigError(f"--print_shtab takes one shell: {', '.join(shtab.SUPPORTED_SHELLS)}")
    if words[1] not in shtab.SUPPORTED_SHELLS:
        raise ChoiceError("shell", words[1], shtab.SUPPORTED_SHELLS)
    print(full_parser().get_completion_script(f"shtab-{words[1]}"))
    return 0


def full_parser() -> Parser:
    """Make one parser with every verb, for completion."""
    parser = Parser(prog="unbounded")
    verbs = parser.add_subcommands(required=True)
    for verb, text in VERBS.items():
        made = verb_module(verb).parser([])
        for option in made.also:
            made.add_argument(option, type=str | None, help="See `unbounded train --help`.")
        for action in made._actions:
            if not action.option_strings and action.dest in _KINDS:
                action.choices = tuple(names_of(_KINDS[action.dest]))
        verbs.add_subcommand(verb, made, help=text)
    return parser
