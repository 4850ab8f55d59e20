"""The memory of the differentiable neural computer: slots that are allocated, linked and freed.

Axes: B batch, R read heads, N slots, M width. The symbols follow Graves et al. 2016, Nature 538,
Methods. Cells are addressed by content, written and read as on a Turing tape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from unbounded.checks import check_bool, check_positive
from unbounded.memories.core import Head, Memory, StateField, portable
from unbounded.memories.turing_tape.addressing import LIMIT, content_weights, read, written

#: The read modes of a head, in the order of a mode's weights.
MODES: Final = ("backward", "content", "forward")
#: Least usage in the products of `allocation_weights`, so that no product vanishes.
LEAST_USAGE: Final = 1e-6
#: Usages are compared in steps of 1 / 4096. Without these steps, rounding errors would determine
#: the order of slots that were never written.
USAGE_STEPS: Final = 4096


@portable
class DNCInstruction(NamedTuple):
    """The instruction of R read heads and one write head.

    Fields:
        read_key: k^r, [B, R, M]. read_strength: beta^r, [B, R], at least 1.
        free_gate: f, [B, R] in [0, 1]; 1 frees what the head has just read.
        write_key: k^w, [B, M]. write_strength: beta^w, [B], at least 1.
        erase: e, [B, M] in [0, 1]. write_value: v, [B, M].
        allocation_gate: g^a, [B] in [0, 1]; 1 writes to a free slot, 0 by content.
        write_gate: g^w, [B] in [0, 1]; 0 writes nothing.
        read_mode: pi, [B, R, 3], the weights of `MODES`, which sum to 1.
    """

    read_key: Tensor
    read_strength: Tensor
    free_gate: Tensor
    write_key: Tensor
    write_strength: Tensor
    erase: Tensor
    write_value: Tensor
    allocation_gate: Tensor
    write_gate: Tensor
    read_mode: Tensor


@portable
class LinklessInstruction(NamedTuple):
    """A DNCInstruction without read modes, for a memory without links. Heads read by content."""

    read_key: Tensor
    read_strength: Tensor
    free_gate: Tensor
    write_key: Tensor
    write_strength: Tensor
    erase: Tensor
    write_value: Tensor
    allocation_gate: Tensor
    write_gate: Tensor


@portable
class DNCState(NamedTuple):
    """The cells, and further data about each slot.

    Fields:
        cells: M_t, [B, N, M].
        usage: u_t, [B, N] in [0, 1].
        write_weights: w^w_t, [B, 1, N], with a sum of at most 1. read_weights: w^r_t, [B, R, N].
        links: L_t, [B, N, N]; L_t[i, j] is how much slot i was written after slot j.
        precedence: p_t, [B, N]; how much each slot was the last one written.
    """

    cells: Tensor
    usage: Tensor
    write_weights: Tensor
    read_weights: Tensor
    links: Tensor
    precedence: Tensor


@portable
class LinklessState(NamedTuple):
    """A DNCState without links and precedence."""

    cells: Tensor
    usage: Tensor
    write_weights: Tensor
    read_weights: Tensor


class DNC(Memory[Any, Any]):
    """N slots of M numbers. One head allocates and writes slots, and R heads read and free them.

    A step finds free slots, writes by content or to a free slot, and reads by content or in the
    order of writing, which it records.

    Args:
        slots: N, number of locations. The defaults are the released program's.
        width: M, numbers in a location.
        read_heads: R, number of read heads.
        links: whether the order of writes is kept, which costs N^2 numbers. Without it heads read
            by content alone, and instruction and state have fewer fields.
    Raises:
        ShapeError: a size is not a positive integer. DTypeError: `links` is not a bool.
    Source: Graves et al. 2016, "Hybrid computing using a neural network with dynamic external
        memory", Nature 538, Methods; their program, dnc/access.py and dnc/addressing.py.
    """

    write_strengths = ("write_gate",)

    def __init__(
        self, slots: int = 16, width: int = 16, read_heads: int = 4, links: bool = True
    ) -> None:
        check_positive("slots", slots)
        check_positive("width", width)
        check_positive("read_heads", read_heads)
        check_bool("links", links)
        self.slots, self.width, self.read_heads, self.links = slots, width, read_heads, links
        self.Instruction = DNCInstruction if links else LinklessInstruction
        self.State = DNCState if links else LinklessState

    def __repr__(self) -> str:
        return (
            f"DNC(slots={self.slots}, width={self.width}, read_heads={self.read_heads}, "
            f"links={self.links})"
        )

    @property
    def heads(self) -> tuple[Head, ...]:
        """The fields of the instruction, with the activations of the paper."""
        readers, width = self.read_heads, self.width
        heads = (
            Head("read_key", (readers, width), "identity"),
            Head("read_strength", (readers,), "one_plus_softplus"),
            Head("free_gate", (readers,), "sigmoid", gate=True),
            Head("write_key", (width,), "identity"),
            Head("write_strength", (), "one_plus_softplus"),
            Head("erase", (width,), "sigmoid", gate=True),
            Head("write_value", (width,), "identity"),
            Head("allocation_gate", (), "sigmoid", gate=True),
            Head("write_gate", (), "sigmoid", gate=True),
        )
        mode = Head("read_mode", (readers, len(MODES)), "softmax", gate=True, choices=MODES)
        return (*heads, mode) if self.links else heads

    @property
    def read_vector_size(self) -> int:
        """R M."""
        return self.read_heads * self.width

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """Cells, usage, weights of the heads, links and precedence. Initially all are 0."""
        slots = self.slots
        fields = (
            StateField("cells", (slots, self.width)),
            StateField("usage", (slots,)),
            StateField("write_weights", (1, slots)),
            StateField("read_weights", (self.read_heads, slots)),
        )
        order = StateField("links", (slots, slots)), StateField("precedence", (slots,))
        return (*fields, *order) if self.links else fields

    @property
    def observed_fields(self) -> tuple[StateField, ...]:
        """All fields except the links, which have N^2 numbers in each step."""
        return tuple(field for field in self.state_fields if field.name != "links")

    def observe(self, state: Any) -> Mapping[str, Tensor]:
        """The observed fields by name; see `Memory.observe`."""
        return {field.name: getattr(state, field.name) for field in self.observed_fields}

    def step(self, state: Any, instruction: Any) -> tuple[Tensor, Any]:
        """Free, allocate, write, link, then read.

        u_t = (u_{t-1} + w^w_{t-1} - u_{t-1} w^w_{t-1}) prod_r (1 - f^r w^r_{t-1})
        w^w_t = g^w (g^a a_t + (1 - g^a) C(M_{t-1}, k^w, beta^w))
        M_t = M_{t-1} (1 - w^w_t e) + w^w_t v
        L_t[i, j] = (1 - w^w_t[i] - w^w_t[j]) L_{t-1}[i, j] + w^w_t[i] p_{t-1}[j];  L_t[i, i] = 0
        p_t = (1 - sum_i w^w_t[i]) p_{t-1} + w^w_t
        w^r_t = pi[1] L_t' w^r_{t-1} + pi[2] C(M_t, k^r, beta^r) + pi[3] L_t w^r_{t-1}
        r_t = sum_i w^r_t[i] M_t[i]

        a_t is computed by `allocation_weights`. C is a softmax of beta times cosines, with the same
        number added under the root as in a Turing tape. Cells and keys have the same limits as in a
        Turing tape.

        Args:
            state: see DNCState. instruction: see DNCInstruction.
        Returns:
            read vector [B, R M], head by head, and the next state.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
        Source: Graves et al. 2016, Methods. In the released program no gradient flows from usage
            to the write weights; here it does.
        """
        self.check_step(state, instruction)
        last_written = state.write_weights.squeeze(1)
        usage = used(state.usage, last_written, state.read_weights, instruction.free_gate)
        keys = instruction.write_key.unsqueeze(1).clamp(-LIMIT, LIMIT)
        content = content_weights(keys, instruction.write_strength.unsqueeze(1), state.cells)
        allocation_gate = instruction.allocation_gate.unsqueeze(1)
        allocated = allocation_gate * allocation_weights(usage)
        by_content = (1 - allocation_gate) * content.squeeze(1)
        write_weights = instruction.write_gate.unsqueeze(1) * (allocated + by_content)
        erase, value = instruction.erase.unsqueeze(1), instruction.write_value.unsqueeze(1)
        writes = write_weights.unsqueeze(1)
        cells = written(state.cells, writes, erase, value)
        keys = instruction.read_key.clamp(-LIMIT, LIMIT)
        read_weights = content_weights(keys, instruction.read_strength, cells)
        after: Any = LinklessState(cells, usage, writes, read_weights)
        if self.links:
            links = linked(state.links, state.precedence, write_weights)
            backward, by_key, forward = instruction.read_mode.unsqueeze(-1).unbind(2)
            read_weights = (
                backward * torch.einsum("bij,bri->brj", links, state.read_weights)
                + by_key * read_weights
                + forward * torch.einsum("bij,brj->bri", links, state.read_weights)
            )
            kept = (1 - write_weights.sum(1, keepdim=True)) * state.precedence
            precedence = kept + write_weights
            after = DNCState(cells, usage, writes, read_weights, links, precedence)
        return read(cells, read_weights), after


def used(usage: Tensor, write_weights: Tensor, read_weights: Tensor, free_gates: Tensor) -> Tensor:
    """u_t [B, N], the usage after the last write, reduced by the slots that read heads free.

    Args:
        usage, write_weights: u_{t-1} and w^w_{t-1}, [B, N].
        read_weights: w^r_{t-1}, [B, R, N]. free_gates: f, [B, R].
    """
    kept = (1 - free_gates.unsqueeze(-1) * read_weights).prod(dim=1)  # psi
    return (usage + write_weights - usage * write_weights) * kept


def allocation_weights(usage: Tensor) -> Tensor:
    """a[phi_j] = (1 - u[phi_j]) prod_{i<j} u[phi_i], [B, N], for slots phi in rising usage.

    Usages are compared in steps of 1 / `USAGE_STEPS`. Among equal usages, the first slot comes
    first. The order has no gradient, even if usages are equal. In the formula, u is at least
    `LEAST_USAGE`, as in the released program.

    Args:
        usage: u, [B, N] in [0, 1].
    """
    order = torch.argsort((usage.detach() * USAGE_STEPS).round(), dim=1, stable=True)
    rising = LEAST_USAGE + (1 - LEAST_USAGE) * usage.gather(1, order)
    before = F.pad(rising.cumprod(dim=1)[:, :-1], (1, 0), value=1.0)
    return torch.zeros_like(usage).scatter(1, order, (1 - rising) * before)


def linked(links: Tensor, precedence: Tensor, write_weights: Tensor) -> Tensor:
    """L_t[i, j] = (1 - w[i] - w[j]) L_{t-1}[i, j] + w[i] p_{t-1}[j], without a diagonal, [B, N, N].

    Args:
        links: L_{t-1}, [B, N, N]. precedence: p_{t-1}, [B, N]. write_weights: w^w_t, [B, N].
    """
    later, earlier = write_weights.unsqueeze(2), write_weights.unsqueeze(1)
    after = (1 - later - earlier) * links + later * precedence.unsqueeze(1)
    own = torch.eye(links.shape[1], dtype=torch.bool, device=links.device)
    return after.masked_fill(own, 0.0)
