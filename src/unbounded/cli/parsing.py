"""Argument parsers that report every fault of a command line together."""

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

from unbounded.cli.faults import fault, odd_number
from unbounded.errors import ConfigError
from unbounded.experiments.config import plain_yaml

_MODE = "plain_yaml"
#: Options that take several values in one text.
_BY_COMMAS = ("lengths", "times", "log_with")
set_loader(_MODE, plain_yaml.load, exceptions=(yaml.YAMLError,))
set_dumper(_MODE, plain_yaml.dump)


class UsageError(Exception):
    """A command line that cannot be parsed."""


class _Help(DefaultHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Types and defaults beside each option, descriptions as they are written."""


class Parser(ArgumentParser):
    """An argument parser that raises where argparse would print its usage and exit.

    Args:
        arguments, options: of jsonargparse's parser.
        first: option strings that --help shows, where there are many; --help-all shows the others
            too. Empty for all.
    """

    def __init__(self, *arguments: Any, first: Sequence[str] = (), **options: Any) -> None:
        options.setdefault("formatter_class", _Help)
        options.setdefault("parser_mode", _MODE)
        # What is read off a command line before it is parsed knows whole names only.
        options.setdefault("allow_abbrev", False)
        super().__init__(*arguments, **options)
        self._first, self._is_short = frozenset(first), bool(first)
        if first:
            more = "Show every option and exit."
            self.add_argument("--help-all", action=_HelpAll, default=argparse.SUPPRESS, help=more)

    def format_help(self, *arguments: Any) -> str:
        """The help text, of the first options alone where there are such."""
        hidden = [
            (action, action.help)
            for action in self._actions
            if self._is_short
            and action.option_strings
            and not self._first.intersection(action.option_strings)
        ]
        for action, _ in hidden:
            action.help = argparse.SUPPRESS
        try:
            return str(super().format_help(*arguments))
        finally:
            for action, text in hidden:
                action.help = text

    def print_all(self) -> None:
        """Print the help text of every option."""
        self._is_short = False
        self.print_help()

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Raise UsageError instead."""
        raise UsageError(message) from ex


def add_rounded(parser: Parser, *, default: bool | None = False) -> None:
    """Add the flags that choose between a trained model and what hardening made of it.

    Args:
        parser: of a verb. default: which is taken where neither is given; None for the hardened one
            where there is one.
    """
    usual = "the hardened one where it is there" if default is None else "the trained one"
    parser.add_argument(
        "--rounded",
        action=ActionYesNo(no_prefix="no-"),
        default=default,
        help=f"Take the hardened model, or the trained one; by default {usual}.",
    )


class _HelpAll(argparse.Action):
    """Prints the help text of every option, and ends the command."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options, nargs=0)

    def __call__(self, parser: Any, *given: Any) -> NoReturn:
        parser.print_all()
        raise SystemExit(0)


def parse(
    parser: Parser, arguments: Sequence[str], typed: Sequence[str] | None = None
) -> tuple[Namespace, list[str]]:
    """Parse a command line as far as it goes.

    Args:
        parser: the verb's parser.
        arguments: what follows the verb.
        typed: those of them that a person typed, where a config file adds others; None for all.
    Returns:
        What the sound arguments say, and the faults of the others, one line each.
    Raises:
        UsageError: the faults cannot be told apart.
        ConfigError: nothing of it can be parsed, or an option that takes a list is there twice.
    """
    odd = [line for group in _groups(arguments) if (line := odd_number(parser._actions, group))]
    odd += _repeated(parser, arguments if typed is None else typed)
    if odd:
        raise ConfigError(odd)
    try:
        return parser.parse_args(list(arguments)), []
    except UsageError as error:
        whole = str(error)
    # A placeholder stands in for a required argument while the others are tried one by one.
    needed = [a.dest for a in parser._actions if a.required and not a.option_strings]
    first = next(iter(arguments), "-")
    stand_in = [] if not needed else ["-" if first.startswith("-") else first]
    sound: list[str] = [*stand_in]
    faults = (
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
            faults.append(fault(parser._actions, group, str(error)))
    if not faults:
        raise UsageError(whole)
    if stand_in == ["-"]:
        raise ConfigError(faults)
    try:
        return parser.parse_args(sound), faults
    except UsageError:
        raise ConfigError(faults) from None


def _repeated(parser: Parser, arguments: Sequence[str]) -> list[str]:
    """A line for each list or mapping that is given again: only the last would count."""
    names = [word.partition("=")[0] for word in arguments]
    examples = (
        (_takes_list, "list, such as {} A,B"),
        (_takes_mapping, "mapping: {} '{{A: 1, B: 2}}'"),
    )
    return [
        f"{name}: expected it once, got it {names.count(name)} times. Give one "
        f"{example.format(name)}"
        for action in parser._actions
        for name in action.option_strings
        for takes, example in examples
        if takes(action) and names.count(name) > 1
    ]


def _takes_list(action: argparse.Action) -> bool:
    kind = getattr(action, "_typehint", None)
    kinds = (kind, *typing.get_args(kind))
    return action.dest in _BY_COMMAS or any(typing.get_origin(each) is list for each in kinds)


def _takes_mapping(action: argparse.Action) -> bool:
    return typing.get_origin(getattr(action, "_typehint", None)) is dict


def _groups(arguments: Sequence[str]) -> Iterator[list[str]]:
    """Arguments cut into an option with its values each."""
    group: list[str] = []
    for argument in [*arguments, "--"]:
        if argument.startswith("--") and group:
            yield group
            group = []
        group.append(argument)
