"""The per-symbol update, against plain loops over numbers and against autograd."""

from __future__ import annotations

import functools
import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import unbounded as ub
from unbounded.errors import ConfigError
from unbounded.models import SequenceModel, draw_sums
from unbounded.tasks import Batch, make_task
from unbounded.training.carried_state import CarriedState
from unbounded.training.per_symbol_update import (
    History,
    PerSymbolUpdate,
    gradients,
    step,
    weights_of,
)

HIDDEN, STACKS, DEPTH, CAPACITY = 5, 2, 2, 6


def stack_rnn(
    symbols: int, *, noop: bool = False, recurrent: bool = False, seed: int = 0
) -> SequenceModel:
    torch.manual_seed(seed)
    memory = ub.SuperpositionStack(STACKS, DEPTH, noop, capacity=CAPACITY, overflow="drop_bottom")
    controller = functools.partial(
        ub.ElmanController, activation="sigmoid", recurrent=recurrent, bias=False
    )
    layer = ub.MemoryRNN(
        symbols, HIDDEN, memory, controller, batch_first=True, backend="reference"
    ).double()
    model = SequenceModel(symbols, symbols, None, layer, HIDDEN, output_bias=False).double()
    draw_sums(model, bound=0.8)
    return model


class Plain:
    """The same algorithm with lists of numbers and a loop for every index."""

    def __init__(self, model: SequenceModel, noop: bool, reach: int, clip: float, rate: float):
        cells: Any = model.layer
        self.into = cells.layers[0].controller.weights.weight_ih.tolist()
        across = cells.layers[0].controller.weights.weight_hh
        self.across = None if across is None else across.tolist()
        self.heads = cells.layers[0].heads.weight.tolist()
        self.out = model.output.weight.tolist()
        self.symbols, self.kinds = len(self.out), 3 if noop else 2
        self.reach, self.clip, self.rate = reach, clip, rate
        self.past: list[Any] = []
        self.hidden = [0.0] * HIDDEN
        self.cells = [[-1.0] * CAPACITY for _ in range(STACKS)]
        self.updates = 0

    def bound(self, x: float) -> float:
        return max(-self.clip, min(self.clip, x))

    @staticmethod
    def sigmoid(x: float) -> float:
        return 1 / (1 + math.exp(-x))

    def dot(self, row: list[float], column: list[float]) -> float:
        return sum(a * b for a, b in zip(row, column, strict=True))

    def row_of_action(self, s: int, a: int) -> int:
        return s * self.kinds + a

    def row_of_value(self, s: int) -> int:
        return STACKS * self.kinds + s

    def forward(self, symbol: int) -> list[float]:
        hidden = []
        for j in range(HIDDEN):
            total = self.into[j][symbol]
            for s in range(STACKS):
                for k in range(DEPTH):
                    total += self.into[j][self.symbols + s * DEPTH + k] * self.cells[s][k]
            if self.across is not None:
                total += self.dot(self.across[j], self.hidden)
            hidden.append(self.sigmoid(total))
        actions, cells = [], []
        for s in range(STACKS):
            logits = [
                self.dot(self.heads[self.row_of_action(s, a)], hidden) for a in range(self.kinds)
            ]
            norm = sum(map(math.exp, logits))
            weights = [math.exp(x) / norm for x in logits]
            value = self.sigmoid(self.dot(self.heads[self.row_of_value(s)], hidden))
            old, new = self.cells[s], []
            for i in range(CAPACITY):
                above = value if i == 0 else old[i - 1]
                below = -1.0 if i == CAPACITY - 1 else old[i + 1]
                new.append(weights[0] * above + weights[1] * below)
                if self.kinds == 3:
                    new[-1] += weights[2] * old[i]
            actions.append(weights)
            cells.append(new)
        self.past.append((symbol, self.hidden, self.cells, hidden, actions))
        self.past = self.past[-self.reach :]
        self.hidden, self.cells = hidden, cells
        logits = [self.dot(row, hidden) for row in self.out]
        norm = sum(map(math.exp, logits))
        return [math.exp(x) / norm for x in logits]

    def learn(self, symbol: int, target: int, counts: bool) -> None:
        chances = self.forward(symbol)
        if not counts:
            return
        self.updates += 1
        d_into = [[0.0] * len(self.into[0]) for _ in range(HIDDEN)]
        d_heads = [[0.0] * HIDDEN for _ in self.heads]
        d_across = [[0.0] * HIDDEN for _ in range(HIDDEN)]
        error = [float(v == target) - chances[v] for v in range(self.symbols)]
        d_out = [[error[v] * self.hidden[j] for j in range(HIDDEN)] for v in range(self.symbols)]
        e_h = [
            self.bound(sum(self.out[v][j] * error[v] for v in range(self.symbols)))
            for j in range(HIDDEN)
        ]
        e_s = [[0.0] * CAPACITY for _ in range(STACKS)]
        for back in range(min(self.reach, self.updates, len(self.past))):
            symbol, before, old, hidden, actions = self.past[-1 - back]
            e_old = [[0.0] * CAPACITY for _ in range(STACKS)]
            for s in range(STACKS):
                push, pop = actions[s][0], actions[s][1]
                value = self.sigmoid(self.dot(self.heads[self.row_of_value(s)], hidden))
                e_v = self.bound(e_s[s][0] * push * value * (1 - value))
                e_a = [0.0] * self.kinds
                for i in range(CAPACITY):
                    above = value if i == 0 else old[s][i - 1]
                    below = -1.0 if i == CAPACITY - 1 else old[s][i + 1]
                    e_a[0] += e_s[s][i] * above
                    e_a[1] += e_s[s][i] * below
                    if i > 0:
                        e_old[s][i - 1] += e_s[s][i] * push
                    if i < CAPACITY - 1:
                        e_old[s][i + 1] += e_s[s][i] * pop
                    if self.kinds == 3:
                        e_a[2] += e_s[s][i] * old[s][i]
                        e_old[s][i] += e_s[s][i] * actions[s][2]
                e_a = [self.bound(x) for x in e_a]
                e_old[s] = [self.bound(x) for x in e_old[s]]
                mean = self.dot(e_a, actions[s])
                e_z = [self.bound(w * (x - mean)) for w, x in zip(actions[s], e_a, strict=True)]
                rows = [(self.row_of_action(s, a), e_z[a]) for a in range(self.kinds)]
                for row, e in [*rows, (self.row_of_value(s), e_v)]:
                    for j in range(HIDDEN):
                        d_heads[row][j] += e * hidden[j]
                        e_h[j] += e * self.heads[row][j]
            e_t = [self.bound(e_h[j] * hidden[j] * (1 - hidden[j])) for j in range(HIDDEN)]
            for j in range(HIDDEN):
                d_into[j][symbol] += e_t[j]
            if back == self.reach - 1:
                break
            for s in range(STACKS):
                for k in range(DEPTH):
                    column = self.symbols + s * DEPTH + k
                    for j in range(HIDDEN):
                        d_into[j][column] += e_t[j] * old[s][k]
                        e_old[s][k] += e_t[j] * self.into[j][column]
            e_h = [0.0] * HIDDEN
            if self.across is not None:
                for j in range(HIDDEN):
                    for i in range(HIDDEN):
                        d_across[j][i] += e_t[j] * before[i]
                        e_h[i] += e_t[j] * self.across[j][i]
                e_h = [self.bound(x) for x in e_h]
            e_s = [[self.bound(x) for x in row] for row in e_old]
        parts = [(self.into, d_into), (self.heads, d_heads), (self.out, d_out)]
        if self.across is not None:
            parts.append((self.across, d_across))
        for weights, gradient in parts:
            for row, d_row in zip(weights, gradient, strict=True):
                for i, d in enumerate(d_row):
                    row[i] += self.rate * d


def trainer(model: SequenceModel, reach: int, clip: float, rate: float, **more: Any) -> Any:
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    options = {"carried": CarriedState(), "stop": lambda: 0, **more}
    return PerSymbolUpdate(model, optimizer, reach=reach, clip=clip, **options)


@pytest.mark.parametrize(
    ("task", "noop", "recurrent", "reach", "clip"),
    [
        ("anbn", False, False, 50, 15.0),
        ("anbncn", True, False, 4, 15.0),
        ("anbncn", False, True, 7, 0.05),
        ("binary_addition", True, True, 6, 0.02),
        ("anbn", False, False, 1, 15.0),
    ],
)
def test_per_symbol_updates_equal_plain_loops(
    task: str, noop: bool, recurrent: bool, reach: int, clip: float
) -> None:
    batch = make_task(task, sequences=4).batch(0, "train", 0, 1)
    symbols = len(make_task(task).input_vocabulary)
    model = stack_rnn(symbols, noop=noop, recurrent=recurrent)
    plain = Plain(model, noop, reach, clip, rate=0.5)
    results = list(trainer(model, reach, clip, 0.5, report_steps=9).train(batch, 0))
    for now, then, counts in zip(*(field[0].tolist() for field in batch[:3]), strict=True):
        plain.learn(now, then, counts)
    layer: Any = model.layer
    for got, want in (
        (layer.layers[0].controller.weights.weight_ih, plain.into),
        (layer.layers[0].heads.weight, plain.heads),
        (model.output.weight, plain.out),
    ):
        assert torch.allclose(got, torch.tensor(want, dtype=torch.float64), atol=1e-10)
    assert sum(result.tokens for result in results) == int(batch.mask.sum())
    assert sum(result.symbols for result in results) == batch.inputs.shape[1]
    assert results[-1].done == 1


def test_with_constant_weights_it_is_the_gradient_of_the_last_symbol() -> None:
    model = stack_rnn(2, recurrent=True)
    tokens = torch.tensor([[1, 0, 0, 0, 1, 1, 1]])
    weights, history = weights_of(model.layer, model.output), History.empty(model.layer)
    for symbol in tokens[0].tolist():
        chances = step(weights, history, symbol)
    history.updates = 99
    by_symbol = gradients(weights, history, chances, 0, reach=50, clip=1e9)
    logits, _ = model(tokens)
    (-F.cross_entropy(logits[0, -1:], torch.tensor([0]))).backward()
    layer: Any = model.layer
    into = layer.layers[0].controller.weights.weight_ih.grad
    assert torch.allclose(torch.from_numpy(by_symbol.inputs), into[:, :2])
    assert torch.allclose(torch.from_numpy(by_symbol.stacks).flatten(1), into[:, 2:])
    assert torch.allclose(
        torch.from_numpy(by_symbol.hidden), layer.layers[0].controller.weights.weight_hh.grad
    )
    heads = torch.cat(
        [torch.from_numpy(by_symbol.actions).flatten(0, 1), torch.tensor(by_symbol.values)]
    )
    assert torch.allclose(heads, layer.layers[0].heads.weight.grad)
    assert torch.allclose(torch.from_numpy(by_symbol.output), model.output.weight.grad)


def test_a_resumed_stream_ends_the_same() -> None:
    batch = make_task("anbn", sequences=5).batch(0, "train", 0, 1)
    full = stack_rnn(2)
    list(trainer(full, 5, 15.0, 0.5, report_steps=4).train(batch, 0))
    model, carried = stack_rnn(2), CarriedState()
    steps = trainer(model, 5, 15.0, 0.5, report_steps=4, carried=carried).train(batch, 0)
    next(steps), next(steps)
    kept = carried.state_dict()
    other = CarriedState()
    other.load_state_dict(kept)
    list(trainer(model, 5, 15.0, 0.5, report_steps=4, carried=other).train(batch, 0))
    assert torch.equal(model.output.weight, full.output.weight)
    assert (other.chunk, other.state) == (0, None)


def test_batches_and_models_without_a_per_symbol_update_are_refused() -> None:
    batch = make_task("anbn", sequences=3).batch(0, "train", 0, 2)
    with pytest.raises(ConfigError, match="batch_size: expected 1 stream, got 2"):
        next(trainer(stack_rnn(2), 5, 15.0, 0.1).train(Batch(*batch), 0))
    lists = ub.MemoryRNN(2, 5, ub.SuperpositionList(2), "elman", batch_first=True)
    with pytest.raises(ConfigError, match="only a Stack RNN with an elman controller"):
        trainer(SequenceModel(2, 2, None, lists, 5, output_bias=False), 5, 15.0, 0.1)
    memory = ub.SuperpositionStack(2, capacity=6, overflow="drop_bottom", width=3)
    controller = functools.partial(ub.ElmanController, activation="sigmoid", bias=False)
    vectors = ub.MemoryRNN(2, 5, memory, controller, batch_first=True)
    with pytest.raises(ConfigError, match="cells of one number"):
        trainer(SequenceModel(2, 2, None, vectors, 5, output_bias=False), 5, 15.0, 0.1)
