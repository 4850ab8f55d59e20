"""The memory of a Lie-access neural Turing machine: rows with keys, and heads moved by a group.

Axes: B batch, N rows, n coordinates of a key, A numbers of an action, M width. A row of strength 0
counts as absent: it is not read, has no effect on other weights, and has no gradient.

Source: Yang 2016, arXiv:1602.08671; Yang & Rush 2017, arXiv:1611.02854.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from unbounded.checks import check_bool, check_number, check_positive, check_shape, is_batched
from unbounded.errors import ChoiceError, ConfigError, NonFiniteError
from unbounded.memories.core import (
    ACTIVATIONS,
    VALUE_ACTIVATIONS,
    Constant,
    Fixed,
    Head,
    Initializer,
    Learned,
    Memory,
    StateField,
    live_rows,
    portable,
    read_rows,
)
from unbounded.memories.lie_access.groups import (
    Group,
    ScaledSpecialOrthogonal,
    SpecialOrthogonal,
    Translation,
    chosen_group,
)
from unbounded.memories.lie_access.weightings import WEIGHTINGS, Weighting, chosen_weighting

INITIAL: Final = ("constant", "learned")
GATES: Final = ("sigmoid", "hard_sigmoid")
#: Largest coordinate of a key. The square of a larger coordinate overflows 32 bits.
MOST: Final = 1e18


class Step(NamedTuple):
    """How the length of actions is normalised.

    Fields:
        floor: added to the square of a length before a division by the length; None leaves the
            lengths unchanged.
        candidate: whether the candidate is normalised before the interpolation, not the action
            after it. The initial action, and the share of it that a gate keeps, then has any
            length. Without an action gate both are equal.
    """

    floor: float | None
    candidate: bool = False

    @property
    def is_long(self) -> bool:
        """Whether an action may be longer than 1."""
        return self.floor is None or self.candidate


STEPS: Final[dict[str, Step]] = {
    "free": Step(None),
    "normalised": Step(1e-12),
    "bounded": Step(1.0),
    "normalised_candidate": Step(1e-12, candidate=True),
}


class LieVariant(NamedTuple):
    """A set of choices, as in a paper.

    Fields:
        step: one of STEPS. action_gate: whether actions are interpolated.
    """

    step: str
    action_gate: bool


#: These choices are from Yang 2016, and from the tables of Yang & Rush 2017.
VARIANTS: Final[dict[str, LieVariant]] = {
    "2016": LieVariant("normalised", action_gate=True),
    "2017": LieVariant("bounded", action_gate=False),
}


@portable
class LieAccessInstruction(NamedTuple):
    """The instruction of a read head, a write head and the new row.

    With several heads, fields have an axis of R read heads or W write heads after the batch. For
    example, read_key is [B, R, n], read_key_gate [B, R], value [B, W, M], strength [B, W].

    Fields:
        read_key: candidate key, [B, n]. read_key_gate: g, [B] in [0, 1]; 1 takes the candidate.
        read_action: candidate action, or the numbers of which a group computes it, [B, C], C = A
            in most groups. read_action_gate: h, [B] in [0, 1], likewise.
        write_key, write_key_gate, write_action, write_action_gate: likewise.
        value: v, [B, M] in (-1, 1). strength: s, [B] in [0, 1]; 0 writes nothing.
    """

    read_key: Tensor
    read_key_gate: Tensor
    read_action: Tensor
    read_action_gate: Tensor
    write_key: Tensor
    write_key_gate: Tensor
    write_action: Tensor
    write_action_gate: Tensor
    value: Tensor
    strength: Tensor


def _instruction(name: str, has_key_gates: bool, has_action_gates: bool, is_softmax: bool) -> Any:
    """A LieAccessInstruction without some gates, or with the softmax's temperature T >= 0, [B]."""
    fields = [
        field
        for field in LieAccessInstruction._fields
        if (has_key_gates or not field.endswith("key_gate"))
        and (has_action_gates or not field.endswith("action_gate"))
    ]
    make: Any = namedtuple
    return portable(make(name, [*fields, *["temperature"] * is_softmax], module=__name__))


SoftmaxInstruction: Final = _instruction("SoftmaxInstruction", True, True, True)
KeyGatedInstruction: Final = _instruction("KeyGatedInstruction", True, False, False)
SoftmaxKeyGatedInstruction: Final = _instruction("SoftmaxKeyGatedInstruction", True, False, True)
ActionGatedInstruction: Final = _instruction("ActionGatedInstruction", False, True, False)
SoftmaxActionGatedInstruction: Final = _instruction(
    "SoftmaxActionGatedInstruction", False, True, True
)
UngatedInstruction: Final = _instruction("UngatedInstruction", False, False, False)
SoftmaxUngatedInstruction: Final = _instruction("SoftmaxUngatedInstruction", False, False, True)

#: Instruction types by (has key gates, has action gates, has a temperature).
INSTRUCTIONS: Final[dict[tuple[bool, bool, bool], type[Any]]] = {
    (True, True, False): LieAccessInstruction,
    (True, True, True): SoftmaxInstruction,
    (True, False, False): KeyGatedInstruction,
    (True, False, True): SoftmaxKeyGatedInstruction,
    (False, True, False): ActionGatedInstruction,
    (False, True, True): SoftmaxActionGatedInstruction,
    (False, False, False): UngatedInstruction,
    (False, False, True): SoftmaxUngatedInstruction,
}


@portable
class LieAccessState(NamedTuple):
    """The rows, with the oldest first, and the positions of the heads.

    With several heads, the fields of heads have an axis of R read heads or W write heads after the
    batch.

    Fields:
        keys: k, [B, N, n]. values: v, [B, N, M]. strengths: s, [B, N] in [0, 1].
        read_key: q, [B, n]. read_action: a, [B, A], as it was applied. write_key, write_action:
            likewise.
    """

    keys: Tensor
    values: Tensor
    strengths: Tensor
    read_key: Tensor
    read_action: Tensor
    write_key: Tensor
    write_action: Tensor


class Rows(NamedTuple):
    """The rows of a memory, with the oldest first.

    Fields:
        keys: k, [B, N, n]. values: v, [B, N, M].
        strengths: s, [B, N] in [0, 1]; strength 0 means no row.
    """

    keys: Tensor
    values: Tensor
    strengths: Tensor


def appended(rows: Rows, new: Rows, capacity: int | None, drop: int) -> Rows:
    """Append rows to each sequence, one for each write head.

    Args:
        rows: N rows. new: W rows per sequence, [B, W, ...].
        capacity: largest number of rows, at least W; None for no limit.
        drop: number of oldest rows, at most `capacity`, that are dropped if a sequence has no free
            place and writes another.
    Returns:
        N + W rows, or N if these exceed the capacity. Then the new rows are written one after the
        other. For each new row the oldest place without a row is removed. If a sequence writes with
        strength 0, its rows do not change.
    """
    count = new.strengths.shape[1]
    if capacity is None or rows.strengths.shape[1] + count <= capacity:
        return Rows(*(torch.cat(pair, dim=1) for pair in zip(rows, new, strict=True)))
    for head in range(count):
        rows = _replaced(rows, Rows(*(field[:, head : head + 1] for field in new)), drop)
    return rows


def _replaced(rows: Rows, new: Rows, drop: int) -> Rows:
    """Write a row [B, 1, ...] without adding a place for it; see `appended`."""
    places = torch.arange(rows.strengths.shape[1], device=rows.strengths.device)
    is_row, writes = ~(rows.strengths <= 0), ~(new.strengths <= 0)
    lost = is_row.all(dim=1, keepdim=True) & (places < drop)
    free = (lost | ~is_row).to(torch.int8).argmax(dim=1, keepdim=True)
    kept = places[:-1] + (places[:-1] >= free)
    left = rows._replace(strengths=torch.where(lost, 0, rows.strengths))
    fields = []
    for before, of_left, last in zip(rows, left, new, strict=True):
        trailing = (1,) * (before.dim() - 2)
        index = kept.view(*kept.shape, *trailing).expand(*kept.shape, *before.shape[2:])
        after = torch.cat([of_left.gather(1, index), last], dim=1)
        fields.append(torch.where(writes.view(-1, 1, *trailing), after, before))
    return Rows(*fields)


_DRAWN: Final = partial(nn.init.uniform_, a=-1.0, b=1.0)


def first_strength(parameter: Tensor) -> Tensor:
    """sigmoid(x - 10), the strength of a learned initial row, as in the authors' program."""
    return torch.sigmoid(parameter - 10)


class LieAccessMemory(Memory[LieAccessState, Any]):
    """Rows with key, value and strength. Heads move over the keys by actions of a Lie group.

    A step moves the heads, reads the previous rows, then appends a row at each write head.

    Args:
        width: M, size of the stored values.
        group: the group of the actions: "translation" of R^n, "scaling_rotation" R* x SO(n),
            "rotation" SO(n), "sphere" for SO(3) on the sphere, "bounded_sphere" and
            "learned_bound_sphere" for angles of at most a bound, as in the program of SLANTM,
            "poincare_disk" for the isometries of the hyperbolic plane, or a custom Group or its
            import path.
        weighting: how a row's distance from the read head gives its weight: "inverse_square"
            (InvNorm), or "softmax" with a temperature in each step. Or a custom function of squared
            distances [..., N], strengths [..., N] and temperatures [...] or None, which returns
            weights [..., N], or its import path.
        step: normalisation of an action's length: none ("free"), to 1 ("normalised"), below 1
            ("bounded"), or to 1 before the interpolation ("normalised_candidate"). The last lets a
            learned initial action keep its length. None takes the variant's. Actions of rotations
            and of spheres have no length, so all choices are equal for them.
        variant: "2016" or "2017", the defaults of `step` and `action_gate`.
        key_size: n of translations and rotations, 2 by default; the other groups have fixed sizes.
        key_gate: whether the candidate key is interpolated with the previous key.
        action_gate: whether the candidate action is interpolated with the previous action; None
            takes the variant's.
        write_gate_bias: initial bias of the write head's gates; None keeps the random draw.
        read_key_gate_bias: initial bias of the read head's key gate, any finite number (not in the
            papers; without effect without this gate). Below 0 the head initially continues from
            its position. The head then relies less on absolute keys that the controller has
            counted; such keys are correct only at the training lengths.
        strength_bias: initial bias of the strengths (not in the papers). Above 0 the initial rows
            have similar strengths.
        gates: "sigmoid", or "hard_sigmoid" (not in the papers), which is exactly 0 up to -2.5 and 1
            from 2.5 on. A gate of exactly 0 adds no error, so a path is straight at any length.
        initial: "constant" starts without rows, with keys at the group's origin and actions at its
            identity; "learned" starts with a row for each write head. Rows, heads and read vector
            are then parameters.
        capacity: largest number of rows, a multiple of the write heads; None for no limit.
        drop: number of oldest rows dropped at once at capacity, 1 by default.
        value_activation: of the written value, one of the activations but softmax.
        temperature: whether each step gives a temperature; None for softmax alone. A custom
            weighting can require a temperature.
        read_heads, write_heads: R and W, numbers of heads (one of each in the papers). The read
            vector has R M numbers.
    Raises:
        ChoiceError: an unknown choice. DTypeError: a gate option is not a bool.
        ShapeError: a size is not a positive integer, or the group's keys have another size.
        ConfigError: `drop` exceeds the capacity; the capacity is not a multiple of the write heads;
            a bias is not a number; an import path has no group or weighting; or `temperature`
            disagrees with the weighting.
    Source: Yang 2016, arXiv:1602.08671; Yang & Rush 2017, arXiv:1611.02854. docs/memories.md lists
        what the papers leave open and the deviations from them.
    """

    Instruction: type[Any] = INSTRUCTIONS[True, True, False]
    State = LieAccessState
    write_strengths = ("strength",)

    def __init__(
        self,
        width: int = 20,
        group: str | Group = "translation",
        weighting: str | Weighting = "inverse_square",
        step: str | None = None,
        *,
        variant: str = "2016",
        key_size: int | None = None,
        key_gate: bool = True,
        action_gate: bool | None = None,
        write_gate_bias: float | None = -10.0,
        read_key_gate_bias: float | None = None,
        strength_bias: float | None = None,
        gates: str = "sigmoid",
        initial: str = "constant",
        capacity: int | None = None,
        drop: int | None = None,
        value_activation: str = "tanh",
        temperature: bool | None = None,
        read_heads: int = 1,
        write_heads: int = 1,
    ) -> None:
        check_positive("width", width)
        check_positive("read_heads", read_heads)
        check_positive("write_heads", write_heads)
        variant = str(variant)
        for kind, name, valid in (
            ("variant", variant, VARIANTS),
            ("step", step if step is not None else "free", STEPS),
            ("initial", initial, INITIAL),
            ("gates", gates, GATES),
            ("value_activation", value_activation, VALUE_ACTIVATIONS),
        ):
            if not isinstance(name, str) or name not in valid:
                raise ChoiceError(kind, name, valid)
        for name, bias in (
            ("write_gate_bias", write_gate_bias),
            ("read_key_gate_bias", read_key_gate_bias),
            ("strength_bias", strength_bias),
        ):
            if bias is not None:
                check_number(name, bias)
        _check_cap(capacity, drop, write_heads)
        chosen = VARIANTS[variant]
        action_gate = chosen.action_gate if action_gate is None else action_gate
        check_bool("key_gate", key_gate)
        check_bool("action_gate", action_gate)
        self.width, self.group = width, chosen_group(group, key_size)
        self.weighting, self._weigh = weighting, chosen_weighting(weighting)
        self.temperature = _has_temperature(self._weigh, temperature)
        self.step_length = chosen.step if step is None else step
        self.variant, self.key_gate, self.action_gate = variant, key_gate, action_gate
        self.write_gate_bias, self.read_key_gate_bias = write_gate_bias, read_key_gate_bias
        self.strength_bias, self.gates, self.initial = strength_bias, gates, initial
        self.capacity, self.drop = capacity, 1 if drop is None else drop
        self.value_activation = value_activation
        self.read_heads, self.write_heads = read_heads, write_heads
        self.Instruction = INSTRUCTIONS[self.key_gate, self.action_gate, self.temperature]

    def __repr__(self) -> str:
        group, has_sizes = self.group, (Translation, SpecialOrthogonal, ScaledSpecialOrthogonal)
        size = f", key_size={group.key_size}" if isinstance(group, has_sizes) else ""
        others = f", capacity={self.capacity}, drop={self.drop}" if self.capacity else ""
        if self.value_activation != "tanh":
            others += f", value_activation={self.value_activation!r}"
        if self.read_heads > 1 or self.write_heads > 1:
            others += f", read_heads={self.read_heads}, write_heads={self.write_heads}"
        return (
            f"LieAccessMemory(width={self.width}, group={self.group.name!r}, "
            f"weighting={self.weighting_name!r}, step={self.step_length!r}{size}, "
            f"key_gate={self.key_gate}, action_gate={self.action_gate}, "
            f"initial={self.initial!r}{others})"
        )

    @property
    def weighting_name(self) -> str:
        """The name of the weighting in WEIGHTINGS, or of a custom function."""
        for name, function in WEIGHTINGS.items():
            if self._weigh is function:
                return name
        return getattr(self._weigh, "__name__", type(self._weigh).__name__)

    @property
    def dropped_beyond(self) -> int | None:
        """The capacity, beyond which the oldest rows are dropped."""
        return self.capacity

    @property
    def heads(self) -> tuple[Head, ...]:
        """Key, key gate, action and action gate of reader and writer; value, strength, and T."""
        key_size, action_size = self.group.key_size, self.group.candidate_size
        readers, writers = _axes(self.read_heads), _axes(self.write_heads)
        heads = []
        for who, axes, key_bias, action_bias in (
            ("read", readers, self.read_key_gate_bias, None),
            ("write", writers, self.write_gate_bias, self.write_gate_bias),
        ):
            heads += [
                Head(f"{who}_key", (*axes, key_size), "identity"),
                Head(f"{who}_key_gate", axes, self.gates, key_bias, gate=True),
                Head(f"{who}_action", (*axes, action_size), "identity"),
                Head(f"{who}_action_gate", axes, self.gates, action_bias, gate=True),
            ]
        heads += [
            Head("value", (*writers, self.width), self.value_activation),
            Head("strength", writers, "sigmoid", self.strength_bias, gate=True),
            Head("temperature", readers, "softplus"),
        ]
        return tuple(head for head in heads if head.name in self.Instruction._fields)

    @property
    def read_vector_size(self) -> int:
        """R M."""
        return self.read_heads * self.width

    @property
    def read_vector_initializer(self) -> Initializer:
        """Zeros, or a parameter to which the activation of values is applied."""
        through = ACTIVATIONS[self.value_activation]
        return Learned(_DRAWN, through) if self.initial == "learned" else Constant(0.0)

    @property
    def state_fields(self) -> tuple[StateField, ...]:
        """Keys, values and strengths, to which a step adds W rows; key and action of the heads."""
        group, learned = self.group, self.initial == "learned"

        def field(name: str, axes: tuple[int, ...], initializer: Initializer) -> StateField:
            writers = self.write_heads
            grown = ((0, writers), writers * int(learned), self.capacity)
            return StateField(name, ("N", *axes), *grown, initializer=initializer)

        key_initializer: Initializer = Fixed(group.origin)
        action_initializer: Initializer = Fixed(group.identity)
        keys: Initializer = Constant(0.0)
        values = strengths = keys
        if learned:
            keys = Learned(_DRAWN, group.place)
            values = Learned(_DRAWN, ACTIVATIONS[self.value_activation])
            strengths = Learned(_DRAWN, first_strength)
            # Without a gate, the initial value has no effect, unless the group keeps a part of it.
            key_initializer = Learned(_DRAWN, group.place) if self.key_gate else key_initializer
            action_initializer = (
                Learned(_DRAWN, group.initial_action)
                if self.action_gate or group.keeps_part
                else action_initializer
            )
        return (
            field("keys", (group.key_size,), keys),
            field("values", (self.width,), values),
            field("strengths", (), strengths),
            *(
                StateField(f"{who}_{part}", (*_axes(count), size), initializer=initializer)
                for who, count in (("read", self.read_heads), ("write", self.write_heads))
                for part, size, initializer in (
                    ("key", group.key_size, key_initializer),
                    ("action", group.action_size, action_initializer),
                )
            ),
        )

    @property
    def observed_fields(self) -> tuple[StateField, ...]:
        """Strengths, and keys and actions of the heads. A row has the key of its write head."""
        return self.state_fields[2:]

    def observe(self, state: LieAccessState) -> Mapping[str, Tensor]:
        """Return the strengths [B, N], and key and action of both heads."""
        return dict(zip(state._fields[2:], state[2:], strict=True))

    def trim(self, state: LieAccessState) -> LieAccessState:
        """Remove rows of strength 0; see `Memory.trim`."""
        strengths, keys, values = live_rows(state.strengths, state.keys, state.values)
        return state._replace(keys=keys, values=values, strengths=strengths)

    def step(self, state: LieAccessState, instruction: Any) -> tuple[Tensor, LieAccessState]:
        """Move the heads, read the previous rows, then append a row for each write head.

        k' = g k~ + (1 - g) k_{t-1};  a_t = h a~ + (1 - h) a_{t-1};  k_t = a_t . k'
        a_t, or a~, is normalised as the option `step` says before it is applied.
        r_t = sum_i w_i v_i,  w_i by |q_t - k_i|^2 and s_i, of the rows of the steps before t

        Args:
            state: keys [B, N, n], values [B, N, M], strengths [B, N]; key [B, n] and action [B, A]
                of both heads, or [B, R, n], [B, W, n] and so on of several.
            instruction: see LieAccessInstruction.
        Returns:
            read vector [B, R M], 0 without rows, and the next state, W rows longer below the
            capacity.
        Raises:
            ShapeError, DTypeError, DeviceError: a field disagrees; the message names it.
            NonFiniteError: a key of the group scaling_rotation exceeds 1e18. In a captured graph
                and under vmap it becomes NaN.
        Source: Yang 2016, arXiv:1602.08671, section 3; the equations are in docs/memories.md.
        """
        self.check_step(state, instruction)
        read_key, read_action = self._move("read", instruction, state.read_key, state.read_action)
        write_key, write_action = self._move(
            "write", instruction, state.write_key, state.write_action
        )
        temperature = instruction.temperature if self.temperature else None
        weights = self.read_weights(read_key, state, temperature)
        rows = Rows(state.keys, state.values, state.strengths)
        new = Rows(write_key, instruction.value, instruction.strength)
        if self.write_heads == 1:
            new = Rows(*(field.unsqueeze(1) for field in new))
        rows = appended(rows, new, self.capacity, self.drop)
        after = LieAccessState(*rows, read_key, read_action, write_key, write_action)
        if self.read_heads == 1:
            return read_rows(weights, state.values), after
        return torch.matmul(weights, state.values).flatten(1), after

    def read_weights(
        self, read_key: Tensor, rows: LieAccessState, temperature: Tensor | None
    ) -> Tensor:
        """Compute the weight of each row, [B, N], from the read head's key [B, n].

        With several read heads, the weights are [B, R, N], and the keys are [B, R, n].

        Raises:
            ShapeError: a custom group or weighting returns another shape.
        """
        keys, strengths = rows.keys, rows.strengths
        if self.read_heads > 1:
            keys = keys.unsqueeze(1)
            strengths = strengths.unsqueeze(1).expand(-1, self.read_heads, -1)
        distances = self.group.distance(read_key.unsqueeze(-2), keys)
        expected = tuple(strengths.shape)
        check_shape(f"distances of group {self.group.name}", distances, expected)
        weights = self._weigh(distances, strengths, temperature)
        check_shape(f"weights of weighting {self.weighting_name}", weights, expected)
        return weights

    def _move(
        self, who: str, instruction: Any, key_before: Tensor, action_before: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Compute the next keys [B, n] (or [B, R, n]) and actions [B, A] of the heads."""
        group, (floor, candidate) = self.group, STEPS[self.step_length]

        def listed(field: Tensor) -> Tensor:
            """Treat the heads of a sequence as further sequences for the group."""
            return field.flatten(0, -2)

        key = group.candidate_key(listed(getattr(instruction, f"{who}_key")))
        outputs = listed(getattr(instruction, f"{who}_action"))
        action = group.candidate(outputs, listed(action_before))
        check_shape(f"candidate of group {group.name}", action, (len(key), group.action_size))
        if self.key_gate:
            gate = listed(getattr(instruction, f"{who}_key_gate").unsqueeze(-1))
            key = gate * key + (1 - gate) * listed(key_before)
        if floor is not None and group.has_length and candidate:
            action = group.shorten(action, floor)
        if self.action_gate:
            gate = listed(getattr(instruction, f"{who}_action_gate").unsqueeze(-1))
            action = group.mix(gate, action, listed(action_before))
        if floor is not None and group.has_length and not candidate:
            action = group.shorten(action, floor)
        action = group.normalise(action)
        key = group.act(action, group.place(key))
        key, action = key.reshape(key_before.shape), action.reshape(action_before.shape)
        if not self.can_grow:
            return key, action
        if torch.compiler.is_compiling() or is_batched(key):
            return torch.where(key.abs() > MOST, torch.nan, key), action
        if bool((key.abs() > MOST).any()):
            raise self.growth_error(f"{who}_key")
        return key, action

    @property
    def can_grow(self) -> bool:
        """Whether keys can grow without bound."""
        return self.group.can_grow and STEPS[self.step_length].is_long

    def growth_error(self, name: str) -> NonFiniteError:
        """The error for a key that exceeds the limit."""
        return NonFiniteError(
            f"{name}: expected coordinates up to {MOST:g}, got larger ones: with "
            f"group={self.group.name!r} and step={self.step_length!r} a head multiplies its key by "
            "the scale of its action in each step, without bound. Give step='normalised' or "
            "'bounded', or group='translation'."
        )


def _has_temperature(weigh: Weighting, wanted: bool | None) -> bool:
    """Whether the instruction of each step has a temperature."""
    name = next((name for name, function in WEIGHTINGS.items() if function is weigh), None)
    if wanted is None:
        return name == "softmax"
    check_bool("temperature", wanted)
    if name is not None and wanted != (name == "softmax"):
        needs = "needs a temperature" if name == "softmax" else "takes no temperature"
        raise ConfigError([f"temperature: {name} {needs}, got {wanted}. Leave it out"])
    return wanted


def _axes(count: int) -> tuple[int, ...]:
    """The shape of the axis of heads, which is empty for one head."""
    return () if count == 1 else (count,)


def _check_cap(capacity: int | None, drop: int | None, write_heads: int) -> None:
    if capacity is not None:
        check_positive("capacity", capacity)
        if capacity % write_heads:
            raise ConfigError(
                [
                    f"capacity: expected a multiple of the {write_heads} write heads, which each "
                    f"write a row in a step, got {capacity}"
                ]
            )
    if drop is None:
        return
    check_positive("drop", drop)
    if capacity is None:
        raise ConfigError([f"drop: {drop} has no effect without a capacity"])
    if drop > capacity:
        raise ConfigError([f"drop: expected at most the capacity {capacity}, got {drop}"])
