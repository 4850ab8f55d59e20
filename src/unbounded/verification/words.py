"""Verify answers to strings: to all strings over a small alphabet, and to drawn long strings.

The strings are read as a tree. Each shared prefix is read once, and its state is used for all its
continuations. Only the answers to sources are computed separately for each string.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from unbounded.errors import ConfigError
from unbounded.memories import index_state
from unbounded.models.memory_room import with_room
from unbounded.tasks import Batch, LengthRange, Task, TransductionTask
from unbounded.verification.findings import (
    CHUNK_TOKENS,
    Finding,
    assess,
    course_of,
    finding_of,
    joined,
    shortened,
)
from unbounded.verification.margins import ReadVectorRange, answer_margins
from unbounded.verification.network import Network
from unbounded.verification.options import VerifyOptions

Look = Callable[[str, float], None]

#: Number of strings in one tree. The states of all these strings are in memory at once.
_TREE = 4096
#: Number of strings of one length for which read vectors are measured. Measured strings are evenly
#: spaced among all strings, or are the first of the drawn strings.
_READ = 50


def word_findings(
    model: nn.Module, task: Task, options: VerifyOptions, look: Look, train_lengths: LengthRange
) -> Iterator[Finding]:
    """The findings at each length, first for all strings, then for drawn strings.

    Args and errors are as for `stream_findings`.
    """
    read_vector = ReadVectorRange()
    longest = with_examples(task, train_lengths.maximum)
    if longest is not None:
        # The read vectors of typical strings define their components' ranges.
        batch = task.batch(options.seed, "test", 0, min(options.count, _READ), longest)
        assess(model, batch, task.objective, read_vector=read_vector)
    listed: set[int] = set()
    first = 0 if task.has_empty and options.most else 1
    for length in range(first, options.most + 1):
        count = task.count_of(length, options.alphabet)
        # Bigrams or digit pairs may count as one, so the length in symbols is known only after
        # listing.
        if count is None or count * max(length, 1) > options.symbols_each:
            break
        if not count:
            continue
        batch = task.determined(task.every(length, options.alphabet))
        if int(batch.lengths.sum()) > 2 * options.symbols_each + 2 * count:
            break
        # For brackets, these are all strings. For sources, strings over other symbols remain.
        if task.layout == "labels":
            listed.add(length)
        yield _every(model, task, batch, length, read_vector, look)
    for length in options.drawn_lengths(train_lengths.maximum):
        lengths = with_examples(task, length)
        if lengths is not None and length not in listed:
            yield _drawn(model, task, lengths, length, options, read_vector, look)


def with_examples(task: Task, length: int) -> LengthRange | None:
    """The range of a length, or of this length and up to two more for a task without this one."""
    for last in range(length, length + 3):
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
    read_vector: ReadVectorRange,
    look: Look,
) -> Finding:
    sample_rows = torch.linspace(0, len(batch.inputs) - 1, min(_READ, len(batch.inputs))).long()
    read = Batch(*(field[sample_rows] for field in batch))
    displaced = assess(model, read, task.objective, read_vector=read_vector).displaced
    roomy, _ = with_room(model, batch.inputs.shape[1])
    network = Network(roomy)
    prompt_steps = batch.mask.int().argmax(dim=1).tolist()
    if len(set(prompt_steps)) != 1:
        raise ConfigError(
            f"task {task.name}: sources of length {length} have prompts of different lengths"
        )
    parts = []
    for start in range(0, len(batch.inputs), _TREE):
        look(f"all strings of length {length}", start / len(batch.inputs))
        tree_rows = slice(start, start + _TREE)
        part = Batch(*(field[tree_rows] for field in batch))
        margins, certainty = walk(network, part, prompt_steps[0], task.objective)
        text = partial(_text, task, part)
        parts.append(finding_of(length, True, margins, certainty, displaced, text))
    return joined(parts)


def walk(
    network: Network, batch: Batch, prompt_steps: int, objective: str
) -> tuple[Tensor, Tensor | None]:
    """Run a network over sequences, and read shared prefixes once.

    A bidirectional network reads each sequence in one call.

    Args:
        network: starts from its initial state.
        batch: rows [B, T] in any order.
        prompt_steps: steps before the first judged one; later steps run row by row.
        objective: the task's objective.
    Returns:
        the least margin of each row's answers, [B], and its least certainty of a gate, [B]; None
        without gates.
    """
    lengths: Tensor | None = None
    if network.in_one_call:
        prompt_steps, lengths = 0, batch.lengths
    # All sources of a length have one initial state.
    state = network.started(Batch(*(field[:1] for field in batch)))
    least_certainty: Tensor | None = None
    node = torch.zeros(len(batch.inputs), dtype=torch.int64)
    for step in range(prompt_steps):
        # A prefix is the prefix at the previous step and one more symbol.
        pairs = torch.stack([node, batch.inputs[:, step]], dim=1)
        prefixes, child = torch.unique(pairs, dim=0, return_inverse=True)
        if state is not None:
            state = index_state(state, prefixes[:, 0])
        steps, state = network.run(prefixes[:, 1:], state, logit_steps=slice(0, 0), gates_only=True)
        certainty = network.certainty(steps)
        if certainty is not None:
            earlier = 1.0 if least_certainty is None else least_certainty[prefixes[:, 0]]
            least_certainty = certainty[:, 0].clamp(max=1.0).minimum(torch.as_tensor(earlier))
        node = child
    # From here on each row has its own state.
    state = None if state is None else index_state(state, node)
    steps, _ = network.run(batch.inputs[:, prompt_steps:], state, lengths, gates_only=True)
    margins = answer_margins(
        steps.logits, batch.targets[:, prompt_steps:], batch.mask[:, prompt_steps:], objective
    ).amin(dim=1)
    certainty = network.certainty(steps)
    if certainty is None:
        return margins, None
    place = torch.arange(prompt_steps, batch.inputs.shape[1])
    inside = place < batch.lengths.unsqueeze(1)
    least = torch.where(inside, certainty, 1.0).amin(dim=1)
    return margins, least if least_certainty is None else least.minimum(least_certainty[node])


def _drawn(
    model: nn.Module,
    task: Task,
    lengths: LengthRange,
    length: int,
    options: VerifyOptions,
    read_vector: ReadVectorRange,
    look: Look,
) -> Finding:
    """Draw strings, a few at a time."""
    parts: list[Finding] = []
    done = 0
    while done < options.count:
        name = f"{options.count} drawn strings of length {length}"
        one = task.batch(options.seed, "test", done, 1, lengths)
        size = max(1, min(options.count - done, CHUNK_TOKENS // one.inputs.shape[1]))
        if done < _READ:
            size = min(size, _READ - done)
        batch = task.determined(task.batch(options.seed, "test", done, size, lengths))
        assessment = assess(
            model,
            batch,
            task.objective,
            read_vector=read_vector if done < _READ else None,
            check=partial(look, name, done / options.count),
        )
        parts.append(
            finding_of(
                length,
                False,
                assessment.margin,
                assessment.certainty,
                assessment.displaced,
                partial(_text, task, batch),
                None if done else course_of(assessment),
            )
        )
        done += size
    return joined(parts)


def _text(task: Task, batch: Batch, row: int) -> str:
    """A string as symbols, and the correct answer if the string is a source."""
    steps, judged = int(batch.lengths[row]), batch.mask[row]
    if task.layout == "labels":
        return shortened([task.input_vocabulary[t] for t in batch.inputs[row, :steps].tolist()])
    # A transduction's source follows <s>; a program starts with its first character.
    first = int(isinstance(task, TransductionTask))
    tokens = batch.inputs[row, first : steps - int(judged.sum())].tolist()
    if task.source_end_token in tokens:  # computation tokens follow the source
        tokens = tokens[: tokens.index(task.source_end_token)]
    expected = batch.targets[row][judged].tolist()
    if expected[-1] == task.end_token:
        expected = expected[:-1]
    return (
        f"{shortened([task.input_vocabulary[token] for token in tokens])} ||| "
        f"{shortened([task.output_vocabulary[token] for token in expected])}"
    )
