"""What is wrong with an argument in a user's words: jsonargparse speaks of Python's types."""

from __future__ import annotations

import argparse
import re
import typing
from pathlib import Path

import yaml

from unbounded.errors import closest
from unbounded.experiments.config import plain_yaml
from unbounded.options import words

# Of some forty options a person can take in a few.
_CLOSE = 4
# Where the flat options of a model in version 0.1 are now.
_MOVED = {
    "--model.memory_width": "--model.memory.width",
    "--model.layers": "--model.controller.num_layers",
    **{
        f"--model.{name}": f"--model.memory.{name}"
        for name in ("pop_bias", "count", "depth", "noop", "capacity", "overflow")
    },
    **{
        f"--model.{name}": f"--model.controller.{name}"
        for name in ("skip_input", "recurrent", "context_size")
    },
}
_OUT = ("--output", "--output_dir", "--out", "--out_dir", "--logdir")
# What other programs call an option, and what does it here.
_ELSEWHERE = {
    **dict.fromkeys(("--lr", "--learning_rate", "--learning-rate"), "--training.learning_rate"),
    **dict.fromkeys(
        ("--epochs", "--max_epochs", "--steps", "--iterations", "--batches"),
        "--training.batches, the budget in batches",
    ),
    **dict.fromkeys(("--batch_size", "--batch-size", "--bs"), "--training.batch_size"),
    **dict.fromkeys(("--gpu", "--cuda", "--device"), "--machine.device cuda"),
    **dict.fromkeys(("--cpu",), "--machine.device cpu"),
    **dict.fromkeys(("--hidden", "--hidden_size", "--hidden-size"), "--model.hidden_size"),
    **dict.fromkeys(("--memory", "--model"), "--model.memory"),
    "--controller": "--model.controller",
    **dict.fromkeys(("--optimizer", "--optim"), "--training.optimizer"),
    **dict.fromkeys(("--threads", "--num_threads"), "--machine.threads"),
    **dict.fromkeys(_OUT, "--runs FOLDER"),
    **dict.fromkeys(("--tensorboard", "--tracker", "--wandb"), "--log_with NAME, e.g. wandb"),
    **dict.fromkeys(("--verbose", "--debug"), "shown anyway; --quiet shows less"),
    "--task": "given without an option: unbounded train copy",
}
_PATHS = ("config", "data", "out", "runs")


def missing_folder(option: str, file: str | Path | None) -> list[str]:
    """What is wrong with a file to be written: its folder is missing, or it is a folder itself.

    Said before any work.
    """
    if file is None:
        return []
    if Path(file).is_dir():
        return [f"{option}: {file} is a folder; name a file in it"]
    if Path(file).parent.is_dir():
        return []
    return [f"{option}: there is no folder {Path(file).parent}; make it first"]


def expected(action: argparse.Action) -> str:
    """What an option takes, in words."""
    if action.dest.rpartition(".")[2] in _PATHS:
        return "a path"
    return words(getattr(action, "_typehint", None) or action.type)


def fault(actions: list[argparse.Action], group: list[str], message: str) -> str:
    """One line on an option that cannot be parsed.

    Args:
        actions: of the parser.
        group: the option as it was given, and what follows it.
        message: what the parser says.
    """
    option = group[0].partition("=")[0]
    if "unrecognized arguments" in message or "not accepted" in message:
        names = [name for action in actions for name in action.option_strings]
        names = [name for name in names if name.startswith("--") and name != "--print_shtab"]
        if option in _MOVED:
            return f"unknown option {option!r}: it is {_MOVED[option]} now"
        if option in _ELSEWHERE and option not in names and "--training.batches" in names:
            return f"unknown option {option!r}: it is {_ELSEWHERE[option]}"
        if option in _OUT and option not in names and "--export" in names:
            return f"unknown option {option!r}: it is --export FILE"
        if option in _OUT and "--out" not in names and any(each.dest == "run" for each in actions):
            return f"unknown option {option!r}: what is made is written into the run's own folder"
        if option.startswith("--") and option not in names:
            close = closest(option, names)[:_CLOSE]
            hint = f" Did you mean {close[0]!r}?" if close else ""
            every = "--help-all" if "--help-all" in names else "--help"
            others = f" Others like it: {', '.join(close[1:])}." if close[1:] else ""
            return f"unknown option {option!r}.{hint}{others} {every} shows all."
        if not option.startswith("-"):
            more = " ".join(group[1:])
            return f"expected an option such as --NAME VALUE after {option!r}, got {more!r}"
    text = re.sub(r"\s+", " ", message).strip()
    text = re.sub(r'^Parser key "([^"]+)": ', r"\1: ", text)
    return _of_value(actions, text) or text


def _of_value(actions: list[argparse.Action], text: str) -> str | None:
    """A value of another type than the option's, or none at all."""
    named = re.match(r"argument (\S+): (.*)", text) or re.match(r"([\w.]+): (.*)", text)
    if named is None:
        return None
    name, rest = named.groups()
    action = next((a for a in actions if name == a.dest or name in a.option_strings), None)
    if action is None:
        return None
    unasked = re.match(r"ignored explicit argument (.*)", rest)
    if unasked is not None:
        return f"{action.dest}: it is given without a value, got {unasked[1]}"
    is_group = any(other.dest.startswith(f"{action.dest}.") for other in actions)
    below = f"the options below it, as in --{action.dest}.NAME VALUE, or the path of a YAML file"
    if rest == "expected one argument":
        wanted = below if is_group else expected(action).removesuffix(" or null")
        minus = f"; a value that begins with - is written --{action.dest}=-..."
        return f"{action.dest}: expected {wanted} after it, got nothing{minus}"
    if rest.startswith("Unable to load config"):
        return f"{action.dest}: expected {below}, got {rest.rpartition('config ')[2]}"
    got = re.match(r"(?:Expected|Does not validate).*\b(?:Got|Given) value: ?(.*)", rest)
    return None if got is None else f"{action.dest}: expected {expected(action)}, got {got[1]!r}"


def odd_number(actions: list[argparse.Action], group: list[str]) -> str | None:
    """What is wrong with a number that Python would take and people do not write: 0x10, 1_000.

    Args:
        actions: of the parser. group: an option as it was given, and what follows it.
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


def file_fault(path: Path) -> str | None:
    """Why a file is no config at all; None where it is one."""
    try:
        data = plain_yaml.load(path.read_text(encoding="utf-8"))
    except yaml.YAMLError as error:
        return f"{path} is not YAML{plain_yaml.fault(error)}"
    except UnicodeDecodeError as error:
        return f"{path} is not text in UTF-8 ({error})"
    except OSError as error:
        return f"{path}: {error.strerror or error}"
    if not isinstance(data, dict):
        return f"{path} holds no options; expected lines such as 'task: copy'"
    return None
