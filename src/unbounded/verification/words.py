"""Words and what is said of them: every one of a small alphabet, and drawn long ones.

The words are walked as a tree: each beginning that several of them share is read once, and its
state is taken up again by each of its continuations. Only the answers to sources are said word by
word.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from unbounded.errors import ConfigError
from unbounded.models.memory_room import with_room
from unbounded.tasks import Batch, LengthRange, Task, TransductionTask
from unbounded.verification.findings import Finding, assess, course_of
from unbounded.verification.margins import ReadingRange, answer_margins
from unbounded.verification.network import Network, pick
from unbounded.verification.options import VerifyOptions
from unbounded.verification.shared import CHUNK_TOKENS, joined, shortened

Look = Callable[[str, float], None]

#: Words of one tree: the states of all of them are held at once.
_TREE = 4096
#: Words of one length whose readings are looked at: of every word spread evenly over all of them,
#: of drawn ones the first.
_READ = 50


def word_findings(
    model: nn.Module, task: Task, options: VerifyOptions, look: Look
) -> Iterator[Finding]:
    """What is found at each length, first of every word, then of drawn ones.

    Args and errors as for `stream_findings`.
    """
    reading = ReadingRange()
    usual = _with_examples(task, task.train_lengths.maximum)
    if usual is not None:
        # What is read of words as they usually are says in what range it lies.
        batch = task.batch(options.seed, "test", 0, min(options.count, _READ), usual)
        assess(model, batch, task.objective, reading=reading)
    listed: set[int] = set()
    for length in range(1, options.most + 1):
        count = task.count_of(length, options.alphabet)
        # Two bigrams or digits may count as one: what a word is long is seen when it is there.
        if count is None or count * length > options.symbols_each:
            break
        if not count:
            continue
        batch = task.every(length, options.alphabet)
        if int(batch.lengths.sum()) > 2 * options.symbols_each + 2 * count:
            break
        # Of brackets these are all words there are; of sources those of other symbols are left.
        if task.layout == "labels":
            listed.add(length)
        yield _every(model, task, batch, length, reading, look)
    for length in options.drawn_lengths(task.train_lengths.maximum):
        lengths = _with_examples(task, length)
        if lengths is not None and length not in listed:
            yield _drawn(model, task, lengths, length, options, reading, look)


def _with_examples(task: Task, length: int) -> LengthRange | None:
    """The range of this length, or of this and the next where there are even ones alone."""
    for last in (length, length + 1):
        try:
            lengths = LengthRange(length, last)
            task.batch(0, "test", 0, 1, lengths)
        except ConfigError:
            continue
        return lengths
    return None


def _every(
    model: nn.Module,
    task: Task,
    batch: Batch,
    length: int,
    reading: ReadingRange,
    look: Look,
) -> Finding:
    some = torch.linspace(0, len(batch.inputs) - 1, min(_READ, len(batch.inputs))).long()
    read = Batch(*(field[some] for field in batch))
    displaced = assess(model, read, task.objective, reading=reading).displaced
    roomy, _ = with_room(model, batch.inputs.shape[1])
    network = Network(roomy)
    told = (batch.lengths - batch.mask.sum(dim=1)).tolist()
    if len(set(told)) != 1:
        raise ConfigError([f"task {task.name}: sources of length {length} differ in length"])
    parts = []
    for start in range(0, len(batch.inputs), _TREE):
        look(f"every word of length {length}", start / len(batch.inputs))
        own = slice(start, start + _TREE)
        part = Batch(*(field[own] for field in batch))
        margins, certainty = walk(network, part, told[0], task.objective)
        right = margins > 0
        wrong = None if bool(right.all()) else _text(task, part, int(right.int().argmin()))
        least = None if certainty is None else float(certainty.min())
        parts.append(
            Finding(
                length,
                True,
                len(right),
                int(right.sum()),
                float(margins.min()),
                least,
                displaced,
                wrong,
            )
        )
    return joined(parts)


def walk(network: Network, batch: Batch, told: int, objective: str) -> tuple[Tensor, Tensor | None]:
    """Run a network over sequences, and read what their beginnings share once.

    Args:
        network: begins anew.
        batch: rows [B, T] in any order.
        told: steps before the first that is judged; later ones are taken row by row.
        objective: of the task.
    Returns:
        the least margin of each row's answers, [B], and the least certainty of a decision on its
        way, [B]; None where nothing is decided.
    """
    state: Any = None
    sure: Tensor | None = None
    node = torch.zeros(len(batch.inputs), dtype=torch.int64)
    for step in range(told):
        # A beginning is that of the step before and one more symbol.
        named = torch.stack([node, batch.inputs[:, step]], dim=1)
        beginnings, child = torch.unique(named, dim=0, return_inverse=True)
        if state is not None:
            state = pick(state, beginnings[:, 0])
        steps, state = network.run(beginnings[:, 1:], state, said=slice(0, 0), decisions_only=True)
        certainty = network.certainty(steps)
        if certainty is not None:
            before = 1.0 if sure is None else sure[beginnings[:, 0]]
            sure = certainty[:, 0].clamp(max=1.0).minimum(torch.as_tensor(before))
        node = child
    # One state a row from here on.
    state = None if state is None else pick(state, node)
    steps, _ = network.run(batch.inputs[:, told:], state, decisions_only=True)
    margins = answer_margins(
        steps.logits, batch.targets[:, told:], batch.mask[:, told:], objective
    ).amin(dim=1)
    certainty = network.certainty(steps)
    if certainty is None:
        return margins, None
    place = torch.arange(told, batch.inputs.shape[1])
    inside = place < batch.lengths.unsqueeze(1)
    least = torch.where(inside, certainty, 1.0).amin(dim=1)
    return margins, least if sure is None else least.minimum(sure[node])


def _drawn(
    model: nn.Module,
    task: Task,
    lengths: LengthRange,
    length: int,
    options: VerifyOptions,
    reading: ReadingRange,
    look: Look,
) -> Finding:
    """Words that are drawn, a few at a time."""
    parts: list[Finding] = []
    done = 0
    while done < options.count:
        name = f"{options.count} drawn words of length {length}"

        def check(name: str = name, done: int = done) -> None:
            look(name, done / options.count)

        one = task.batch(options.seed, "test", done, 1, lengths)
        size = max(1, min(options.count - done, CHUNK_TOKENS // one.inputs.shape[1]))
        if done < _READ:
            size = min(size, _READ - done)
        batch = task.batch(options.seed, "test", done, size, lengths)
        assessment = assess(
            model, batch, task.objective, reading=reading if done < _READ else None, check=check
        )
        right = assessment.right
        parts.append(
            Finding(
                length,
                False,
                size,
                int(right.sum()),
                float(assessment.margin.min()),
                None if assessment.certainty is None else float(assessment.certainty.min()),
                assessment.displaced,
                None if bool(right.all()) else _text(task, batch, int(right.int().argmin())),
                None if done else course_of(assessment),
            )
        )
        done += size
    return joined(parts)


def _text(task: Task, batch: Batch, row: int) -> str:
    """A word in symbols, and where it is a source what should be answered."""
    steps, said = int(batch.lengths[row]), batch.mask[row]
    if task.layout == "labels":
        return shortened([task.input_vocabulary[t] for t in batch.inputs[row, :steps].tolist()])
    # Before the source of a transduction stands <s>; a program begins with its first character.
    begin = int(isinstance(task, TransductionTask))
    tokens = batch.inputs[row, begin : steps - int(said.sum())].tolist()
    wanted = batch.targets[row][said].tolist()
    if wanted[-1] == task.end_token:
        wanted = wanted[:-1]
    return (
        f"{shortened([task.input_vocabulary[token] for token in tokens])} ||| "
        f"{shortened([task.output_vocabulary[token] for token in wanted])}"
    )
