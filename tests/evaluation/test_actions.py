"""The table of actions, on a constructed counter."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import unbounded as ub
from tests import constructions
from tests.constructions import model_of, stream_model
from unbounded.errors import ChoiceError, ConfigError, MemoryOverflowError
from unbounded.evaluation import action_cells, action_rows, action_table, read_symbols
from unbounded.evaluation.actions import gate_rows
from unbounded.models import SequenceModel, discretized
from unbounded.tasks import LengthRange, make_task


def counter():
    """h = (a was read, b was read): pushes for a, pops for b; the next is b while the top holds."""
    model = stream_model(
        vocabulary=2, hidden_size=2, count=1, depth=1, backend="reference"
    ).sequence
    weights = {
        "layer.layers.0.controller.weight_ih": [[40, -40, 0], [-40, 40, 0]],
        "layer.layers.0.heads.weight": [
            [40, 0],
            [0, 40],
            [0.0, 0],
        ],  # PUSH, POP, the value sigma(0)
        "output.weight": [[3, 0], [0, 3]],
    }
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.tensor(weights[name]))
    return model


def test_the_table_has_each_stacks_action():
    rows = action_rows(counter(), make_task("anbn"), "aabba")
    # A stream starts after the last letter of the alphabet.
    assert [row.current for row in rows] == list("baabb")
    assert [row.following for row in rows] == list("aabba")
    assert [row.actions for row in rows] == [("POP",), ("PUSH",), ("PUSH",), ("POP",), ("POP",)]
    assert [round(row.tops[0], 6) for row in rows] == [-1.0, 0.5, 0.5, 0.5, -1.0]
    assert all(row.weights[0] > 0.999 for row in rows)
    assert [row.predicted for row in rows] == list("baabb")
    high = 1 / (1 + 2.718281828459045**-3)
    chances = [1 - high, high, 1 - high, high, 1 - high]
    assert [row.probability for row in rows] == pytest.approx(chances)
    assert action_table(rows).splitlines() == [
        "current  next  predicted  p(next)  action 1  top 1",
        "b        a     b          0.05     POP       -1.00",
        "a        a     a          0.95     PUSH      0.50",
        "a        b     a          0.05     PUSH      0.50",
        "b        b     b          0.95     POP       0.50",
        "b        a     b          0.05     POP       -1.00",
    ]


@pytest.mark.parametrize("name", ["memorization", "binary_addition", "anbncn"])
def test_the_actions_of_a_stream_use_the_scored_inputs(name):
    """Its first input is included, so each prediction is the one that is scored."""
    task = make_task(name, sequences=2)
    torch.manual_seed(1)
    size = len(task.input_vocabulary)
    model = stream_model(vocabulary=size, hidden_size=4, count=2)
    batch = task.batch(0, "test", 0, 1, LengthRange(3, 5))
    text = [task.output_vocabulary[token] for token in batch.targets[0].tolist()]
    rows = action_rows(model, task, text)
    logits, _ = model(batch.inputs)
    assert [row.following for row in rows] == text
    assert rows[0].current == task.before == task.input_vocabulary[-1]
    predicted = [task.output_vocabulary[token] for token in logits[0].argmax(dim=-1).tolist()]
    assert [row.predicted for row in rows] == predicted


def test_a_list_shows_the_cell_at_its_head():
    torch.manual_seed(0)
    model = stream_model(vocabulary=2, memory="superposition_list", count=3).sequence
    rows = action_rows(model, make_task("anbn"), "aab")
    _, state = model.layer(model.embed(torch.tensor([[1, 0, 0]])))
    assert rows[-1].tops == pytest.approx(tuple(state.memory.cells[0, :, 3].tolist()))
    assert set(rows[0].actions) <= {"RIGHT", "LEFT", "INSERT"}


def test_a_stream_model_with_soft_actions():
    """The counter that predicts the end of a word too; its actions are soft, then one-hot."""
    model, task = constructions.counter(2, 1), make_task("anbn")
    with torch.no_grad():
        model.sequence.layer.layers[0].heads.weight[:] *= 0.3
    text = read_symbols(task, "ab aabb aaabbb a")
    soft = action_table(action_rows(model, task, text)).splitlines()
    assert soft[2].split()[:4] == ["a", "b", "a", "0.00"]
    assert " PUSH 0.94 " in soft[2]
    rows = action_rows(discretized(model), task, text)
    assert [row.following for row in rows] == list("abaabbaaabbba")
    assert [row.predicted for row in rows] == list("aaaaabaaaabba")
    assert [row.actions[1] for row in rows] == [
        {"a": "PUSH", "b": "POP"}[row.current] for row in rows
    ]
    assert all(row.weights == (1.0, 1.0) for row in rows)
    assert [row.tops[1] for row in rows] == [-1, *(0.5, -1), *(0.5, 0.5, 0.5, -1), *[0.5] * 5, -1]
    assert "PUSH 0" not in action_table(rows)


def test_words_beyond_the_capacity_are_read_with_room():
    model = constructions.counter()
    memory = model.sequence.layer.memory
    model.sequence.layer.memory = memory.with_capacity(4)
    text = "ab" + "a" * 9 + "b" * 9 + "a"
    rows = action_rows(discretized(model), make_task("anbn"), text)
    # Every b but the first of a word is predicted, and the a after the last b.
    assert [row.predicted for row in rows] == list("aaa" + "a" * 9 + "b" * 8 + "a")
    assert model.sequence.layer.memory.capacity == 4


def test_a_running_text_leaves_the_memory_its_capacity(tmp_path):
    for split in ("train", "valid", "test"):
        (tmp_path / f"{split}.txt").write_text("a b\n")
    task = make_task("text", data=tmp_path)
    torch.manual_seed(0)
    model = stream_model(3, hidden_size=3, count=1, capacity=3, overflow="error")
    words = ["a", "b", "<eos>"] * 4
    with pytest.raises(MemoryOverflowError):
        action_rows(model, task, words)


def test_further_stacks_follow_below_where_a_line_has_no_room():
    rows = action_rows(discretized(constructions.counter(5, 1)), make_task("anbn"), "aabba")
    full = action_table(rows).splitlines()
    assert len(full) == 6
    assert action_table(rows, max(map(len, full))).splitlines() == full
    for width in (60, 80, 10):
        blocks = [block.splitlines() for block in action_table(rows, width).split("\n\n")]
        assert max(len(line) for block in blocks for line in block) <= max(width, 55)
        heads = [block[0].split("p(next)")[1].split() for block in blocks]
        numbers = [int(cell) for head in heads for cell in head[1 : len(head) // 2 : 2]]
        assert numbers == [1, 2, 3, 4, 5]
        for block in blocks:
            assert [line.split()[:4] for line in block] == [line.split()[:4] for line in full]
    # Every action and top is shown at any width.
    one = [block.splitlines() for block in action_table(rows, 1).split("\n\n")]
    assert [[block[row].split()[4:] for block in one] for row in range(1, 6)] == [
        [[action, f"{top:.2f}"] for action, top in zip(row.actions, row.tops, strict=True)]
        for row in rows
    ]


def test_a_text_is_read_symbol_by_symbol():
    assert read_symbols(make_task("binary_addition"), " 101 + 1=\n011. ") == list("101+1=011.")
    words = make_task("copy", symbols=3)
    assert read_symbols(words, "s0  s2 s1") == ["s0", "s2", "s1"]
    with pytest.raises(ChoiceError, match=r"unknown symbol of task anbn 'c'.*Valid: a, b"):
        read_symbols(make_task("anbn"), "aabbc")
    with pytest.raises(ConfigError, match=r"symbol 2, 'dog', is not among the \d+ symbols of copy"):
        read_symbols(make_task("copy"), "s0 dog")


@pytest.mark.parametrize("name", ["copy", "svo_sov"])
def test_the_answer_of_pairs_is_fed_back_and_predicted(name):
    """As in training: a target symbol has another token than the source's of that name."""
    torch.manual_seed(2)
    task = make_task(name, **({"symbols": 3} if name == "copy" else {}))
    model = model_of(task, memory={"name": "superposition_stack", "count": 2}, hidden_size=6)
    lengths = LengthRange(4, 4)
    batch, (source, target) = (
        task.batch(1, "test", 0, 1, lengths),
        task.example(1, "test", 0, lengths),
    )
    text = f"<s> {' '.join(source)} ||| {' '.join(target)} </s>"
    symbols = read_symbols(task, text)
    rows = action_rows(model, task, symbols)
    with torch.no_grad():
        probabilities = torch.softmax(model(batch.inputs)[0][0], dim=-1)
    assert [row.current for row in rows] == symbols[:-1]
    assert [row.following for row in rows] == symbols[1:]
    for t, (row, counts) in enumerate(zip(rows, batch.mask[0].tolist(), strict=True)):
        best = task.output_vocabulary[int(probabilities[t].argmax())]
        assert row.predicted == (best if counts else "")
        probability = float(probabilities[t, batch.targets[0, t]])
        assert row.probability == pytest.approx(
            probability if counts else float("nan"), nan_ok=True
        )
    before, after = action_table(rows).splitlines()[1::5][:2]
    assert before.split()[:3] == ["<s>", source[0], rows[0].actions[0]]
    assert after.split()[:2] == ["|||", target[0]]
    # A prefix of it is accepted too, and so is only the source.
    assert action_cells(action_rows(model, task, symbols[:7])) == action_cells(rows[:6])
    assert [row.predicted for row in action_rows(model, task, symbols[:6])] == [""] * 5


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("s1 s2 |||", {"s1": 1}),
        ("||| s1", {"|||": 1}),
        ("<s> ||| <s> |||", {"<s>": 3, "|||": 4}),
        ("<s> s1 <s> ||| s1", {"<s>": 3}),
        ("<s> s1 </s>", {"</s>": 3}),
        ("<s> s1 ||| </s> s1", {"</s>": 4}),
    ],
)
def test_misplaced_special_symbols_of_pairs_are_reported(text, wrong):
    task = make_task("copy", symbols=3)
    model = stream_model(vocabulary=8, hidden_size=3, count=1)
    with pytest.raises(ConfigError) as caught:
        action_rows(model, task, read_symbols(task, text))
    assert list(caught.value.errors) == [
        f"symbols: expected <s> SOURCE ||| TARGET </s>, got {symbol!r} as symbol {place}, where it "
        "cannot stand"
        for symbol, place in wrong.items()
    ]


@pytest.mark.parametrize("name", ["dyck", "answer_copy", "ntm_copy"])
def test_a_task_whose_input_is_not_predicted(name):
    task = make_task(name)
    model = stream_model(vocabulary=len(task.input_vocabulary), hidden_size=3, count=1)
    with pytest.raises(ConfigError, match=r"expected one that predicts what it reads.*explore RUN"):
        action_rows(model, task, task.input_vocabulary[:2])


def test_bad_input():
    task = make_task("anbn")
    with pytest.raises(ConfigError, match="it reads 2 symbols, but task anbncn has 3"):
        action_rows(counter(), make_task("anbncn"), "abc")
    with pytest.raises(ChoiceError, match="unknown symbol of task anbn 'x'"):
        action_rows(counter(), task, "abx")
    with pytest.raises(ConfigError, match="symbols: expected at least two, got 1"):
        action_rows(counter(), task, "a")
    layer = ub.MemoryRNN(2, 3, ub.NeuralStack(2), batch_first=True)
    with pytest.raises(ConfigError, match="expected one with superposition"):
        action_rows(SequenceModel(2, 2, None, layer, 3), task, "ab")


def test_a_blank_that_is_a_symbol_can_be_typed(tmp_path: Path) -> None:
    """A blank may be a symbol, not only a separator."""
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"a b{n}\tb a{n}\n" for n in range(60)))
    task = make_task("pairs", data=str(file), characters=True)
    typed = "<s> a \N{OPEN BOX} b ||| b \N{OPEN BOX} a"
    assert read_symbols(task, typed) == ["<s>", "a", " ", "b", "|||", "b", " ", "a"]
    with pytest.raises(ConfigError, match="symbol"):
        read_symbols(make_task("copy", symbols=80), "s0 \N{OPEN BOX}")


def _model(memory):
    torch.manual_seed(0)
    return SequenceModel(2, 2, 4, ub.MemoryRNN(4, 4, memory, batch_first=True), 4)


@pytest.mark.parametrize(
    ("memory", "titles"),
    [
        (ub.RollingTape(8, 2, 2), ["action 1", "action 2"]),
        (
            ub.DNC(4, 2, 1),
            ["free gate", "erase 1", "erase 2", "allocation gate", "write gate", "read mode"],
        ),
        (ub.TuringTape(4, 20), ["read gate", "read shift", "write gate", "write shift"]),
        (ub.NeuralDeque(2), ["top push", "top pop", "bottom push", "bottom pop"]),
        (ub.RandomAccessMemory(2, 2, tape=True), ["strength", "link"]),
        (ub.SuperpositionStack(2), ["action 1", "action 2"]),
    ],
)
def test_the_gates_of_any_memory_have_names(memory, titles):
    model = _model(memory)
    head, *rows = gate_rows(model, make_task("anbn"), "aab")
    assert list(head[4:]) == titles
    assert [row[1] for row in rows] == list("aab")
    with torch.no_grad():
        _, _, trace = model.layer(model.embed(torch.tensor([[1, 0, 0]])), return_trace=True)
    for step, row in enumerate(rows):
        shown = iter(row[4:])
        for declared in memory.heads:
            if not declared.gate or declared.size > 10:
                continue
            field = trace.arrays[f"instruction.{declared.name}"][0, step]
            gates = (
                field.reshape(-1, len(declared.choices)) if declared.choices else field.flatten()
            )
            for gate in gates:
                if declared.choices:
                    name = declared.choices[int(gate.argmax())].replace("_", " ")
                    assert next(shown) == f"{name} {float(gate.max()):.2f}"
                else:
                    assert next(shown) == f"{float(gate):.2f}"
