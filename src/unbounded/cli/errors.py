"""Error messages for invalid arguments, in place of jsonargparse's Python types."""

from __future__ import annotations

import argparse
import re
import typing
from collections.abc import Sequence
from pathlib import Path

import yaml

from unbounded.errors import closest
from unbounded.experiments.config import plain_yaml
from unbounded.options import words

# Number of similar options to suggest.
_CLOSE = 4
_OUT = ("--output", "--output_dir", "--out", "--out_dir", "--logdir")
# Option names in other programs, and the corresponding option here.
_ELSEWHERE = {
    **dict.fromkeys(("--lr", "--learning_rate", "--learning-rate"), "--training.learning_rate"),
    **dict.fromkeys(
        ("--epochs", "--max_epochs", "--steps", "--iterations", "--batches"),
        "--training.batches, the budget in batches",
    ),
    **dict.fromkeys(("--batch_size", "--batch-size", "--bs"), "--training.batch_size"),
    **dict.fromkeys(("--gpu", "--cuda", "--device"), "--hardware.device cuda"),
    **dict.fromkeys(("--cpu",), "--hardware.device cpu"),
    **dict.fromkeys(("--hidden", "--hidden_size", "--hidden-size"), "--model.hidden_size"),
    **dict.fromkeys(("--memory", "--model"), "--model.memory"),
    "--controller": "--model.controller",
    **dict.fromkeys(("--optimizer", "--optim"), "--training.optimizer"),
    **dict.fromkeys(("--threads", "--num_threads"), "--hardware.threads"),
    **dict.fromkeys(_OUT, "--runs FOLDER"),
    **dict.fromkeys(("--tensorboard", "--tracker", "--wandb"), "--log_with NAME, e.g. wandb"),
    **dict.fromkeys(("--verbose", "--debug"), "shown anyway; --quiet shows less"),
    "--task": "given without an option: unbounded train copy",
}
# Names of the option -n in other programs.
_NUMBER = ("--count", "--num", "--number", "--examples", "--num_examples", "--n")
_PATHS = ("config", "data", "out", "runs")


def missing_folder(option: str, file: str | Path | None) -> list[str]:
    """The error if an output file has no parent folder, or if its path is a folder."""
    if file is None:
        return []
    if Path(file).is_dir():
        return [f"{option}: {file} is a folder; name a file in it"]
    if Path(file).parent.is_dir():
        return []
    return [f"{option}: there is no folder {Path(file).parent}; make it first"]


def expected(action: argparse.Action) -> str:
    """The expected value of an option, in words."""
    if action.dest.rpartition(".")[2] in _PATHS:
        return "a path"
    return words(getattr(action, "_typehint", None) or action.type)


def option_error(
    actions: list[argparse.Action], group: list[str], message: str, also: Sequence[str] = ()
) -> str:
    """One-line message for an option that cannot be parsed.

    Args:
        actions: the parser's actions.
        group: the option as given, and its values.
        message: the parser's message.
        also: further options of the command.
    """
    option = group[0].partition("=")[0]
    if "unrecognized arguments" in message or "not accepted" in message:
        names = [name for action in actions for name in action.option_strings]
        names = [name for name in names if name.startswith("--") and name != "--print_shtab"]
        names += also
        if option == "--task" and any(action.dest == "task" for action in actions):
            return (
                "--task: expected a mapping of the task's options; the name of the task is the "
                "first word after the command"
            )
        if option in _ELSEWHERE and option not in names and "--training.batches" in names:
            return f"unknown option {option!r}: it is {_ELSEWHERE[option]}"
        if option in _NUMBER and any("-n" in action.option_strings for action in actions):
            return f"unknown option {option!r}: it is -n"
        if option in _OUT and option not in names and "--export" in names:
            return f"unknown option {option!r}: it is --export FILE"
        if option in _OUT and "--out" not in names and any(each.dest == "run" for each in actions):
            return f"unknown option {option!r}: the results are written into the run's own folder"
        if option.startswith("--") and option not in names:
            return unknown_option(option, names)
        if not option.startswith("-"):
            more = " ".join(group[1:])
            return f"expected an option such as --NAME VALUE after {option!r}, got {more!r}"
    text = re.sub(r"\s+", " ", message).strip()
    text = re.sub(r'^Parser key "([^"]+)": ', r"\1: ", text)
    return _of_value(actions, text) or text


def unknown_option(option: str, names: Sequence[str]) -> str:
    """The message for an option that a command does not have, with similar ones."""
    close = closest(option, names)[:_CLOSE]
    hint = f" Did you mean {close[0]!r}?" if close else ""
    others = f" Others like it: {', '.join(close[1:])}." if close[1:] else ""
    return f"unknown option {option!r}.{hint}{others} --help shows all."


def _of_value(actions: list[argparse.Action], text: str) -> str | None:
    """Message for a value of the wrong type, or for a missing value."""
    named = re.match(r"argument (\S+): (.*)", text) or re.match(r"([\w.]+): (.*)", text)
    if named is None:
        return None
    name, rest = named.groups()
    action = next((a for a in actions if name == a.dest or name in a.option_strings), None)
    if action is None:
        return None
    unasked = re.match(r"ignored explicit argument (.*)", rest)
    if unasked is not None:
        return f"{action.dest}: expected no value, got {unasked[1]}"
    is_group = any(other.dest.startswith(f"{action.dest}.") for other in actions)
    below = f"one of its options, as in --{action.dest}.NAME VALUE, or the path of a YAML file"
    if rest == "expected one argument":
        target = below if is_group else expected(action).removesuffix(" or null")
        minus = f"; a value that begins with - is written --{action.dest}=-..."
        return f"{action.dest}: expected {target} after it, got nothing{minus}"
    if rest.startswith("Unable to load config"):
        return f"{action.dest}: expected {below}, got {rest.rpartition('config ')[2]}"
    got = re.match(r"(?:Expected|Does not validate).*\b(?:Got|Given) value: ?(.*)", rest)
    return None if got is None else f"{action.dest}: expected {expected(action)}, got {got[1]!r}"


def odd_number(actions: list[argparse.Action], group: list[str]) -> str | None:
    """Message for a number in Python-only notation, such as 0x10 or 1_000; None for others.

    Args:
        actions: the parser's actions.
        group: an option as given, and its values.
    """
    option, is_joined, joined = group[0].partition("=")
    values = [joined] if is_joined else group[1:2]
    action = next((a for a in actions if option in a.option_strings), None)
    if action is None or not values:
        return None
    kinds = {getattr(action, "_typehint", None) or action.type}
    kinds |= set(typing.get_args(next(iter(kinds))))
    if not kinds & {int, float} or str in kinds:
        return None
    text = values[0].strip()
    is_number = any(character.isdigit() for character in text) and "[" not in text
    if is_number and not re.fullmatch(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?", text):
        return f"{action.dest}: expected {expected(action)} in decimal digits, got {text!r}"
    return None


def file_error(path: Path) -> str | None:
    """The reason why a file is not a config; None if it is one."""
    try:
        data = plain_yaml.load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        return f"{path} is not YAML{plain_yaml.yaml_error(error)}"
    except UnicodeDecodeError as error:
        return f"{path} is not text in UTF-8 ({error})"
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    if not isinstance(data, dict):
        return f"{path} holds no options; expected lines such as 'task: copy'"
    return None
