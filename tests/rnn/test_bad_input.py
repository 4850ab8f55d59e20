"""Bad input to the layers: messages name the argument, the expected and the actual value."""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.nn.utils.rnn import pack_sequence

import unbounded as ub
from unbounded.errors import (
    BackendWarning,
    ChoiceError,
    ConfigError,
    DTypeError,
    ShapeError,
    StorageError,
    say_once,
)
from unbounded.extraction.memories import shape_of
from unbounded.memories import Head, Memory, StateField
from unbounded.memories.as_data import memory_data
from unbounded.models import MemoryModel, SequenceModel
from unbounded.rnn import Controller

PACKED = pack_sequence([torch.zeros(4, 3), torch.zeros(2, 3)])


def layer(**options):
    return ub.MemoryRNN(3, 5, ub.NeuralStack(4), **options)


@pytest.mark.parametrize(
    ("x", "error", "message"),
    [
        (torch.zeros(4, 2, 7), ShapeError, r"x: expected shape \[T, B, 3\], got \[4, 2, 7\]"),
        (torch.zeros(4, 7), ShapeError, r"x: expected shape \[T, 3\], got \[4, 7\]"),
        (torch.zeros(4), ShapeError, r"x: expected shape"),
        (torch.zeros(0, 2, 3), ShapeError, r"at least one step, got \[0, 2, 3\]"),
        (torch.zeros(4, 2, 3).double(), DTypeError, "x: expected dtype torch.float32"),
        (torch.zeros(4, 2, 3).half(), DTypeError, "x: expected dtype torch.float32 as the layer"),
        (torch.zeros(4, 2, 3).long(), DTypeError, "x: expected dtype torch.float32 as the layer"),
        (torch.zeros(4, 2, 3).to_sparse(), DTypeError, "x: expected a dense tensor"),
        ([[0.0]], DTypeError, "x: expected a tensor, got list"),
        (pack_sequence([torch.zeros(4, 7)]), ShapeError, r"x.data: expected shape \[steps, 3\]"),
    ],
)
def test_inputs(x, error, message):
    with pytest.raises(error, match=message):
        layer()(x)


@pytest.mark.parametrize(
    ("lengths", "error", "message"),
    [
        (torch.tensor([4, 5]), ShapeError, r"lengths: expected 0..4 .*got \[4, 5\]"),
        (torch.tensor([-1, 2]), ShapeError, "lengths: expected 0..4"),
        (torch.tensor([4, 4, 4]), ShapeError, r"lengths: expected shape \[2\], got \[3\]"),
        ([4, 5], ShapeError, r"lengths: expected 0..4 .*got \[4, 5\]"),
        ([2**70, 1], ShapeError, "lengths: expected integers of 64 bits"),
        ([4], ShapeError, r"lengths: expected shape \[2\], got \[1\]"),
        (torch.tensor([4.0, 4.0]), DTypeError, "lengths: expected integers, one per sequence"),
        ([4, 2.0], DTypeError, r"lengths: expected integers, .* got list \[4, 2.0\]"),
        ([True, True], DTypeError, "lengths: expected integers, one per sequence, got list"),
        (PACKED, DTypeError, "lengths: expected integers, one per sequence, got PackedSequence"),
        ({4, 2}, DTypeError, "lengths: expected integers, one per sequence, got set"),
        ({4: 0, 2: 0}, DTypeError, "lengths: expected integers, one per sequence, got dict"),
        *(
            (each, DTypeError, "lengths: expected integers")
            for each in (4, "41", np.array([4.0, 1]))
        ),
    ],
)
def test_lengths(lengths, error, message):
    with pytest.raises(error, match=message):
        layer()(torch.zeros(4, 2, 3), lengths=lengths)


def test_a_batch_without_steps_is_reported_in_its_own_layout():
    with pytest.raises(ShapeError, match=r"at least one step, got \[5, 0, 3\]"):
        layer(batch_first=True)(torch.zeros(5, 0, 3))


def test_swapped_arguments_of_save_trace_are_an_error(tmp_path):
    _, _, trace = layer()(torch.zeros(4, 2, 3), return_trace=True)
    with pytest.raises(DTypeError, match=r"got PosixPath.*save_trace\(path, trace\)"):
        ub.save_trace(trace, tmp_path / "trace")


def test_states():
    model = layer()
    x = torch.zeros(4, 2, 3)
    state = model.initial_state(2)
    with pytest.raises(ShapeError, match="expected a MemoryRNNState"):
        model(x, (torch.zeros(2, 5), torch.zeros(2, 5)))
    with pytest.raises(ShapeError, match=r"hidden \[L, B, H\] with B = 2, .* got \[1, 3, 5\]"):
        model(x, model.initial_state(3))
    with pytest.raises(ShapeError, match=r"state: expected 2 tensor\(s\) .* got 1"):
        model(x, state._replace(cell=()))
    with pytest.raises(DTypeError, match=r"state.read_vector: expected dtype torch.float32"):
        model(x, state._replace(read_vector=state.read_vector.double()))
    with pytest.raises(ShapeError, match=r"x \[T, I\] has no batch, got \[1, 2, 5\]"):
        model(x[:, 0], state)
    _, alone = model(x[:, 0])
    with pytest.raises(ShapeError, match=r"x has a batch, got \[1, 5\] of a call without a batch"):
        model(x, alone)


def test_functions_on_states():
    state = layer().initial_state(2)
    with pytest.raises(DTypeError, match=r"state: expected a tuple of tensors .* got NoneType"):
        ub.detach_state(None)
    with pytest.raises(
        DTypeError, match=r"dtype: expected a floating-point dtype .*, got torch.int64"
    ):
        ub.move_state(state, dtype=torch.int64)
    for rows in (0, torch.tensor(1), np.int64(0), (0, 1), None):
        for kept in (state, state.memory):
            with pytest.raises(DTypeError, match=r"rows: expected a list, a slice or a tensor"):
                ub.index_state(kept, rows)
    with pytest.raises(ShapeError, match=r"rows: expected one axis, \[B'\], got \[1, 2\]"):
        ub.index_state(state, torch.tensor([[0, 1]]))
    with pytest.raises(DTypeError, match=r"rows: expected integers or bools .* got torch.float32"):
        ub.index_state(state, torch.tensor([0.0]))
    for wrong in ([[0, 1]], [0.0], np.array([0.0]), [torch.tensor(0)]):
        with pytest.raises(DTypeError, match=r"rows: expected integers or bools"):
            ub.index_state(state, wrong)
    for rows in (np.array([1, 0]), [np.int64(1), 0], [True, True], slice(2)):
        assert ub.index_state(state, rows).read_vector.shape == state.read_vector.shape
    with pytest.raises(ChoiceError, match=r"unknown learned field 'x'. There is none."):
        ub.NeuralStack(3).initial_state(2, learned={"x": torch.zeros(1)})


@pytest.mark.parametrize("dtype", [torch.int64, "float32"])
def test_dtypes(dtype):
    for build in (
        functools.partial(ub.NeuralStack(3).initial_state, 2),
        functools.partial(ub.MemoryRNN, 3, 5, ub.NeuralStack(4)),
        functools.partial(ub.move_state, layer().initial_state(2)),
    ):
        with pytest.raises(DTypeError, match=f"dtype: .* such as torch.float32, got {dtype!r}"):
            build(dtype=dtype)


class Narrow(Controller):
    """A controller without the arguments of a controller factory."""

    state_size = 1

    def __init__(self, input_size, hidden_size):
        super().__init__()

    def forward(self, inputs, state):
        return state


class Kept(NamedTuple):
    kept: torch.Tensor


class Put(NamedTuple):
    value: torch.Tensor


class Ring(Memory):
    """One vector that is read as it is, or changed by `wrong`."""

    State, Instruction = Kept, Put
    read_vector_size = 3
    heads = (Head("value", (3,), "identity"),)
    state_fields = (StateField("kept", (3,)),)
    wrong = ""

    def step(self, state, instruction):
        kept = state.kept + instruction.value
        grown = torch.cat([kept, kept], dim=-1)
        read = kept[:, :2] if self.wrong == "read_vector" else kept
        after = Kept(grown if self.wrong == "state" else kept)
        results = {"pair": after, "three": (read, after, 1), "tuple": (read, tuple(after))}
        return results.get(self.wrong, (read, after))


def test_the_result_of_a_custom_step_is_checked():
    ring = Ring()
    assert ring.unroll(Put(torch.ones(2, 4, 3)))[0].shape == (2, 4, 3)
    for wrong, message in (
        ("pair", r"Ring.step: expected a pair of the read vector and the next Kept, got Kept"),
        ("three", r"Ring.step: expected a pair .* got tuple of 3"),
        ("tuple", r"Ring.step: expected the next state as Kept\(...\), got tuple"),
        ("read_vector", r"Ring.step: the read vector: expected shape \[2, 3\], got \[2, 2\]"),
        ("state", r"Ring.step: state.kept: expected shape \[2, 3\], got \[2, 6\]"),
    ):
        ring.wrong = wrong
        with pytest.raises(ShapeError, match=message):
            ring.unroll(Put(torch.ones(2, 4, 3)))
        say_once.cache_clear()
        with pytest.warns(BackendWarning), pytest.raises(ShapeError, match=message):
            ub.MemoryRNN(3, 5, ring)(torch.zeros(4, 2, 3))


HEAD, FIELD = Ring.heads[0], Ring.state_fields[0]


class Two(NamedTuple):
    keep: torch.Tensor
    value: torch.Tensor


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("State", None, "Wrong.State: expected a NamedTuple of tensors, got None. Name it"),
        ("Instruction", Memory, "Wrong.Instruction: expected a NamedTuple of tensors"),
        ("heads", HEAD, "Wrong.heads: expected a tuple of Head, got one alone. Put"),
        ("heads", ("value",), "Wrong.heads: expected a tuple of Head, got .'value'"),
        ("heads", lambda self: (HEAD,), "Wrong.heads: expected a property, got a method"),
        ("heads", property(lambda self: Head("value", 3)), "Wrong.heads: .*'activation'"),
        ("heads", (HEAD._replace(shape=3),), r"heads: value: expected a shape such as \(8,\)"),
        (
            "heads",
            (HEAD._replace(shape=(1.5,)),),
            "value: expected an integer >= 1, got 1.5",
        ),
        ("heads", (), "heads: expected one Head or more, got none"),
        ("state_fields", (FIELD._replace(shape=(-3,)),), "integer >= 0, got -3"),
        ("Instruction", Put(None), "Wrong.Instruction: expected a NamedTuple of tensors"),
        ("heads", (HEAD._replace(name="valeu"),), r"fields of Put in .* \(value\), got valeu"),
        ("state_fields", FIELD, "Wrong.state_fields: expected a tuple of StateField, got one"),
        ("state_fields", lambda self: (FIELD,), "state_fields: expected a property, got"),
        ("read_vector_size", lambda self: 3, "read_vector_size: expected a property, got"),
        ("read_vector_size", 3.0, "Wrong.read_vector_size: expected an integer >= 1, got 3.0"),
    ],
)
def test_the_declarations_of_a_custom_memory_are_checked(name, value, message):
    memory = type("Wrong", (Ring,), {name: value})()
    for build in (functools.partial(ub.MemoryRNN, 3, 5), functools.partial(ub.MemoryAttention, 4)):
        with pytest.raises((ShapeError, DTypeError), match=message):
            build(memory)
    with pytest.raises((ShapeError, DTypeError), match=message):
        memory.initial_state(2)


def test_refusals_name_a_custom_memory_by_its_path():
    path = f"{__name__}.Ring"
    with pytest.raises(ConfigError, match=f"model: {path} is not an automaton"):
        shape_of(Ring())
    with pytest.raises(ConfigError, match=r"cannot show a Ring.* `unbounded actions` shows"):
        memory_data(Ring())


class Alone(Controller):
    """Returns its output instead of a state."""

    def __init__(self, input_size, hidden_size, device=None, dtype=None):
        super().__init__()
        self.hidden_size = hidden_size
        self.linear = torch.nn.Linear(input_size, hidden_size)

    def forward(self, inputs, state):
        return self.linear(inputs)


def test_a_controller_returns_a_state():
    message = r"expected the next state, a tuple .* \(1\) with the output first, got Tensor"
    for layer in (
        ub.ControllerRNN(3, 5, Alone, backend="reference"),
        ub.MemoryRNN(3, 5, ub.NeuralStack(4), controller=Alone, backend="reference"),
    ):
        with pytest.raises(ShapeError, match=message):
            layer(torch.zeros(4, 2, 3), lengths=[4, 2])


def test_heads_have_the_order_of_their_instruction():
    heads = Head("value", (3,), "tanh"), Head("keep", (), "sigmoid")
    memory = type("Swapped", (Ring,), {"Instruction": Two, "heads": heads})()
    with pytest.raises(ShapeError, match=r"order \(keep, value\), got value, keep"):
        ub.MemoryRNN(3, 5, memory)


def test_invalid_components():
    with pytest.raises(DTypeError, match=r"size, hidden_size, device=, dtype=\), got Narrow\("):
        ub.MemoryRNN(3, 5, ub.NeuralStack(4), controller=Narrow)
    with pytest.raises(DTypeError, match=r"controller: expected a callable .* got a NoneType"):
        ub.MemoryRNN(3, 5, ub.NeuralStack(4), controller=None)
    with pytest.raises(ConfigError, match=r"activations: expected a mapping .* got 'relu'"):
        ub.TuringTape(8, 4, activations="relu")
    with pytest.raises(ConfigError, match="alpha: expected a finite number, got 'x'"):
        ub.SRCN(3, 5, alpha="x")
    with pytest.raises(ShapeError, match="hidden_size: expected an integer >= 1, got -1"):
        MemoryModel(inputs=3, outputs=3, hidden_size=-1)
    for token in (1.5, True, "a", 3):
        with pytest.raises(ShapeError, match=f"read_only_token: .* of 0..2, got {token!r}"):
            MemoryModel(inputs=3, outputs=3, hidden_size=4, read_only_token=token)
    MemoryModel(inputs=3, outputs=3, hidden_size=4, read_only_token=np.int64(1))


def test_lengths_are_taken_from_any_ordered_sequence():
    x, model = torch.randn(4, 2, 3), layer()
    want, _ = model(x, lengths=[4, 1])
    integers = np.array([4, 1]), torch.tensor([4, 1], dtype=torch.int32)
    for lengths in ({"a": 4, "b": 1}.values(), (n for n in (4, 1)), (4, 1), *integers):
        assert torch.equal(model(x, lengths=lengths)[0], want)


@pytest.mark.parametrize(
    ("build", "names"),
    [
        (layer, "batch_first output_read_vector learn_initial_state bias bidirectional"),
        (functools.partial(ub.ControllerRNN, 3, 5), "batch_first learn_initial_state"),
        (functools.partial(ub.SRCN, 3, 5), "batch_first bias learn_initial_state"),
        (
            functools.partial(ub.DeepLSTM, 3, 5),
            "batch_first skip_input learn_initial_state second_bias",
        ),
        (functools.partial(ub.LSTMController, 3, 5), "bias second_bias"),
        (functools.partial(ub.GRUController, 3, 5), "bias"),
        (functools.partial(ub.ElmanController, 3, 5), "bias second_bias recurrent"),
        (functools.partial(ub.SuperpositionStack, 2), "noop"),
        (functools.partial(ub.SuperpositionList, 2), "noop"),
        (functools.partial(ub.LieAccessMemory, 3), "key_gate action_gate"),
        (functools.partial(ub.TuringTape, 5, 3), "writes_first"),
        (
            functools.partial(MemoryModel, inputs=3, outputs=3),
            "output_bias tied_embeddings output_read_vector learn_initial_state map_initial_state",
        ),
        (
            lambda **options: SequenceModel(
                3, 3, 5, ub.ControllerRNN(5, 5, batch_first=True), 5, **options
            ),
            "output_bias tied_embeddings",
        ),
    ],
)
def test_options_that_must_be_bools(build, names):
    for name in names.split():
        for value in ("no", 0, 2, None):
            if (name, value) == ("action_gate", None):
                continue  # None takes the variant's
            with pytest.raises(DTypeError, match=f"^{name}: expected a bool, got {value!r}"):
                build(**{name: value})
        build(**{name: False})


def test_choices_and_sizes():
    with pytest.raises(DTypeError, match=r"controller: expected a callable .*, got a set"):
        layer(controller={"lstm"})
    expected = r"unknown controller 'lstn'\. Did you mean 'lstm'.* custom class, given as the class"
    with pytest.raises(ChoiceError, match=expected):
        layer(controller="lstn")
    with pytest.raises(ChoiceError, match="unknown backend"):
        layer(backend="gpu")
    with pytest.raises(ChoiceError, match="unknown memory"):
        ub.MemoryRNN(3, 5, "stack")
    with pytest.raises(DTypeError, match=r"got the class NeuralStack. Create one"):
        ub.MemoryRNN(3, 5, ub.NeuralStack)
    with pytest.raises(ShapeError, match="output_size: expected an integer >= 1, got 0"):
        layer(output_size=0)
    with pytest.raises(ChoiceError, match=r"unknown head 'pup'\. Did you mean 'pop'"):
        layer().layers[0].heads.rows("pup")
    with pytest.raises(ChoiceError, match="unknown activation"):
        ub.ElmanController(3, 5, activation="sin")


@pytest.mark.parametrize("backend", ["auto", "reference"])
@pytest.mark.parametrize(
    ("field", "message"),
    [
        ("hidden", r"state\.hidden: expected shape"),
        ("cell", r"state\.cell: expected shape"),
        ("read_vector", r"state\.read_vector: expected a tensor, got NoneType"),
        ("memory", r"state\.memory: expected a StackState of tensors .* got NoneType"),
    ],
)
def test_a_state_with_a_missing_field(backend, field, message):
    rnn, x = layer(backend=backend), torch.zeros(2, 1, 3)
    _, state = rnn(x)
    with pytest.raises((ShapeError, DTypeError), match=message):
        rnn(x, state._replace(**{field: None}))
    bad = state._replace(memory=state.memory._replace(values=None))
    with pytest.raises(ShapeError, match="got StackState of NoneType, Tensor"):
        rnn(x, bad)


@pytest.mark.parametrize("controller", [torch.nn.LSTMCell, torch.nn.LSTMCell(3, 5)])
def test_a_cell_of_torch_is_no_controller(controller):
    """Once it was accepted and failed in the first call."""
    with pytest.raises(DTypeError, match=r"got a LSTMCell\. By name: lstm, gru, elman"):
        layer(controller=controller)


def test_a_trace_for_a_missing_folder(tmp_path):
    trace = layer()(torch.zeros(2, 1, 3), return_trace=True)[-1]
    with pytest.raises(
        StorageError, match=r"writing .*safetensors failed: .*Make the folder first"
    ):
        ub.save_trace(tmp_path / "none" / "trace.safetensors", trace)
