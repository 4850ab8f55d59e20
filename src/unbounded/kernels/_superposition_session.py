"""A forward pass over superposition memories that can be continued, without gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from unbounded.kernels._library import Call, Handle
from unbounded.kernels._shapes import CONTROLLERS, DTYPES
from unbounded.kernels._superposition import CheckedCells
from unbounded.kernels._superposition_shapes import MixtureOptions, MixtureSizes, block_steps


class SuperpositionSession:
    """Packed weights, cells and the controller's state between runs.

    A step costs the cells there are; their room is enlarged by doubling. Tensors have been checked.
    """

    def __init__(
        self,
        structure: str,
        controller: str,
        checked: CheckedCells,
        options: MixtureOptions,
        capacity: int,
    ) -> None:
        self._controller, self._checked = controller, checked
        count = checked.memory.shape[1]
        self._sizes = MixtureSizes(
            structure,
            count,
            options.depth,
            checked.head_weight.shape[0] // count - 1,
            0,
            options.capacity or 0,
            options.strict,
        )
        self._open(checked[6:], max(1, capacity))

    def _open(self, initial: tuple[Tensor, ...], room: int) -> None:
        self._hidden, self._cell, self._reading, self._memory0 = initial
        self._sizes = self._sizes._replace(cells=self._memory0.shape[2])
        self._room, self._done = room, 0
        kind = CONTROLLERS[self._controller]
        call = self._call(0)
        self._handle = Handle(self._sizes.code, kind.code, DTYPES[self._hidden.dtype], call)

    def _call(self, steps: int) -> Call:
        checked, call = self._checked, Call()
        inputs = checked.weight_ih.shape[1] - self._reading.shape[1]
        self._sizes.set(call, steps)
        call.capacity, call.first_step, call.block = self._room, self._done, block_steps(0)
        call.batch, call.hidden = self._hidden.shape
        call.weight_ih_stride, call.inputs = checked.weight_ih.shape[1], inputs
        call.weight_ih = checked.weight_ih.data_ptr() + inputs * checked.weight_ih.element_size()
        for name, tensor in (
            ("weight_hh", checked.weight_hh),
            ("bias_ih", checked.bias_ih),
            ("bias_hh", checked.bias_hh),
            ("head_weight", checked.head_weight),
            ("head_bias", checked.head_bias),
            ("hidden0", self._hidden),
            ("cell0", self._cell),
            ("reading0", self._reading),
            ("memory0", self._memory0),
        ):
            setattr(call, name, None if tensor is None else tensor.data_ptr())
        return call

    def run(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Run over x [T, B, I] and return h of every step [T, B, H]; `lengths` counts from here."""
        x = x.contiguous()
        steps, batch, _ = x.shape
        if self._done + steps > self._room:
            self._open(self.state(), max(2 * self._room, 2 * steps))
        new = x.new_empty
        hidden, kind = self._hidden.shape[1], CONTROLLERS[self._controller]
        outputs, gates = new(steps, batch, hidden), new(steps * batch, kind.lanes * hidden)
        planes = self._sizes.planes(x, batch, min(steps, block_steps(0)))
        rings = {"cells": new(2, *self._cell.shape), "readings": new(2, *self._reading.shape)}
        last = tuple(torch.empty_like(t) for t in (self._hidden, self._cell, self._reading))
        overflow = self._sizes.overflow(x, batch, self._done + steps)
        call = self._call(steps)
        for name, tensor in (
            ("x", x),
            ("lengths", lengths),
            ("gates", gates),
            ("outputs", outputs),
            *rings.items(),
            ("planes", planes),
            ("overflow", overflow),
            *zip(("hidden_last", "cell_last", "reading_last"), last, strict=True),
        ):
            setattr(call, name, None if tensor is None else tensor.data_ptr())
        self._handle.run(call)
        self._sizes.check_overflow(overflow)
        self._hidden, self._cell, self._reading = last
        self._done += steps
        return outputs

    def state(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Hidden, cell, reading and the cells of the memory."""
        batch, count, _ = self._memory0.shape
        memory = self._memory0.new_empty(batch, count, self._sizes.grown(self._done))
        call = self._call(0)
        call.memory_last = memory.data_ptr()
        self._handle.finish(call)
        return self._hidden, self._cell, self._reading, memory
