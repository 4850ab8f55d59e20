"""Extraction of the automaton of a network with saturated gates."""

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
from unbounded.extraction.automaton import Automaton, automaton_of
from unbounded.extraction.equivalence import Agreement, agreement
from unbounded.extraction.fewer import with_fewest
from unbounded.extraction.memories import shape_of
from unbounded.extraction.merging import merge_states
from unbounded.extraction.observation import observe
from unbounded.extraction.program import Program
from unbounded.extraction.refinement import refine
from unbounded.extraction.words import check_has_rule, listed_words, long_words
from unbounded.layers import MemoryRNN
from unbounded.models.gates import certainties
from unbounded.tasks import Batch, Task
from unbounded.tasks.task import check_task
from unbounded.verification.network import Network
from unbounded.verification.shared import shortened

#: Certainty from which a gate is saturated.
SATURATED: Final = 0.999
#: Number of drawn strings at each of the long lengths.
_DRAWN: Final = 20


class Extraction(NamedTuple):
    """An automaton and how it was extracted.

    Fields:
        automaton: the automaton.
        closed: whether every step of every string agrees with its table.
        determined: the share of steps that agree.
        longest: length up to which all strings were observed.
        words, beginnings: number of strings, and of their distinct prefixes.
        certainty: of the least saturated gate.
        listed: agreement of automaton and network on these strings.
        drawn: the same on drawn ones, by length.
        example: a string on which they differ; None for none.
        shortest: numbers of a short string.
    """

    automaton: Automaton
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
    """Extract the automaton of a network.

    Args:
        model: with stacks, queues, deques, superposition stacks or lists, a tape or a Lie-access
            memory, and saturated gates.
        task: with a rule.
        symbols: number of source symbols that occur in the strings, the first ones.
        budget: symbols of all strings together.
        lengths: lengths of longer strings on which automaton and network are compared.
        seed: of these.
        look: called with a description and the share that is done.
    Raises:
        ConfigError: the task has no rule, the memory is no automaton over symbols, a gate is not
            saturated, or the read vector reaches the output of the same step.
    """
    _check_arguments(model, task, symbols, budget, lengths, seed)
    check_callable("look", look)
    check_has_rule(task)
    shape_of(Network(model).memory)
    check_output_precedes_read(model)
    words, longest = listed_words(task, symbols, budget)
    check_saturated(model, words)
    look("running the words", 0.0)
    observations = observe(model, words)
    look("finding states and symbols", 0.2)
    observations, classes = with_fewest(
        observations, merge_states(observations, refine(observations))
    )
    automaton = automaton_of(observations, classes, input_names(task), output_names(task))
    look("comparing", 0.6)
    listed = agreement(automaton, model, words)
    example = None if listed.first is None else _text(automaton, words, listed.first)
    drawn: dict[int, Agreement] = {}
    for number, length in enumerate(lengths):
        look(f"comparing at length {length}", 0.6 + 0.4 * number / len(lengths))
        batch = long_words(task, symbols, length, _DRAWN, seed)
        drawn[length] = agreement(automaton, model, batch)
        if example is None and drawn[length].first is not None:
            example = _text(automaton, batch, drawn[length].first or 0)
    row = int((words.lengths >= min(6, int(words.lengths.max()))).int().argmax())
    return Extraction(
        automaton,
        classes.closed,
        classes.determined,
        longest,
        len(words.inputs),
        len(observations.nodes),
        observations.certainty,
        listed,
        drawn,
        example,
        words.inputs[row, : int(words.lengths[row])].tolist(),
    )


def _check_arguments(
    model: object, task: object, symbols: int, budget: int, lengths: object, seed: int
) -> None:
    """Raise DTypeError or ShapeError unless all arguments are of the kinds of `extract`."""
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
        program: an extracted program, possibly edited.
        model, task, symbols, budget, lengths, seed: as for `extract`.
    Returns:
        the agreement on the listed strings and on drawn ones of each length; and a string on which
        they differ, None for none.
    Raises:
        ConfigError: the task has no rule, or the program has other inputs or outputs.
    """
    check_kind("program", program, Program, "unbounded.extraction.program_from reads one.")
    _check_arguments(model, task, symbols, budget, lengths, seed)
    check_has_rule(task)
    for name, names, expected in (
        ("INPUTS", program.inputs, input_names(task)),
        ("OUTPUTS", program.outputs, output_names(task)),
    ):
        if names != expected:
            raise ConfigError(
                [
                    f"program: expected the {len(expected)} {name} of task {task.name!r}, "
                    f"{expected[0]} ... {expected[-1]}, got {len(names)} others"
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


def check_output_precedes_read(model: nn.Module) -> None:
    """Check that a network's output depends only on its state, its input and earlier reads.

    Raises:
        ConfigError: the read vector of a step reaches its output.
    """
    if any(isinstance(part, MemoryRNN) and part.output_read_vector for part in model.modules()):
        raise ConfigError(
            [
                "model: with output_read_vector its output depends on the read vector of the same "
                "step, but a row of an automaton's table has only earlier reads; train one without "
                "it (--model.output_read_vector false)"
            ]
        )


def check_saturated(model: nn.Module, words: Batch) -> None:
    """Check that every gate is saturated on some strings.

    Raises:
        ConfigError: one is not; the message has the certainty of each head.
    """
    device = next(model.parameters()).device
    heads = certainties(model, words, saturated=SATURATED, device=device)
    unsaturated = {name: certainty for name, certainty in heads.items() if certainty.unsaturated}
    if not heads or unsaturated:
        details = "; ".join(
            f"{name} has certainty {certainty.least:.4f} at least; of its "
            f"{certainty.gates} gates {certainty.unsaturated} are below {SATURATED}"
            for name, certainty in unsaturated.items()
        )
        raise ConfigError(
            [
                f"model: its gates are not saturated ({details or 'it has none'}), so it is no "
                "automaton yet. `unbounded harden RUN` makes them 0 or 1; if that was tried, "
                "`hardened` in the run's report.json gives its reason to end"
            ]
        )


def input_names(task: Task) -> tuple[str, ...]:
    """Names of the inputs; a symbol of the target that is fed back is marked."""
    names = list(task.input_vocabulary)
    return tuple(
        f"said {name}" if name in names[:place] else name for place, name in enumerate(names)
    )


def output_names(task: Task) -> tuple[str, ...]:
    """Names of the answers."""
    names = tuple(task.output_vocabulary)
    return (f"no {names[0]}", names[0]) if task.objective == "binary" else names


def _text(automaton: Automaton | Program, batch: Batch, row: int) -> str:
    tokens: list[Any] = batch.inputs[row, : int(batch.lengths[row])].tolist()
    return shortened([automaton.inputs[token] for token in tokens])
