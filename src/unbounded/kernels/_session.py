"""A forward pass without gradients that can be continued, as generating text needs it."""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.kernels._library import Call, Handle
from unbounded.kernels._shapes import (
    CONTROLLERS,
    DTYPES,
    PARTS,
    STRUCTURES,
    first_row,
)

#: Steps of one call, whose gates need room: what a long sequence needs does not grow with it.
CHUNK_STEPS = 256


class Session:
    """Packed weights, live rows and the controller's state between runs.

    Takes contiguous tensors of one dtype that have been checked. A step costs the live rows that it
    touches; the buffer of values is enlarged by doubling, so that its copies are amortised.
    """

    def __init__(
        self,
        structure: str,
        controller: str,
        weights: tuple[Tensor, Tensor | None, Tensor | None, Tensor | None],
        head_weight: Tensor,
        head_bias: Tensor,
        initial: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
        capacity: int,
    ) -> None:
        self._structure = structure
        self._kind = CONTROLLERS[controller]
        self._weights, self._head = weights, (head_weight, head_bias)
        self._open(initial, max(1, capacity))

    def _open(self, initial: tuple[Tensor, ...], capacity: int) -> None:
        hidden0, cell0, reading0, values0, strengths0 = initial
        batch, rows, width = values0.shape
        parts = PARTS[self._structure]
        self._capacity, self._initial_rows, self._done = capacity, rows, 0
        self._hidden, self._cell, self._reading = hidden0, cell0, reading0
        new = values0.new_empty
        self._values = new(batch, rows + parts * capacity, width)
        first = first_row(self._structure, capacity)
        self._values[:, first : first + rows] = values0
        self._strengths = new(batch, rows + parts * capacity)
        self._graves = (
            new(batch, rows + parts * capacity, dtype=torch.int32),
            new(batch, rows + parts * capacity),
            new(batch, 3, dtype=torch.int32),
        )
        self._strengths0 = strengths0.contiguous()
        call = self._call(0, batch)
        self._handle = Handle(
            STRUCTURES[self._structure], self._kind.code, DTYPES[values0.dtype], call
        )

    def _call(self, steps: int, batch: int) -> Call:
        weight_ih, weight_hh, bias_ih, bias_hh = self._weights
        head_weight, head_bias = self._head
        reading_size = self._reading.shape[1]
        inputs = weight_ih.shape[1] - reading_size
        call = Call()
        call.steps, call.batch, call.hidden = steps, batch, self._hidden.shape[1]
        call.width, call.initial_rows = self._values.shape[2], self._initial_rows
        call.capacity, call.first_step, call.saves = self._capacity, self._done, 0
        call.weight_ih_stride, call.inputs = weight_ih.shape[1], inputs
        call.weight_ih = weight_ih.data_ptr() + inputs * weight_ih.element_size()
        call.weight_hh = None if weight_hh is None else weight_hh.data_ptr()
        call.bias_ih = None if bias_ih is None else bias_ih.data_ptr()
        call.bias_hh = None if bias_hh is None else bias_hh.data_ptr()
        call.head_weight, call.head_bias = head_weight.data_ptr(), head_bias.data_ptr()
        call.hidden0, call.cell0 = self._hidden.data_ptr(), self._cell.data_ptr()
        call.reading0, call.strengths0 = self._reading.data_ptr(), self._strengths0.data_ptr()
        call.values, call.strengths = self._values.data_ptr(), self._strengths.data_ptr()
        graves, strengths, live_range = self._graves
        call.grave_rows, call.grave_strengths = graves.data_ptr(), strengths.data_ptr()
        call.live_range = live_range.data_ptr()
        return call

    def run(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Run over x [T, B, I] and return h of every step [T, B, H]; `lengths` counts from here."""
        x = x.contiguous()
        steps, batch, _ = x.shape
        if self._done + steps > self._capacity:
            self._open(self.state(), max(2 * self._capacity, 2 * steps))
        hidden = self._hidden.shape[1]
        outputs = x.new_empty(steps, batch, hidden)
        chunk = min(steps, CHUNK_STEPS)
        gates = x.new_empty(chunk * batch, self._kind.lanes * hidden)
        cells = x.new_empty(2, *self._cell.shape)
        readings = x.new_empty(2, *self._reading.shape)
        push_pop = x.new_empty(batch, 2 * PARTS[self._structure])
        for begin in range(0, steps, CHUNK_STEPS):
            part = x[begin : begin + CHUNK_STEPS]
            call = self._call(len(part), batch)
            left = None if lengths is None else (lengths - begin).clamp(0, len(part))
            last = tuple(torch.empty_like(t) for t in (self._hidden, self._cell, self._reading))
            call.lengths = None if left is None else left.data_ptr()
            call.x = part.data_ptr()
            call.gates, call.outputs = gates.data_ptr(), outputs[begin].data_ptr()
            call.cells, call.readings = cells.data_ptr(), readings.data_ptr()
            call.instructions = push_pop.data_ptr()
            call.hidden_last, call.cell_last, call.reading_last = (t.data_ptr() for t in last)
            self._handle.run(call)
            self._hidden, self._cell, self._reading = last
            self._done += len(part)
        return outputs

    def state(self) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Hidden, cell, reading, values and strengths; only rows that exist by now."""
        call = self._call(0, self._hidden.shape[0])
        self._handle.finish(call)
        unused = self._capacity - self._done
        begin = unused if self._structure == "deque" else 0
        end = self._values.shape[1] - unused
        return (
            self._hidden,
            self._cell,
            self._reading,
            self._values[:, begin:end],
            self._strengths[:, begin:end],
        )
