"""Argument parsers that report all errors of a command line together."""

from __future__ import annotations

import argparse
import typing
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import yaml
from jsonargparse import (
    ActionYesNo,
    ArgumentParser,
    DefaultHelpFormatter,
    Namespace,
    set_dumper,
    set_loader,
)

from unbounded.cli.errors import odd_number, option_error
from unbounded.errors import ConfigError
from unbounded.experiments.config import plain_yaml

_MODE = "plain_yaml"
#: Options that take comma-separated values.
_BY_COMMAS = ("lengths", "times", "log_with", "imports")
set_loader(_MODE, plain_yaml.load, exceptions=(yaml.YAMLError,))
set_dumper(_MODE, plain_yaml.dump)


class UsageError(Exception):
    """A command line that cannot be parsed."""


class _Help(DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Help with the type and default of each option, and unwrapped descriptions."""


class Parser(ArgumentParser):
    """An argument parser that raises UsageError instead of printing its usage and exiting.

    Args:
        arguments, options: arguments of jsonargparse's parser.
        also: further options of the command, which are parsed elsewhere.
    """

    def __init__(self, *arguments: Any, also: Sequence[str] = (), **options: Any) -> None:
        options.setdefault("formatter_class", _Help)
        options.setdefault("parser_mode", _MODE)
        # Code that reads the command line before parsing recognises only full names.
        options.setdefault("allow_abbrev", False)
        super().__init__(*arguments, **options)
        self.also = tuple(also)

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise UsageError instead."""
        raise UsageError(message) from ex


def add_hardened(parser: Parser, *, default: bool | None = False) -> None:
    """Add the flags that choose between the trained and the hardened model.

    Args:
        parser: a verb's parser.
        default: value without either flag; None for the hardened model if it exists.
    """
    usual = "the hardened one, if it exists" if default is None else "the trained one"
    parser.add_argument(
        "--hardened",
        action=ActionYesNo(no_prefix="no-"),
        default=default,
        help=f"Use the hardened or the trained model; default: {usual}.",
    )


def add_import(parser: Parser) -> None:
    """Add --import, the modules of a run's custom components; see `modules_of`."""
    parser.add_argument(
        "--import",
        dest="imports",
        type=str,
        help="Modules with the run's custom components, as A,B.",
    )


def parse(parser: Parser, arguments: Sequence[str]) -> tuple[Namespace, list[str]]:
    """Parse a command line and collect the errors of invalid arguments.

    Args:
        parser: the verb's parser.
        arguments: the arguments after the verb.
    Returns:
        The values of the valid arguments, and one line per error.
    Raises:
        UsageError: the error cannot be attributed to an argument.
        ConfigError: nothing can be parsed, or an option is repeated.
    """
    odd = [line for group in _groups(arguments) if (line := odd_number(parser._actions, group))]
    odd += _repeated(parser, arguments)
    if odd:
        raise ConfigError(odd)
    try:
        return parser.parse_args(list(arguments)), []
    except UsageError as error:
        whole = str(error)
    # Parse each option separately, with a placeholder for the required argument.
    needed = [a.dest for a in parser._actions if a.required and not a.option_strings]
    first = next(iter(arguments), "-")
    stand_in = [] if not needed else ["-" if first.startswith("-") else first]
    sound: list[str] = [*stand_in]
    errors = (
        [f"{needed[0]}: this argument is required; --help has examples"]
        if stand_in == ["-"]
        else []
    )
    for group in _groups(arguments):
        try:
            if group != stand_in:
                parser.parse_args([*stand_in, *group])
                sound += group
        except UsageError as error:
            errors.append(option_error(parser._actions, group, str(error), parser.also))
    if not errors:
        raise UsageError(whole)
    if stand_in == ["-"]:
        raise ConfigError(errors)
    try:
        return parser.parse_args(sound), errors
    except UsageError:
        raise ConfigError(errors) from None


def _repeated(parser: Parser, arguments: Sequence[str]) -> list[str]:
    """One line for each repeated option, because only the last would count."""
    names = [word.partition("=")[0] for word in arguments]
    return [
        repeated_line(name, names.count(name), is_list=_takes_list(action))
        for action in parser._actions
        for name in action.option_strings
        if names.count(name) > 1 and action.nargs != 0 and not _gathers(action)
    ]


def repeated_line(name: str, times: int, *, is_list: bool) -> str:
    """The error of an option that is given several times.

    Args:
        name: the option. times: how often it is given.
        is_list: whether its value is a list.
    """
    advice = f". Give one list, such as {name} A,B" if is_list else ""
    return f"{name}: expected it once, got it {times} times{advice}"


def _gathers(action: argparse.Action) -> bool:
    """Whether an option may be repeated, as with action="append"."""
    return isinstance(action, argparse._AppendAction)


def _takes_list(action: argparse.Action) -> bool:
    kind = getattr(action, "_typehint", None)
    kinds = (kind, *typing.get_args(kind))
    return action.dest in _BY_COMMAS or any(typing.get_origin(part) is list for part in kinds)


def _groups(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Split arguments into groups of one option and its values."""
    group: list[str] = []
    for argument in [*arguments, "--"]:
        if argument.startswith("--") and group:
            yield group
            group = []
        group.append(argument)
