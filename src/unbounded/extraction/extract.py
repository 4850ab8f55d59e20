"""Extract the automaton of a network with saturated gates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
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
from unbounded.extraction.classes import Classes, Key, differs, key_of, outcome_of, usual_of
from unbounded.extraction.equivalence import Agreement, agreement
from unbounded.extraction.memories import shape_of
from unbounded.extraction.observation import Node, Observations, observe
from unbounded.extraction.program import Program
from unbounded.extraction.refinement import refine
from unbounded.models.gates import certainties
from unbounded.rnn import MemoryLayer
from unbounded.tasks import Batch, LengthRange, StreamTask, Task
from unbounded.tasks.batch import together
from unbounded.tasks.randomness import Stream
from unbounded.tasks.streams import Sequences, lay_out, lay_out_alone
from unbounded.tasks.task import check_task
from unbounded.verification.findings import shortened
from unbounded.verification.network import Network
from unbounded.verification.verify import check_alphabet, count_of, rule_error
from unbounded.verification.words import with_examples

Outcome = tuple[Hashable, ...]
#: With more states than this, merges of pairs of states are not tried.
MOST_TRIED = 40


def merge_states(observations: Observations, classes: Classes) -> Classes:
    """Merge states of the classes as far as trials succeed.

    Args:
        seen: the observations of a network.
        classes: closed; others are returned unchanged.
    """
    states = sorted(set(classes.state))
    if not classes.closed or len(states) > MOST_TRIED:
        return classes
    groups: dict[Key, list[Outcome]] = defaultdict(list)
    for child in range(1, len(observations.nodes)):
        groups[key_of(observations, classes, child)].append(
            outcome_of(observations, classes, child)
        )
    table = {key: usual_of(outcomes) for key, outcomes in groups.items()}
    name = {state: state for state in states}
    for place, first in enumerate(states):
        for second in states[place + 1 :]:
            if name[first] != name[second]:
                name = _folded(table, name, first, second) or name
    return Classes([name[state] for state in classes.state], classes.symbol, True, 1.0)


def _folded(
    table: dict[Key, Outcome], name: dict[int, int], first: int, second: int
) -> dict[int, int] | None:
    """The names of the states after a merge; None if it contradicts the table."""
    name = _joined(name, first, second)
    while True:
        outcomes_so_far: dict[Key, Outcome] = {}
        again = False
        for (state, symbol, read), outcome in table.items():
            key = (name[state], symbol, read)
            after = outcome[-1]
            named = (*outcome[:-1], name[after] if isinstance(after, int) else None)
            other = outcomes_so_far.setdefault(key, named)
            part = differs([other, named])
            if part is None:
                # Undetermined parts of one outcome are taken from the other.
                both = zip(other, named, strict=True)
                outcomes_so_far[key] = tuple(b if a is None else a for a, b in both)
                continue
            if part < len(named) - 1:
                return None
            a, b = other[-1], named[-1]
            assert isinstance(a, int)
            assert isinstance(b, int)
            name, again = _joined(name, a, b), True
            break
        if not again:
            return name


def _joined(name: dict[int, int], first: int, second: int) -> dict[int, int]:
    kept, merged = sorted((name[first], name[second]))
    return {state: kept if current == merged else current for state, current in name.items()}


def with_fewest(observations: Observations, classes: Classes) -> tuple[Observations, Classes]:
    """Remove stacks or lists one by one, and then cells that are read, starting with the last.

    After the removal, the classes must close with no more states and symbols than before.

    Args:
        seen: the observations of a network.
        classes: their classes; if these do not close, nothing is removed.
    """
    if not classes.closed or observations.shape.structure not in ("Stacks", "Lists"):
        return observations, classes
    number = 0
    while number < observations.shape.options[0] and observations.shape.options[0] > 1:
        kept = [s for s in range(observations.shape.options[0]) if s != number]
        smaller = _tried(part_of(observations, kept, observations.shape.options[1]), classes)
        if smaller is None:
            number += 1
        else:
            observations, classes = smaller
    while observations.shape.options[1] > 1:
        count, depth = observations.shape.options
        smaller = _tried(part_of(observations, range(count), depth - 1), classes)
        if smaller is None:
            break
        observations, classes = smaller
    return observations, classes


def part_of(observations: Observations, kept: Sequence[int], depth: int) -> Observations:
    """Return the same observations with only some of the stacks, and fewer read cells."""
    shape, place = observations.shape, {old: new for new, old in enumerate(kept)}
    slots = [s * shape.options[1] + k for s in kept for k in range(depth)]

    def part(node: Node) -> Node:
        read = (node.read[slot] for slot in slots)
        return replace(
            node,
            actions=tuple(node.actions[s] for s in kept) if node.actions else (),
            written=tuple(node.written[s] for s in kept),
            read=tuple(None if cell is None else (cell[0], place[cell[1]]) for cell in read),
        )

    new = shape._replace(
        options=(len(kept), depth),
        values=tuple(range(len(kept))),
        slots=tuple(s for s in range(len(kept)) for _ in range(depth)),
        actions=tuple(shape.actions[s] for s in kept),
    )
    values = [observations.values[s] for s in kept]
    return replace(
        observations, shape=new, nodes=[part(node) for node in observations.nodes], values=values
    )


def _tried(observations: Observations, before: Classes) -> tuple[Observations, Classes] | None:
    smaller = merge_states(observations, refine(observations, before.count + 1))
    return (observations, smaller) if smaller.closed and smaller.count <= before.count else None


#: Largest n for which sequences of a stream are also observed in pairs.
_MOST_PAIRED = 4


def listed_strings(task: Task, symbols: int, budget: int) -> tuple[Batch, int]:
    """List all strings up to a length.

    For streams, also list all pairs of sequences of small n, if the budget is sufficient.

    Args:
        task: with a rule.
        symbols: number of source symbols that occur, the first ones.
        budget: most symbols of all strings together.
    Returns:
        the strings, and the length up to which all are among them.
    Raises:
        ConfigError: the task has no rule, or its strings cannot be listed.
    """
    check_has_rule(task)
    check_alphabet(task, symbols)
    parts: list[Batch] = []
    total, length = 0, 0
    if task.has_empty:
        parts.append(_every(task, 0, symbols))
    while total <= budget:
        count = count_of(task, length + 1, symbols)
        if count is None or count * (length + 1) > budget - total:
            break
        length += 1
        if not count:
            continue
        part = _every(task, length, symbols)
        total += int(part.lengths.sum())
        parts.append(part)
        if isinstance(task, StreamTask) and length <= _MOST_PAIRED:
            both = _pairs(task, length)
            if total + int(both.lengths.sum()) <= budget:
                total += int(both.lengths.sum())
                parts.append(both)
    if not parts:
        raise ConfigError(
            f"task {task.name!r}: its strings cannot be listed within {budget} symbols; give "
            "a larger budget"
        )
    return together(parts), length


def long_strings(task: Task, symbols: int, length: int, count: int, seed: int) -> Batch:
    """Draw strings of one length, over the same symbols.

    Args:
        task, symbols: as for `listed_strings`.
        length: of each.
        count: strings. For streams with fewer sequences of that n, all of them.
        seed: of the draw.
    Raises:
        ConfigError: there is no string of that length.
    """
    if isinstance(task, StreamTask):
        available = task.source.count_of(length)
        if available is not None and 0 < available <= count:
            return lay_out_alone(task.source.every(length), task.source)
        lengths = LengthRange(length, length)
        drawn = task.source.draw(Stream(seed, "test"), 0, count, lengths)
        return lay_out_alone(drawn, task.source)
    few = task.over(symbols)
    return _drawn(task if few is None else few, length, count, seed)


def check_has_rule(task: Task) -> None:
    """Raise ConfigError unless strings of the task can be listed with their correct answers."""
    error = rule_error(task)
    if error is None and count_of(task, 2, 1) is None:
        error = "has no rule from which its strings could be listed"
    if error is not None:
        raise ConfigError(
            f"task {task.name!r} {error}. What can be extracted: automata of streams such as "
            "anbn, of copy, reversal and similar tasks, of sentences and of brackets"
        )


def _every(task: Task, length: int, symbols: int) -> Batch:
    if isinstance(task, StreamTask):
        return lay_out_alone(task.source.every(length), task.source)
    return task.determined(task.every(length, symbols))


def _drawn(task: Task, length: int, count: int, seed: int) -> Batch:
    """Strings of one length, or of the next length with strings."""
    lengths = with_examples(task, length) or LengthRange(length, length)
    return task.determined(task.batch(seed, "test", 0, count, lengths))


def _pairs(task: StreamTask, length: int) -> Batch:
    """All pairs of sequences, of which the longer has a given n, as streams."""
    short = [task.source.every(n) for n in range(task.source.shortest, length + 1)]
    rows = [
        (part.symbols[k], int(part.lengths[k]), int(part.given[k]), n)
        for n, part in enumerate(short, start=task.source.shortest)
        for k in range(len(part.lengths))
    ]
    both = [row for a in rows for b in rows if length in (a[3], b[3]) for row in (a, b)]
    width = max(len(symbols) for symbols, *_ in both)
    padded = np.stack([np.pad(symbols, (0, width - len(symbols))) for symbols, *_ in both])
    sequences = Sequences(
        padded, np.array([row[1] for row in both]), np.array([row[2] for row in both])
    )
    judged = lay_out(sequences, task.source, 2, "all")
    return judged.batch._replace(mask=judged.judged >= 0)


#: Least certainty of a saturated gate.
SATURATED: Final = 0.999
#: Shares of an extraction that count as done after the strings were run, after states and symbols
#: were found, and after these were merged.
_OBSERVED, _REFINED, _MERGED = 0.2, 0.5, 0.6
#: Number of strings to draw at each of the long lengths.
_DRAWN: Final = 20


class Extraction(NamedTuple):
    """An automaton, with data on its extraction.

    Fields:
        automaton: the automaton.
        closed: whether every step of every string agrees with its table.
        determined: the share of steps that agree.
        longest: length up to which all strings were observed.
        strings, prefixes: number of strings, and of their distinct prefixes.
        certainty: of the least saturated gate.
        listed: agreement of automaton and network on these strings.
        drawn: the same on drawn ones, by length.
        example: a string on which they differ; None if they agree.
        shortest: numbers of a short string.
    """

    automaton: Automaton
    closed: bool
    determined: float
    longest: int
    strings: int
    prefixes: int
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
        ConfigError: the task has no rule, the memory is not an automaton over symbols, a gate is
            not saturated, or the read vector reaches the output of the same step.
    """
    _check_arguments(model, task, symbols, budget, lengths, seed)
    check_callable("look", look)
    check_has_rule(task)
    shape_of(Network(model).memory)
    check_output_precedes_read(model)
    strings, longest = listed_strings(task, symbols, budget)
    check_saturated(model, strings)
    observations = observe(
        model, strings, lambda share: look("running the strings", _OBSERVED * share)
    )
    # The number of rounds is unknown.
    refined = refine(
        observations,
        look=lambda count: look(f"finding states and symbols, {count} so far", _OBSERVED),
    )
    look("merging states", _REFINED)
    observations, classes = with_fewest(observations, merge_states(observations, refined))
    automaton = automaton_of(observations, classes, input_names(task), output_names(task))
    look("comparing", _MERGED)
    listed = agreement(automaton, model, strings)
    example = None if listed.first is None else _text(automaton, strings, listed.first)
    drawn: dict[int, Agreement] = {}
    for number, length in enumerate(lengths):
        look(f"comparing at length {length}", _MERGED + (1 - _MERGED) * number / len(lengths))
        batch = long_strings(task, symbols, length, _DRAWN, seed)
        drawn[length] = agreement(automaton, model, batch)
        if example is None and drawn[length].first is not None:
            example = _text(automaton, batch, drawn[length].first or 0)
    row = int((strings.lengths >= min(6, int(strings.lengths.max()))).int().argmax())
    return Extraction(
        automaton,
        classes.closed,
        classes.determined,
        longest,
        len(strings.inputs),
        len(observations.nodes),
        observations.certainty,
        listed,
        drawn,
        example,
        strings.inputs[row, : int(strings.lengths[row])].tolist(),
    )


def _check_arguments(
    model: object, task: object, symbols: int, budget: int, lengths: object, seed: int
) -> None:
    """Raise DTypeError or ShapeError unless the arguments have the types that `extract` expects."""
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
    """Compare a program with a network, as in an extraction.

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
            pairs = enumerate(zip(names, expected, strict=False))
            differ = [f"; {name}[{k}] is {a!r}, not {b!r}" for k, (a, b) in pairs if a != b]
            raise ConfigError(
                f"program: expected the {len(expected)} {name} of task {task.name!r}, "
                f"{expected[0]} ... {expected[-1]}, got {len(names)} others{''.join(differ[:1])}"
            )
    strings, longest = listed_strings(task, symbols, budget)
    batches = {f"every string to length {longest}": strings}
    for length in lengths:
        drawn = long_strings(task, symbols, length, _DRAWN, seed)
        batches[f"drawn strings of length {length}"] = drawn
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
    if any(isinstance(part, MemoryLayer) and part.output_read_vector for part in model.modules()):
        raise ConfigError(
            "model: with output_read_vector its output depends on the read vector of the same "
            "step, but a row of an automaton's table has only earlier reads. Train a model "
            "with --model.output_read_vector false"
        )


def check_saturated(model: nn.Module, strings: Batch) -> None:
    """Check that every gate is saturated on some strings.

    Raises:
        ConfigError: one is not; the message has the certainty of each head.
    """
    device = next(model.parameters()).device
    heads = certainties(model, strings, saturated=SATURATED, device=device)
    unsaturated = {name: certainty for name, certainty in heads.items() if certainty.unsaturated}
    if not heads or unsaturated:
        details = "; ".join(
            f"{name} has certainty {certainty.least:.4f} at least; of its "
            f"{certainty.gates} gates {certainty.unsaturated} are below {SATURATED}"
            for name, certainty in unsaturated.items()
        )
        raise ConfigError(
            f"model: its gates are not saturated ({details or 'it has none'}), so it is not an "
            "automaton yet. `unbounded harden RUN` makes them 0 or 1; if that was tried, "
            "`hardened` in the run's report.json gives its reason for ending"
        )


def input_names(task: Task) -> tuple[str, ...]:
    """Names of the inputs. A target symbol that is fed back is marked."""
    names = list(task.input_vocabulary)
    return tuple(
        f"output {name}" if name in names[:place] else name for place, name in enumerate(names)
    )


def output_names(task: Task) -> tuple[str, ...]:
    """Names of the answers."""
    names = tuple(task.output_vocabulary)
    return (f"no {names[0]}", names[0]) if task.objective == "binary" else names


def _text(automaton: Automaton | Program, batch: Batch, row: int) -> str:
    tokens: list[Any] = batch.inputs[row, : int(batch.lengths[row])].tolist()
    return shortened([automaton.inputs[token] for token in tokens])
