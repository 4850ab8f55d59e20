"""A memory with every kind of field, and memories with learned initial values."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor, nn

import unbounded as ub
from unbounded.kernels._structures import BY_TYPE
from unbounded.memories import Constant, Drawn, FirstOne, Head, Learned, Memory, StateField
from unbounded.memories.core import ACTIVATIONS
from unbounded.memories.register import Register

UNIFORM = partial(nn.init.uniform_, a=0.25, b=0.75)
NORMAL = partial(nn.init.normal_, std=0.5)


class ToyInstruction(NamedTuple):
    value: Tensor
    move: Tensor


class ToyState(NamedTuple):
    """cells [B, N, 2], marks [B, N'], head [B, 2, 5], centre [B, 2], noise [B, 3]."""

    cells: Tensor
    marks: Tensor
    head: Tensor
    centre: Tensor
    noise: Tensor


class Toy(Memory[ToyState, ToyInstruction]):
    """Two fields that grow differently, and three of a fixed size."""

    Instruction = ToyInstruction
    State = ToyState

    def __init__(self, capacity=None):
        self.capacity = capacity

    def __repr__(self):
        return f"Toy(capacity={self.capacity})"

    @property
    def heads(self):
        return Head("value", (2,), "tanh"), Head("move", (), "sigmoid")

    @property
    def read_vector_size(self):
        return 2

    @property
    def read_vector_initializer(self):
        return Learned(UNIFORM)

    @property
    def state_fields(self):
        rows = Learned(NORMAL, torch.tanh)
        return (
            StateField("cells", ("N", 2), (1, 1), 3, self.capacity, -1.0, rows),
            StateField("marks", ("N",), (0, 1), 1, empty=0.5, initializer=Constant(2)),
            StateField("head", (2, 5), initializer=FirstOne()),
            StateField("centre", (2,), initializer=Learned(UNIFORM)),
            StateField("noise", (3,), initializer=Drawn(NORMAL)),
        )

    @property
    def observed_fields(self):
        cells, marks, head, _, _ = self.state_fields
        return marks, cells._replace(name="sums", shape=("N",)), head

    def observe(self, state):
        return {"marks": state.marks, "sums": state.cells.sum(-1), "head": state.head}

    def step(self, state, instruction):
        batch_size = instruction.value.shape[0]
        self.check_instruction(instruction, batch_size)
        self.check_state(state, batch_size, instruction.value)
        move = instruction.move[:, None, None]
        cells = self.state_fields[0].padded(state.cells, 1) * 0.5 + instruction.value[:, None]
        marks = torch.cat([state.marks, instruction.move[:, None]], dim=1)
        head = move * state.head.roll(1, -1) + (1 - move) * state.head
        centre = state.centre * 0.9 + instruction.value
        read_vector = cells.mean(1) + centre * head[:, 0, :1] + state.noise.sum(1, keepdim=True)
        return read_vector, ToyState(cells, marks, head, centre, state.noise)


class LearnedStack(ub.NeuralStack):
    """A stack with two initial rows that are parameters; it uses the kernel of any stack."""

    @property
    def state_fields(self):
        values = Learned(NORMAL, torch.tanh)
        return (
            StateField("values", ("N", self.width), (0, 1), 2, initializer=values),
            StateField("strengths", ("N",), (0, 1), 2, initializer=Learned(UNIFORM)),
        )


class LearnedCells(ub.SuperpositionStack):
    """Superposition stacks with four learned initial cells and a learned initial read vector."""

    @property
    def read_vector_initializer(self):
        return Learned(NORMAL)

    @property
    def cells_field(self):
        rows = Learned(UNIFORM)
        return StateField("cells", (self.count, "N"), (0, 1), 4, empty=-1.0, initializer=rows)


for _kind in (LearnedStack, LearnedCells):  # they differ only in initial values
    BY_TYPE[_kind] = BY_TYPE[_kind.__base__]

LIBRARY = {
    "register": partial(Register, 3),
    "stack": partial(ub.NeuralStack, 3),
    "queue": partial(ub.NeuralQueue, 3),
    "deque": partial(ub.NeuralDeque, 3),
    "superposition_stack": partial(ub.SuperpositionStack, 2),
    "full_superposition_stack": partial(ub.SuperpositionStack, 2, capacity=4,
        overflow="drop_bottom"),
    "superposition_list": partial(ub.SuperpositionList, 2),
    "full_superposition_list": partial(ub.SuperpositionList, 2, capacity=3, overflow="drop_ends"),
    "superposition_list_of_zeros": partial(ub.SuperpositionList, 2, capacity=3,
        overflow="drop_ends", empty=0),
    "superposition_stack_of_vectors": partial(ub.SuperpositionStack, 2, width=3, empty=0.5,
        activation="tanh"),
    "full_superposition_list_of_vectors": partial(ub.SuperpositionList, 1, capacity=3,
        overflow="drop_ends", width=2, activation="identity"),
    "turing_tape": partial(ub.TuringTape, 7, 3),
    "rolling_tape": partial(ub.memories.RollingTape, 7, 3),
    "nondeterministic_stack": partial(ub.NondeterministicStack, 2, 2),
    "nondeterministic_stack_of_a_learned_bottom": partial(ub.NondeterministicStack, 1, 2, 2,
        window=4),
    "dnc": partial(ub.DNC, 5, 3, 2),
    "dnc_without_links": partial(ub.DNC, 4, 2, 1, links=False),
    "turing_tape_of_two_papers": partial(ub.TuringTape, 5, 2, 2, 3, "zero", shift_range=2,
        variant="deleu2016"),
    "learned_turing_tape": partial(ub.TuringTape, 4, 2, initial_cells="learned",
        initial_weights="learned", reads="before"),
    "random_turing_tape": partial(ub.TuringTape, 4, 2, initial_cells="random",
        initial_weights="uniform", shift_range=0),
    "lie_access": partial(ub.LieAccessMemory, 3),
    "lie_access_of_2017": partial(ub.LieAccessMemory, 2, weighting="softmax", variant="2017",
        key_size=3),
    "learned_lie_access": partial(ub.LieAccessMemory, 2, "sphere", initial="learned",
        key_gate=False),
    "learned_lie_access_of_2017": partial(ub.LieAccessMemory, 2, "learned_bound_sphere",
        variant="2017", initial="learned"),
    "lie_access_of_many_heads": partial(ub.LieAccessMemory, 2, "poincare_disk", "softmax",
        read_heads=2, write_heads=3, capacity=6),
    "learned_lie_access_of_many_heads": partial(ub.LieAccessMemory, 2, "rotation",
        initial="learned", read_heads=2, write_heads=2, key_size=3),
    "random_access": partial(ub.RandomAccessMemory, 2, 3, sharpening=True),
    "learned_random_access_with_a_tape": partial(ub.RandomAccessMemory, 2, 3, tape=True,
        initial="learned"),
    "full_learned_lie_access": partial(ub.LieAccessMemory, 2, "rotation", "softmax",
        initial="learned", capacity=4, drop=2),
}  # fmt: skip
TOYS = {
    "toy": Toy,
    "full_toy": partial(Toy, 8),
    "learned_stack": partial(LearnedStack, 3),
    "learned_cells": partial(LearnedCells, 2),
}
EVERY = {**LIBRARY, **TOYS}


def random_instructions(memory, batch, steps, seed=0, dtype=torch.float64):
    """Instructions [B, T, ...] as a controller's heads could give them."""
    generator = torch.Generator().manual_seed(seed)
    return memory.Instruction(
        *(
            ACTIVATIONS[head.activation](
                torch.randn(batch, steps, *head.shape, generator=generator, dtype=dtype)
            )
            for head in memory.heads
        )
    )


def run(memory, state, instructions):
    """The read vectors and the state after some instructions; none if T = 0."""
    if instructions[0].shape[1] == 0:
        return None, state
    return memory.unroll(instructions, state, backend="reference")


def orders_with_holes(memory, batch, steps, seed):
    """Random instructions, some of strength 0."""
    instructions = random_instructions(memory, batch, steps, seed)
    generator = torch.Generator().manual_seed(seed)
    holes = torch.rand(instructions.strength.shape, generator=generator) < 0.3
    return instructions._replace(strength=torch.where(holes, 0, instructions.strength))


def check_gradients(memory, instructions, state, twice=None, **options):
    """float64 gradcheck of an unroll in all fields of instruction and state; `twice` of those."""
    count = len(instructions)

    def run(*tensors):
        start = memory.State(*tensors[count:])
        read_vectors, final = memory.unroll(
            memory.Instruction(*tensors[:count]), start, "reference"
        )
        return read_vectors, *final

    tensors = [tensor.detach().clone().requires_grad_() for tensor in (*instructions, *state)]
    assert torch.autograd.gradcheck(run, tensors, **options)
    assert twice is None or torch.autograd.gradgradcheck(run, tensors, **twice)
