"""From a network whose decisions are made to the machine that it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

from torch import nn

from unbounded.checks import (
    check_callable,
    check_items,
    check_kind,
    check_module,
    check_positive,
    check_size,
)
from unbounded.errors import ConfigError
from unbounded.extraction.equivalence import Agreement, agreement
from unbounded.extraction.fewer import with_fewest
from unbounded.extraction.machine import Machine, machine_of
from unbounded.extraction.memories import shape_of
from unbounded.extraction.merging import merge_states
from unbounded.extraction.observation import observe
from unbounded.extraction.program import Program
from unbounded.extraction.refinement import refine
from unbounded.extraction.words import check_has_rule, listed_words, long_words
from unbounded.layers import MemoryRNN
from unbounded.models.decisions import certainties
from unbounded.tasks import Batch, Task
from unbounded.tasks.task import check_task
from unbounded.verification.network import Network
from unbounded.verification.shared import shortened

#: A decision of this certainty is made.
DECIDED: Final = 0.999
#: Words that are drawn at each of the long lengths.
_DRAWN: Final = 20


class Extraction(NamedTuple):
    """A machine and how it was found.

    Fields:
        machine: what was found.
        closed: whether every step of every word goes as its table says.
        determined: the share of the steps that do.
        longest: every word up to this length was looked at.
        words, beginnings: how many words, and how many different beginnings they have.
        certainty: of the least decided decision.
        listed: how far machine and network agree on these words.
        drawn: the same on drawn ones, by length.
        example: a word on which they differ; None where there is none.
        shortest: numbers of a short word.
    """

    machine: Machine
    closed: bool
    determined: float
    longest: int
    words: int
    beginnings: int
    certainty: float
    listed: Agreement
    drawn: dict[int, Agreement]
    example: str | None
    shortest: list[int]


def extract(
    model: nn.Module,
    task: Task,
    *,
    symbols: int = 2,
    budget: int = 10_000,
    lengths: Sequence[int] = (),
    seed: int = 1,
    look: Callable[[str, float], None] = lambda name, share: None,
) -> Extraction:
    """Extract the machine of a network.

    Args:
        model: with stacks, queues, deques, or superposition stacks or lists, all of whose
            decisions are made.
        task: with a rule.
        symbols: of a source, the first so many are in the words.
        budget: symbols of all words together.
        lengths: of longer words on which the machine is compared with the network.
        seed: of these.
        look: told what is done, and which share.
    Raises:
        ConfigError: the task has no rule, the memory is no machine over symbols, a decision is
            not made, or what is read is said at the same step.
    """
    _check_arguments(model, task, symbols, budget, lengths, seed)
    check_callable("look", look)
    check_has_rule(task)
    shape_of(Network(model).memory)
    check_says_before_it_reads(model)
    words, longest = listed_words(task, symbols, budget)
    check_decided(model, words)
    look("running the words", 0.0)
    seen = observe(model, words)
    look("finding states and symbols", 0.2)
    seen, classes = with_fewest(seen, merge_states(seen, refine(seen)))
    machine = machine_of(seen, classes, input_names(task), output_names(task))
    look("comparing", 0.6)
    listed = agreement(machine, model, words)
    example = None if listed.first is None else _text(machine, words, listed.first)
    drawn: dict[int, Agreement] = {}
    for number, length in enumerate(lengths):
        look(f"comparing at length {length}", 0.6 + 0.4 * number / len(lengths))
        batch = long_words(task, symbols, length, _DRAWN, seed)
        drawn[length] = agreement(machine, model, batch)
        if example is None and drawn[length].first is not None:
            example = _text(machine, batch, drawn[length].first or 0)
    row = int((words.lengths >= min(6, int(words.lengths.max()))).int().argmax())
    return Extraction(
        machine,
        classes.closed,
        classes.determined,
        longest,
        len(words.inputs),
        len(seen.nodes),
        seen.certainty,
        listed,
        drawn,
        example,
        words.inputs[row, : int(words.lengths[row])].tolist(),
    )


def _check_arguments(
    model: object, task: object, symbols: int, budget: int, lengths: object, seed: int
) -> None:
    """Raise DTypeError or ShapeError unless all are of the kinds that `extract` says."""
    check_module("model", model)
    check_task(task)
    check_positive("symbols", symbols)
    check_positive("budget", budget)
    check_items("lengths", lengths, int)
    check_size("seed", seed)


def compare(
    program: Program,
    model: nn.Module,
    task: Task,
    *,
    symbols: int = 2,
    budget: int = 10_000,
    lengths: Sequence[int] = (),
    seed: int = 1,
) -> tuple[dict[str, Agreement], str | None]:
    """Compare a program with a network as an extraction does.

    Args:
        program: extracted before, or changed since.
        model, task, symbols, budget, lengths, seed: as for `extract`.
    Returns:
        how far they agree, on the listed words and on drawn ones of each length; and a word on
        which they differ, None where there is none.
    Raises:
        ConfigError: the task has no rule, or the program reads or says something else.
    """
    check_kind("program", program, Program, "unbounded.extraction.program_from reads one.")
    _check_arguments(model, task, symbols, budget, lengths, seed)
    check_has_rule(task)
    for name, own, wanted in (
        ("INPUTS", program.inputs, input_names(task)),
        ("OUTPUTS", program.outputs, output_names(task)),
    ):
        if own != wanted:
            raise ConfigError(
                [
                    f"program: expected the {len(wanted)} {name} of task {task.name!r}, "
                    f"{wanted[0]} ... {wanted[-1]}, got {len(own)} others"
                ]
            )
    words, longest = listed_words(task, symbols, budget)
    batches = {f"every word to length {longest}": words}
    for length in lengths:
        drawn = long_words(task, symbols, length, _DRAWN, seed)
        batches[f"drawn words of length {length}"] = drawn
    agreements = {name: agreement(program, model, batch) for name, batch in batches.items()}
    for name, each in agreements.items():
        if each.first is not None:
            return agreements, _text(program, batches[name], each.first)
    return agreements, None


def check_says_before_it_reads(model: nn.Module) -> None:
    """Check that what a network says follows from its state, its input and what was read before.

    Raises:
        ConfigError: what is read at a step reaches what is said at it.
    """
    if any(isinstance(part, MemoryRNN) and part.output_reading for part in model.modules()):
        raise ConfigError(
            [
                "model: with output_reading it says what it reads at the same step, and a row of a "
                "machine's table knows only what was read before; train one without it "
                "(--model.output_reading false)"
            ]
        )


def check_decided(model: nn.Module, words: Batch) -> None:
    """Check that every decision is made on some words.

    Raises:
        ConfigError: one is not; the message says how decided each head is.
    """
    device = next(model.parameters()).device
    heads = certainties(model, words, decided=DECIDED, device=device)
    open_ = {name: each for name, each in heads.items() if each.undecided}
    if not heads or open_:
        how = "; ".join(
            f"{name} is {each.least:.4f} sure at least, {each.undecided} of {each.decisions} below "
            f"{DECIDED}"
            for name, each in open_.items()
        )
        raise ConfigError(
            [
                f"model: its decisions are not made wholly ({how or 'it makes none'}), so that it "
                "is no machine yet. `unbounded harden RUN` makes them 0 or 1; where that was "
                "tried, `rounded` in the run's report.json says why it ended"
            ]
        )


def input_names(task: Task) -> tuple[str, ...]:
    """Names of the inputs; what is fed back of a target is said to be."""
    names = list(task.input_vocabulary)
    return tuple(
        f"said {name}" if name in names[:place] else name for place, name in enumerate(names)
    )


def output_names(task: Task) -> tuple[str, ...]:
    """Names of the answers."""
    names = tuple(task.output_vocabulary)
    return (f"no {names[0]}", names[0]) if task.objective == "binary" else names


def _text(machine: Machine | Program, batch: Batch, row: int) -> str:
    tokens: list[Any] = batch.inputs[row, : int(batch.lengths[row])].tolist()
    return shortened([machine.inputs[token] for token in tokens])
