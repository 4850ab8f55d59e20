"""The Neural Queue: first in, first out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from unbounded import kernels
from unbounded.memories.push_pop import PushPopMemory
from unbounded.memories.state import portable
from unbounded.memories.strengths import (
    PushPop,
    pop_strengths,
    read_rows,
    read_weights,
)


@portable
class QueueState(NamedTuple):
    """Rows of a queue and their strengths; row 0 is the oldest.

    Fields:
        values: V_t, [B, N, M].
        strengths: s_t, [B, N], in [0, 1].
    """

    values: Tensor
    strengths: Tensor


class NeuralQueue(PushPopMemory[QueueState]):
    """A queue of vectors whose pushes and pops have a strength between 0 and 1.

    Args:
        width: M, size of the stored vectors.
        pop_bias: initial bias of the pop head. With -1 pushed values live long enough for push and
            pop to receive gradients (Appendix B).
        push_bias: initial bias of the push head. None keeps the random draw: initial pushes are
            near 0.5. With 3 they are near 1, and a network learns less often to push strength 0.5
            and read two rows at once, which cannot be hardened.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, eq. 1, 4, 5.
    """

    State = QueueState
    first_read = "bottom"

    @property
    def kernel(self) -> kernels.Structure:
        """The queue of the fused kernels."""
        return kernels.structures.Queue(self.width)

    def step(self, state: QueueState, instruction: PushPop) -> tuple[Tensor, QueueState]:
        """Pop, push, then read, for one time step.

        V_t[i] = V_{t-1}[i] for i < t;  V_t[t] = v_t                                             (1)
        s_t[i] = max(0, s_{t-1}[i] - max(0, u_t - sum_{j<i} s_{t-1}[j]));  s_t[t] = d_t          (4)
        r_t = sum_i min(s_t[i], max(0, 1 - sum_{j<i} s_t[j])) V_t[i]                             (5)

        Args:
            state: values [B, N, M]; strengths [B, N] in [0, 1].
            instruction: value [B, M]; push and pop [B] in [0, 1].
        Returns:
            read vector [B, M] and the next state, one row longer.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
        Source: Grefenstette et al. 2015, arXiv:1506.02516, eq. 1, 4, 5; ties as in footnote 1.
        """
        self.check_kinds(state, instruction)
        self.check_instruction(instruction, state.strengths.shape[0])
        self.check_state(state, state.strengths.shape[0], instruction.value)
        popped = pop_strengths(state.strengths, instruction.pop, "bottom")
        values = torch.cat([state.values, instruction.value.unsqueeze(1)], dim=1)
        strengths = torch.cat([popped, instruction.push.unsqueeze(1)], dim=1)
        read_vector = read_rows(read_weights(strengths, "bottom"), values)
        return read_vector, QueueState(values, strengths)
