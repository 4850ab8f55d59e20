"""A forward pass on the CPU that can be continued, without gradients, for generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import torch
from torch import Tensor

from unbounded.kernels._call import Call, new_call, point, point_array
from unbounded.kernels._controllers import OPTIONAL_WEIGHTS, Weights
from unbounded.kernels._library import Handle
from unbounded.kernels._registry import SESSIONS, lanes_of
from unbounded.kernels._sizes import (
    Sizes,
    check_dtype,
    check_lengths,
    require,
    rows_of,
    sizes_of_recurrence,
)
from unbounded.memories.core.structure import Structure

#: Number of steps in one call. The buffer for the gates of these steps does not grow with the
#: length of a sequence.
_CHUNK_STEPS: Final = 256


class CpuSession:
    """A fused recurrence that runs a few steps at a time; see `open_session`."""

    def __init__(
        self,
        structure: Structure[Any],
        activations: Sequence[str],
        controller: str,
        weights: Weights,
        initial: Sequence[Tensor],
        room: int,
    ) -> None:
        self._controller, self._activations = controller, tuple(activations)
        self._weights = Weights._make(w if w is None else w.detach().contiguous() for w in weights)
        # These are copies, because the caller's tensors may change before the first step reads
        # them.
        state = [tensor.detach().clone(memory_format=torch.contiguous_format) for tensor in initial]
        like = self._weights.weight_ih
        check_dtype("weight_ih", like)
        inputs = max(0, like.shape[-1] - structure.read_vector)
        no_steps = state[0].new_empty(0, state[0].shape[0], inputs)
        self._sizes = sizes_of_recurrence(
            structure, self._activations, controller, no_steps, self._weights, state,
            lanes_of(like),
        )  # fmt: skip
        require(self._weights._asdict(), self._sizes.weights, like, OPTIONAL_WEIGHTS)
        names = self._sizes.state
        require(dict(zip(names, state, strict=True)), names, like)
        self._open(dict(zip(names, state, strict=True)), max(1, room))

    def _open(self, state: dict[str, Tensor], room: int) -> None:
        structure, names = self._sizes.structure, self._sizes.fields
        self._memory0 = [state.pop(name).contiguous() for name in names]
        self._carried, self._room, self._done = state, room, 0
        self._sizes = replace(self._sizes, rows=rows_of(structure, self._memory0))
        self._sizes_by_steps: dict[int, Sizes] = {}  # a cache, as hashing is slow
        shapes, like = self._sizes.state_after(room), self._carried["hidden"]
        self._live = {
            name: like.new_empty(shapes[name])
            for name, field in zip(names, structure.fields, strict=True)
            if field.name in structure.live_fields
        }
        self._handle = Handle(structure.name, self._controller, like.element_size(), self._call(0))

    def _sizes_of(self, steps: int) -> Sizes:
        if steps not in self._sizes_by_steps:
            self._sizes_by_steps[steps] = self._sizes.with_steps(steps)
        return self._sizes_by_steps[steps]

    def _call(self, steps: int) -> Call:
        call = new_call(self._sizes_of(steps), self._activations)
        call.saves, call.room, call.first_step = 0, self._room, self._done
        # The block size is the same for any number of steps, so the buffers are allocated once.
        call.block, call.checkpoint_size = self._sizes.block, 0
        point(call, self._weights._asdict())
        point(call, {f"{name}0": tensor for name, tensor in self._carried.items()})
        point_array(call, "state0", self._memory0)
        point_array(call, "state_last", [self._live.get(name) for name in self._sizes.fields])
        return call

    @torch.no_grad()
    def run(self, x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """See `Session.run`."""
        x = x.contiguous()
        lengths = None if lengths is None else lengths.contiguous()
        sizes, hidden = self._sizes, self._carried["hidden"]
        steps = len(x)
        require({"x": x}, {"x": (steps, sizes.batch, sizes.inputs)}, hidden)
        check_lengths(lengths, sizes.batch, steps)
        if self._done + steps > self._room:
            self._open(self._state(), max(2 * self._room, 2 * steps))
        outputs = x.new_empty(steps, sizes.batch, sizes.hidden)
        read_vectors = x.new_empty(steps, sizes.batch, sizes.structure.read_vector)
        # Allocate cells for two steps, which alternate in a pass that saves nothing, and gates for
        # a chunk.
        kept, chunk_steps = self._sizes_of(2).kept, min(steps, _CHUNK_STEPS)
        cells = x.new_empty(kept["cells"].shape) if "cells" in kept else None
        gates = x.new_empty(chunk_steps, *kept["gates"].shape[1:])
        structure = sizes.structure
        errors = structure.new_errors(x, sizes.batch, sizes.rows, self._done + steps)
        for start in range(0, steps, _CHUNK_STEPS):
            chunk = x[start : start + _CHUNK_STEPS]
            left = None if lengths is None else (lengths - start).clamp(0, len(chunk))
            last = {name: torch.empty_like(tensor) for name, tensor in self._carried.items()}
            call = self._call(len(chunk))
            point(call, {"x": chunk, "lengths": left, "gates": gates, "error": errors})
            point(
                call,
                {"cells": cells, "outputs": outputs[start:], "read_vectors": read_vectors[start:]},
            )
            point(call, {f"{name}_last": tensor for name, tensor in last.items()})
            self._handle.run(call)
            self._carried = last
            self._done += len(chunk)
        structure.check_errors(errors)
        return outputs, read_vectors

    @torch.no_grad()
    def state(self) -> tuple[Tensor, ...]:
        """See `Session.state`."""
        return tuple(tensor.clone() for tensor in self._state().values())

    def _state(self) -> dict[str, Tensor]:
        """Return the state by name, with the rows that exist so far."""
        shapes, structure = self._sizes.state_after(self._done), self._sizes.structure
        new = self._carried["hidden"].new_empty
        last = {
            name: self._live[name] if name in self._live else new(shapes[name])
            for name in self._sizes.fields
        }
        call = self._call(0)
        point_array(call, "state_last", list(last.values()))
        self._handle.finish(call)
        unused_before = structure.growth[0] * (self._room - self._done)
        for name, field in zip(self._sizes.fields, structure.fields, strict=True):
            axis = field.row_axis
            if name in self._live and axis is not None:
                last[name] = last[name].narrow(axis, unused_before, shapes[name][axis])
        return {**self._carried, **last}


SESSIONS["cpu"] = CpuSession
