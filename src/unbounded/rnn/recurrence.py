"""The loop over time, which runs controller, heads and memory at each step.

    x_t, r_{t-1} -> controller -> h_t -> heads -> instruction_t -> memory.step -> r_t, state_t

This is the reference implementation; the fused kernels compute the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbounded.errors import ShapeError
from unbounded.memories import Memory
from unbounded.memories.core import without_autocast
from unbounded.rnn.controllers import ControllerState, check_next_state


class RecurrenceState(NamedTuple):
    """Carried state of one layer's loop between steps.

    Fields:
        controller: (h,) or for an LSTM (h, c), each [B, H].
        read_vector: r_{t-1}, [B, R].
        memory: the memory's state.
    """

    controller: tuple[Tensor, ...]
    read_vector: Tensor
    memory: Any


class Recorder:
    """Collects the arrays of a trace, step by step."""

    def __init__(self, memory: Memory[Any, Any]) -> None:
        self._memory = memory
        self.instructions: list[tuple[Tensor, ...]] = []
        self.read_vectors: list[Tensor] = []
        self.observations: list[dict[str, Tensor]] = []

    def record(self, instruction: tuple[Tensor, ...], read_vector: Tensor, state: Any) -> None:
        """Append one step."""
        self.instructions.append(instruction)
        self.read_vectors.append(read_vector)
        observation = dict(self._memory.observe(state))
        declared = [field.name for field in self._memory.observed_fields]
        if list(observation) != declared:
            raise ShapeError(
                f"{type(self._memory).__name__}.observe: expected the observed_fields, "
                f"{', '.join(declared)}, got {', '.join(observation)}."
            )
        self.observations.append(observation)

    def arrays(self) -> dict[str, Tensor]:
        """Return all arrays by name, [B, T, ...]. Rows that do not exist yet are empty."""
        arrays = {
            f"instruction.{head.name}": torch.stack([step[k] for step in self.instructions], 1)
            for k, head in enumerate(self._memory.heads)
        }
        steps = len(self.observations)
        for field in self._memory.observed_fields:
            arrays[field.name] = torch.stack(
                [
                    field.padded(observation[field.name], steps - 1 - t)
                    for t, observation in enumerate(self.observations)
                ],
                dim=1,
            )
        arrays["read_vector"] = torch.stack(self.read_vectors, dim=1)
        return arrays


def _where(active: Tensor | None, new: Tensor, old: Tensor) -> Tensor:
    return new if active is None else torch.where(active.unsqueeze(-1), new, old)


def run_recurrence(
    controller: Callable[[Tensor, ControllerState], ControllerState],
    heads: Callable[[Tensor], tuple[Tensor, ...]],
    memory: Memory[Any, Any],
    inputs: Tensor,
    state: RecurrenceState,
    lengths: Tensor | None = None,
    recorder: Recorder | None = None,
) -> tuple[Tensor, Tensor, RecurrenceState]:
    """Run the loop over time.

    Args:
        controller: maps (inputs [B, I + R], state) to the next state, h first.
        heads: maps h [B, H] to the fields of an instruction.
        inputs: [T, B, I].
        state: the initial state.
        lengths: int64 [B]; beyond them a sequence's state stays, and h and r are 0.
        recorder: receives every step, for a trace.
    Returns:
        h [T, B, H] and r [T, B, R] of every step, and the state after the last one.
    """
    outputs, read_vectors = [], []
    controller_state, read_vector, memory_state = state
    for t, x in enumerate(inputs.unbind(0)):
        active = None if lengths is None else lengths > t
        new_controller_state = controller(torch.cat([x, read_vector], dim=-1), controller_state)
        if t == 0:
            check_next_state(new_controller_state, controller_state)
        hidden = new_controller_state[0]
        instruction = memory.Instruction(*heads(hidden))
        executed = instruction if active is None else memory.idle(active, instruction)
        with without_autocast(x.device):
            result = memory.step(memory_state, executed)
        if t == 0:
            memory.check_step_result(result, executed[0])
        new_read_vector, new_memory_state = result
        outputs.append(_where(active, hidden, torch.zeros_like(hidden)))
        read_vectors.append(_where(active, new_read_vector, torch.zeros_like(new_read_vector)))
        read_vector = _where(active, new_read_vector, read_vector)
        if active is None:
            memory_state = new_memory_state
        else:
            memory_state = memory.hold(active, new_memory_state, memory_state)
        controller_state = tuple(
            _where(active, new, old)
            for new, old in zip(new_controller_state, controller_state, strict=True)
        )
        if recorder is not None:
            recorder.record(instruction, read_vector, memory_state)
    last = RecurrenceState(controller_state, read_vector, memory_state)
    return torch.stack(outputs), torch.stack(read_vectors), last
