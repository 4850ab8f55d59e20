"""Groups that move the keys of a Lie-access memory. Each group is a small class.

Axes: B batch, n coordinates of a key, A numbers of an action. No function divides by zero, for any
input.

Source: Yang 2016, arXiv:1602.08671, whose section on generalisation asks for the Poincare disk; the
sphere: Yang & Rush 2017, arXiv:1611.02854.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from unbounded.checks import check_positive, check_size
from unbounded.custom_components import find_part
from unbounded.errors import ConfigError, ShapeError
from unbounded.options import options_of

#: Added to the square of a length before a division by the length.
LENGTH_FLOOR: Final = 1e-12


def shortened(vector: Tensor, floor: float = LENGTH_FLOOR) -> Tensor:
    """Divide vectors by their lengths: x / sqrt(|x|^2 + floor).

    With a floor of 1, the result is shorter than 1.

    Args:
        vector: [..., K]. floor: above 0, so that at 0 the value is 0 and the derivative finite.
    """
    return vector * torch.rsqrt(vector.square().sum(-1, keepdim=True) + floor)


class Group(ABC):
    """A group and its action on keys.

    A custom group is a subclass with the class attributes below and `act`. Pass an instance or its
    import path ("mypackage.Shear") as the memory's `group`. With several heads, B counts the heads
    of all sequences.

    Attributes:
        name: for messages and repr.
        key_size: n. action_size: A, numbers of an action in the state.
        identity: the action [A] that moves nothing. origin: the initial key [n] of the heads.
        has_length: whether an action has a length, which a memory's option `step` may limit.
        can_grow: whether keys can grow exponentially with the number of steps.
        keeps_part: whether a part of the initial action stays in all later actions.
    """

    name: str
    key_size: int
    action_size: int
    identity: tuple[float, ...]
    origin: tuple[float, ...]
    has_length: bool = True
    can_grow: bool = False
    keeps_part: bool = False

    @property
    def candidate_size(self) -> int:
        """C, number of outputs of the controller for an action: A, unless `candidate` is given."""
        return self.action_size

    def candidate(self, outputs: Tensor, before: Tensor) -> Tensor:
        """Compute a candidate action [B, A] from the controller's outputs [B, C].

        Args:
            before: the action of the step before, [B, A].
        """
        return outputs

    def candidate_key(self, key: Tensor) -> Tensor:
        """Map a candidate key [B, n] to the key that is interpolated."""
        return key

    def initial_action(self, drawn: Tensor) -> Tensor:
        """Map a learned parameter [..., A] to the initial action."""
        return self.normalise(drawn)

    @abstractmethod
    def act(self, action: Tensor, key: Tensor) -> Tensor:
        """Move keys [B, n] by actions [B, A] of the group."""

    def mix(self, gate: Tensor, new: Tensor, old: Tensor) -> Tensor:
        """Interpolate actions [B, A]. A gate [B, 1] of 1 selects the new action."""
        return gate * new + (1 - gate) * old

    def normalise(self, action: Tensor) -> Tensor:
        """Map an interpolated action [B, A] to the nearest action of the group."""
        return action

    def place(self, key: Tensor) -> Tensor:
        """Map an interpolated key [B, n] to the nearest valid key, if not all of R^n is valid."""
        return key

    def shorten(self, action: Tensor, floor: float) -> Tensor:
        """Normalise the length of actions [B, A] if `has_length`: a / sqrt(|a|^2 + floor)."""
        return shortened(action, floor)

    def distance(self, key: Tensor, keys: Tensor) -> Tensor:
        """Squared distances [...] of keys [..., n], whose other axes broadcast: |q - k|^2.

        The gradient must be finite, even for equal keys. Weightings expect the square of a
        distance.
        """
        return (key - keys).square().sum(-1)


class Translation(Group):
    """R^n: k + a, for keys of any size n."""

    name = "translation"

    def __init__(self, key_size: int = 2) -> None:
        check_positive("key_size", key_size)
        self.key_size = self.action_size = key_size
        self.identity = self.origin = (0.0,) * key_size

    def act(self, action: Tensor, key: Tensor) -> Tensor:
        """Add: k + a."""
        return key + action


def complex_product(action: Tensor, key: Tensor) -> Tensor:
    """(a x - b y, b x + a y), [B, 2], of actions (a, b) and keys (x, y)."""
    (a, b), (x, y) = action.unbind(-1), key.unbind(-1)
    return torch.stack([a * x - b * y, b * x + a * y], dim=-1)


class ScalingRotation(Group):
    """R* x SO(2): the product of the complex numbers a + bi and x + yi."""

    name = "scaling_rotation"
    key_size = action_size = 2
    identity, origin = (1.0, 0.0), (0.0, 0.0)
    can_grow = True

    def act(self, action: Tensor, key: Tensor) -> Tensor:
        """(a x - b y, b x + a y)."""
        return complex_product(action, key)


class Rotation(Group):
    """SO(2): the complex product with a + bi, where actions are normalised to the circle."""

    name = "rotation"
    key_size = action_size = 2
    identity, origin = (1.0, 0.0), (0.0, 0.0)
    has_length = False

    def act(self, action: Tensor, key: Tensor) -> Tensor:
        """(a x - b y, b x + a y)."""
        return complex_product(action, key)

    def normalise(self, action: Tensor) -> Tensor:
        """(a, b) / |(a, b)|."""
        return shortened(action)


class Sphere(Group):
    """SO(3) on the sphere: rotation by an angle around an axis.

    An action is an axis (3) and (cos, sin) of the angle (2). Axis and (cos, sin) are interpolated
    separately and normalised to length 1, like every key.
    """

    name = "sphere"
    key_size, action_size = 3, 5
    identity: tuple[float, ...] = (1.0, 0.0, 0.0, 1.0, 0.0)
    origin = (1.0, 0.0, 0.0)
    has_length = False

    def act(self, action: Tensor, key: Tensor) -> Tensor:
        """Rotate: q cos + (xi x q) sin + xi <xi, q> (1 - cos), normalised to length 1."""
        axis, cos, sin = action[..., :3], action[..., 3:4], action[..., 4:]
        along = (axis * key).sum(-1, keepdim=True)
        turned = key * cos + torch.linalg.cross(axis, key) * sin + axis * along * (1 - cos)
        return shortened(turned)

    def normalise(self, action: Tensor) -> Tensor:
        """Normalise axis and (cos, sin) to length 1."""
        return torch.cat([shortened(action[..., :3]), shortened(action[..., 3:])], dim=-1)

    def place(self, key: Tensor) -> Tensor:
        """Normalise a key to length 1: q / |q|."""
        return shortened(key)


#: Numbers of a sphere's action; a bound follows them.
_TURN: Final = 5


class BoundedSphere(Sphere):
    """SO(3) on the sphere, with angles of at most a bound b: SLANTM of the authors' program.

    The controller gives an axis (3), normalised to length 1, and a number x for the angle
    b tanh(x). An action is the axis, (cos, sin) of the angle, and b, which stays as it is in the
    initial action: 1 radian. Candidate keys are normalised to length 1 before the interpolation.
    """

    name = "bounded_sphere"
    action_size = 6
    identity = (*Sphere.identity, 1.0)

    @property
    def candidate_size(self) -> int:
        """An axis and x."""
        return 4

    def candidate(self, outputs: Tensor, before: Tensor) -> Tensor:
        """(xi / |xi|, cos, sin, b) of the angle b tanh(x)."""
        bound = before[..., _TURN:]
        angle = bound * torch.tanh(outputs[..., 3:])
        return torch.cat([shortened(outputs[..., :3]), angle.cos(), angle.sin(), bound], dim=-1)

    def candidate_key(self, key: Tensor) -> Tensor:
        """Normalise a candidate key to length 1."""
        return shortened(key)

    def mix(self, gate: Tensor, new: Tensor, old: Tensor) -> Tensor:
        """Interpolate axis and (cos, sin)."""
        return torch.cat(
            [super().mix(gate, new[..., :_TURN], old[..., :_TURN]), old[..., _TURN:]], dim=-1
        )

    def normalise(self, action: Tensor) -> Tensor:
        """Normalise axis and (cos, sin) to length 1."""
        return torch.cat([super().normalise(action[..., :_TURN]), action[..., _TURN:]], dim=-1)

    def act(self, action: Tensor, key: Tensor) -> Tensor:
        """Rotate as `Sphere` does."""
        return super().act(action[..., :_TURN], key)

    def initial_action(self, drawn: Tensor) -> Tensor:
        """Normalise the parameter. The bound is 1."""
        action = self.normalise(drawn)
        return torch.cat([action[..., :_TURN], torch.ones_like(action[..., _TURN:])], dim=-1)


class LearnedBoundSphere(BoundedSphere):
    """A `BoundedSphere` whose bound is pi sigmoid(p) of a parameter p, in (0, pi).

    The bound is a part of the initial action, so it is learned with `initial="learned"`. Otherwise
    it is pi / 2. The initial angle is bounded too.
    """

    name = "learned_bound_sphere"
    identity = (*Sphere.identity, math.pi / 2)
    keeps_part = True

    def initial_action(self, drawn: Tensor) -> Tensor:
        """The axis, the angle b tanh(x) and the bound b, of numbers 0 to 2, 3 and 5."""
        bound = math.pi * torch.sigmoid(drawn[..., _TURN:])
        identity = torch.cat([torch.zeros_like(drawn[..., :_TURN]), bound], dim=-1)
        return self.candidate(drawn[..., :4], identity)


def rotated(skew: Tensor, key: Tensor) -> Tensor:
    """Rotate keys [B, n] by exp(X) of skew-symmetric matrices X.

    Args:
        skew: the n (n - 1) / 2 numbers of X above its diagonal, row by row, [B, n (n - 1) / 2].
    """
    size = key.shape[-1]
    above, columns = torch.triu_indices(size, size, 1, device=key.device)
    places = torch.zeros(size, size, dtype=torch.int64, device=key.device)
    numbers = torch.arange(above.shape[0], device=key.device)
    places[above, columns] = places[columns, above] = numbers
    signs = torch.ones(size, size, dtype=key.dtype, device=key.device)
    matrix = skew[..., places] * (signs.triu(1) - signs.tril(-1))
    return torch.matmul(torch.linalg.matrix_exp(matrix), key.unsqueeze(-1)).squeeze(-1)


class SpecialOrthogonal(Group):
    """SO(n) on R^n, n >= 2: the exponential of a skew-symmetric matrix.

    An action is the n (n - 1) / 2 numbers above the matrix's diagonal. Interpolation is linear in
    these numbers, so any numbers form an action, and 0 moves no key.
    """

    name = "rotation"
    has_length = False

    def __init__(self, key_size: int = 3) -> None:
        check_size("key_size", key_size, least=2)
        self.key_size, self.action_size = key_size, key_size * (key_size - 1) // 2
        self.identity, self.origin = (0.0,) * self.action_size, (0.0,) * key_size

    def act(self, action: Tensor, key: Tensor) -> Tensor:
        """exp(X) k."""
        return rotated(action, key)


class ScaledSpecialOrthogonal(Group):
    """R* x SO(n) on R^n, n >= 2: a rotation, and a factor on the length.

    An action is the factor, followed by the numbers of a `SpecialOrthogonal`. The length of an
    action is the length of its factor, so "normalised" makes the factor 1 or -1.
    """

    name = "scaling_rotation"
    can_grow = True

    def __init__(self, key_size: int = 3) -> None:
        check_size("key_size", key_size, least=2)
        self.key_size, self.action_size = key_size, 1 + key_size * (key_size - 1) // 2
        self.identity = (1.0, *(0.0,) * (self.action_size - 1))
        self.origin = (0.0,) * key_size

    def act(self, action: Tensor, key: Tensor) -> Tensor:
        """Multiply the factor by exp(X) k."""
        return action[..., :1] * rotated(action[..., 1:], key)

    def shorten(self, action: Tensor, floor: float) -> Tensor:
        """Normalise the factor: c / sqrt(c^2 + floor)."""
        return torch.cat([shortened(action[..., :1], floor), action[..., 1:]], dim=-1)


#: Keys of the Poincare disk stay this far from its edge, so that 32 bits represent the distances.
EDGE: Final = 1e-5


#: Below this, two terms of a series replace the square of arsinh(sqrt x).
SMALL: Final = 1e-6


class PoincareDisk(Group):
    """SU(1, 1) on the Poincare disk |z| < 1: a rotation around 0, then a translation.

    An action is a vector (2) and an angle. The length of the vector is the hyperbolic distance by
    which 0 is translated, and its direction is the direction of the translation. Interpolation is
    linear in these three numbers, so any numbers form an action, and 0 moves no key. Distances are
    hyperbolic. Keys stay `EDGE` away from the edge, at a distance of at most 12.2 from 0.
    """

    name = "poincare_disk"
    key_size, action_size = 2, 3
    identity, origin = (0.0, 0.0, 0.0), (0.0, 0.0)

    def act(self, action: Tensor, key: Tensor) -> Tensor:
        """(u z + a) / (1 + conj(a) u z), u = e^(i angle), |a| = tanh(length / 2)."""
        vector, angle = action[..., :2], action[..., 2]
        length = (vector.square().sum(-1, keepdim=True) + LENGTH_FLOOR).sqrt()
        point = self.place(vector * (torch.tanh(length / 2) / length))
        turned = complex_product(torch.stack([angle.cos(), angle.sin()], dim=-1), key)
        (a, b), (x, y) = point.unbind(-1), turned.unbind(-1)
        # The divisor 1 + conj(a) z, of length at least EDGE.
        below = torch.stack([1 + a * x + b * y, a * y - b * x], dim=-1)
        conjugate = torch.stack([below[..., 0], -below[..., 1]], dim=-1)
        square = below.square().sum(-1, keepdim=True)
        return self.place(complex_product(turned + point, conjugate) / square)

    def shorten(self, action: Tensor, floor: float) -> Tensor:
        """Shorten the vector. The angle has no length."""
        return torch.cat([shortened(action[..., :2], floor), action[..., 2:]], dim=-1)

    def place(self, key: Tensor) -> Tensor:
        """Return the nearest key of length at most 1 - EDGE."""
        most = 1 - EDGE
        square = key.square().sum(-1, keepdim=True)
        return torch.where(square > most**2, key * (most * square.clamp(min=most**2).rsqrt()), key)

    def distance(self, key: Tensor, keys: Tensor) -> Tensor:
        """arcosh(1 + 2 x)^2 = 4 arsinh(sqrt x)^2,  x = |q - k|^2 / (1 - |q|^2) / (1 - |k|^2)."""
        key, keys = self.place(key), self.place(keys)
        inside, others = (1 - point.square().sum(-1) for point in (key, keys))
        x = (key - keys).square().sum(-1) / (inside * others)
        # The derivative of sqrt is infinite at 0.
        far = torch.where(x > SMALL, x, 1.0)
        return torch.where(x > SMALL, 4 * far.sqrt().arcsinh().square(), 4 * x * (1 - x / 3))


def rotation(key_size: int = 2) -> Group:
    """SO(n) on R^n. For n = 2, keys are complex numbers."""
    return Rotation() if key_size == 2 else SpecialOrthogonal(key_size)


def scaling_rotation(key_size: int = 2) -> Group:
    """R* x SO(n) on R^n. For n = 2, keys are complex numbers."""
    return ScalingRotation() if key_size == 2 else ScaledSpecialOrthogonal(key_size)


#: The groups that the kernels support, in the order of `LieGroup` in csrc/lie_heads.h.
KERNEL_GROUPS: Final[tuple[type[Group], ...]] = (
    Translation,
    ScalingRotation,
    Rotation,
    Sphere,
    SpecialOrthogonal,
    ScaledSpecialOrthogonal,
    PoincareDisk,
    BoundedSphere,
    LearnedBoundSphere,
)

#: Functions that make a group, by its name in configs. Some groups exist for any size of keys.
GROUPS: Final[dict[str, Callable[..., Group]]] = {
    "translation": Translation,
    "scaling_rotation": scaling_rotation,
    "rotation": rotation,
    "sphere": Sphere,
    "bounded_sphere": BoundedSphere,
    "learned_bound_sphere": LearnedBoundSphere,
    "poincare_disk": PoincareDisk,
}


def chosen_group(group: str | Group, key_size: int | None) -> Group:
    """Return the group with a name or import path, or a given instance.

    Args:
        key_size: n; None takes the group's size, which is 2 for "translation".
    Raises:
        ChoiceError: no group has this name. ConfigError: the package of a path was not imported,
            has no such group, the group needs arguments, or it is a class. ShapeError: the group's
            keys have another size, or its identity or origin disagrees with its action or key size.
    """
    if key_size is not None:
        check_positive("key_size", key_size)
    if isinstance(group, type) and issubclass(group, Group):
        name = group.__name__
        raise ConfigError(
            [f"group: expected a group or its name, got the class {name}. Create one: {name}()"]
        )
    if isinstance(group, Group):
        chosen = group
    else:
        factory: Callable[..., Group] = find_part("group", group, GROUPS, Group)
        options = options_of(factory)
        needed = [name for name, option in options.items() if option.is_required]
        if needed:
            raise ConfigError(
                [f"group {group!r}: expected a class that is made without arguments, got {needed}"]
            )
        sized = key_size is not None and "key_size" in options
        chosen = factory(key_size=key_size) if sized else factory()
    if key_size not in (None, chosen.key_size):
        raise ShapeError(
            f"key_size: expected {chosen.key_size}, the size of the keys that the group "
            f"{chosen.name} acts on, got {key_size}. Leave it out, or give group='translation' or "
            "'rotation'."
        )
    for size, numbers in (("action_size", "identity"), ("key_size", "origin")):
        expected, got = getattr(chosen, size), len(getattr(chosen, numbers))
        if expected != got:
            raise ShapeError(
                f"group {chosen.name}: expected {expected} numbers in {numbers}, its {size}, got "
                f"{got}."
            )
    return chosen
