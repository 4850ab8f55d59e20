"""Brackets with a label at each prefix, against a counter in plain Python."""

from __future__ import annotations

import torch

from unbounded.tasks import LengthRange, make_task


def labels_by_hand(word: str) -> list[int]:
    height, sound, labels = 0, True, []
    for bracket in word:
        height += 1 if bracket == "(" else -1
        sound = sound and height >= 0
        labels.append(int(sound and height == 0))
        height = max(height, 0)
    return labels


def test_labels_are_those_of_a_counter():
    task = make_task("dyck_prefixes")
    positive = 0
    for source, target in task.examples(2, "train", 0, 400):
        assert 2 <= len(source) <= 24
        by_hand = labels_by_hand("".join(source))
        # After a bracket that closes nothing no longer prefix is balanced.
        assert [int(label) for label in target] == by_hand
        positive += sum(by_hand)
    assert positive > 400  # both labels are frequent
    assert any(source[0] == ")" for source, _ in task.examples(2, "train", 0, 400))


def test_a_batch_is_its_examples():
    task = make_task("dyck_prefixes", train_lengths="3:7")
    batch = task.batch(1, "train", 5, 4)
    for row, (source, target) in enumerate(task.examples(1, "train", 5, 4)):
        length = len(source)
        assert batch.lengths[row] == length == batch.mask[row].sum()
        assert batch.inputs[row, :length].tolist() == ["()".index(b) for b in source]
        assert batch.targets[row, :length].tolist() == [int(label) for label in target]
        assert batch.inputs[row, length:].sum() == batch.targets[row, length:].sum() == 0
    alone = task.batch(1, "train", 7, 1)
    assert torch.equal(alone.inputs[0], batch.inputs[2, : alone.inputs.shape[1]])
    assert task.objective == "binary"
    assert len(task.output_vocabulary) == 1
    assert str(task.short_example(1).inputs.shape[1]) <= "9"
    assert task.split_lengths("test") == LengthRange(25, 48)
