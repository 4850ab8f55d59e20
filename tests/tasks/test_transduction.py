import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import LengthRange, make_task

NAMES = ["copy", "reversal", "bigram_flip", "svo_sov", "gender"]
TASK = {name: make_task(name) for name in NAMES}


def joint_row(task, source, target, width):
    """One row of a batch from its symbols, step by step."""
    first_target = 2 + len(task.source_vocabulary)
    inputs = [0, *(2 + task.source_vocabulary.index(s) for s in source), 1]
    inputs += [first_target + task.target_vocabulary.index(s) for s in target]
    targets = [0] * (len(source) + 1) + [1 + task.target_vocabulary.index(s) for s in target] + [0]
    mask = [False] * (len(source) + 1) + [True] * (len(target) + 1)
    rest = width - len(inputs)
    return inputs + [0] * rest, targets + [0] * rest, mask + [False] * rest, len(inputs)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("lengths", [None, LengthRange(5, 9)])
def test_rows_are_the_joint_sequences_of_the_examples(name, lengths):
    task = TASK[name]
    batch = task.batch(7, "validation", 40, 12, lengths)
    examples = task.examples(7, "validation", 40, 12, lengths)
    assert batch.inputs.shape[1] == max(len(s) + len(t) + 2 for s, t in examples)
    for row, example in enumerate(examples):
        expected = joint_row(task, *example, batch.inputs.shape[1])
        assert tuple(field[row].tolist() for field in batch) == expected


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**64 - 1),
    split=st.sampled_from(["train", "validation", "test"]),
    start=st.integers(0, 600) | st.integers(2**40, 2**40 + 600),
    size=st.integers(1, 12),
    shortest=st.integers(6, 20),
    extra=st.integers(1, 20),
)
def test_invariants_of_batches(name, seed, split, start, size, shortest, extra):
    task, lengths = TASK[name], LengthRange(shortest, shortest + extra)
    batch = task.batch(seed, split, start, size, lengths)
    prompt = task.prompt(seed, split, start, size, lengths)
    steps = torch.arange(batch.inputs.shape[1])
    assert batch.inputs.shape == batch.targets.shape == batch.mask.shape
    assert batch.inputs.shape == (size, int(batch.lengths.max()))
    assert batch.inputs.dtype == batch.targets.dtype == batch.lengths.dtype == torch.int64
    assert batch.mask.dtype == torch.bool
    assert bool((batch.inputs < len(task.input_vocabulary)).all())
    assert bool((batch.targets < len(task.output_vocabulary)).all())
    within = steps < batch.lengths[:, None]
    assert not batch.mask[~within].any()
    assert not batch.inputs[~within].any()
    assert not batch.targets[~batch.mask].any()
    # The mask starts at ||| and has one </s>, the last; fed-back targets are the inputs.
    for row in range(size):
        masked = torch.nonzero(batch.mask[row])[:, 0]
        assert int(batch.inputs[row, masked[0]]) == 1
        assert int(masked[0]) == int(prompt.lengths[row]) - 1
        assert masked.tolist() == list(range(int(masked[0]), int(batch.lengths[row])))
        answer = batch.targets[row, masked]
        assert (answer == task.end_token).nonzero()[:, 0].tolist() == [len(masked) - 1]
        assert torch.equal(task.output_to_input[answer[:-1]], batch.inputs[row, masked[1:]])
        assert answer.tolist() == prompt.targets[row, : prompt.target_lengths[row]].tolist()
        assert not prompt.targets[row, prompt.target_lengths[row] :].any()
        read = prompt.inputs[row, : prompt.lengths[row]]
        assert torch.equal(read, batch.inputs[row, : len(read)])
        assert not prompt.inputs[row, len(read) :].any()
        assert len(read) - 2 in lengths


@pytest.mark.parametrize("name", NAMES)
def test_an_example_does_not_depend_on_its_batch(name):
    task = TASK[name]
    # 600 at once, in parts across the boundaries at 256 and 512, and one by one.
    full = task.examples(1, "train", 0, 600)
    chunks = [e for start in range(0, 600, 24) for e in task.examples(1, "train", start, 24)]
    assert chunks == full
    assert task.examples(1, "train", 250, 300) == full[250:550]
    assert [task.example(1, "train", index) for index in range(250, 262)] == full[250:262]


@pytest.mark.parametrize("name", NAMES)
def test_splits_have_their_lengths(name):
    task = TASK[name]
    for split, lengths in (
        ("train", LengthRange(8, 64)),
        ("validation", LengthRange(65, 128)),
        ("test", LengthRange(65, 128)),
    ):
        assert task.split_lengths(split) == lengths
        assert all(len(source) in lengths for source, _ in task.examples(0, split, 0, 300))


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("copy", "s46 s4 s40 s34 s53 s54 s88 s117 ||| s46 s4 s40 s34 s53 s54 s88 s117"),
        ("reversal", "s46 s4 s40 s34 s53 s54 s88 s117 ||| s117 s88 s54 s53 s34 s40 s4 s46"),
        ("bigram_flip", "s46 s4 s40 s34 s53 s54 s88 s117 ||| s4 s46 s34 s40 s54 s53 s117 s88"),
        (
            "svo_sov",
            "si12 rpi si14 si23 si1 vi27 vi2 oi21 ||| so12 rpo so14 so23 so1 vo27 oo21 vo2",
        ),
        ("gender", "a ne8 and the me1 we21 we2 ||| ein ng8 und der mg1 wg21 wg2"),
    ],
)
def test_examples_do_not_change(name, line):
    """A change here changes all published numbers; note it under "Numerics" in the changelog."""
    assert str(TASK[name].example(0, "train", 0, LengthRange(6, 8))) == line


def test_special_tokens():
    task = TASK["svo_sov"]
    assert task.input_vocabulary[:2] == ("<s>", "|||")
    assert task.output_vocabulary[task.end_token] == "</s>"
    for output, symbol in enumerate(task.output_vocabulary[1:], start=1):
        assert task.input_vocabulary[task.output_to_input[output]] == symbol
    assert 0 <= int(task.output_to_input[task.end_token]) < len(task.input_vocabulary)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-1, "train", 0, 1), "seed: expected an integer"),
        ((0.5, "train", 0, 1), "seed: expected an integer"),
        ((0, "train", -1, 1), "start: expected an integer"),
        ((0, "train", 1.0, 1), "start: expected an integer"),
        ((0, "train", 2**63, 1), "start: expected an integer"),
        ((0, "train", 0, 0), "size: expected an integer"),
        ((0, "train", 0, 2.0), "size: expected an integer"),
    ],
)
def test_bad_numbers(name, arguments, message):
    with pytest.raises(ConfigError, match=message):
        TASK[name].batch(*arguments)


@pytest.mark.parametrize("name", NAMES)
def test_the_last_valid_index(name):
    task = TASK[name]
    last = task.examples(0, "train", 2**63 - 3, 3)
    assert task.example(0, "train", 2**63 - 1) == last[-1]


def test_bad_split():
    with pytest.raises(ChoiceError, match="unknown split 'dev'"):
        TASK["copy"].batch(0, "dev", 0, 1)
    with pytest.raises(ChoiceError, match="unknown split 'dev'"):
        TASK["copy"].split_lengths("dev")
