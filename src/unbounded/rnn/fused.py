"""The fast paths: check whether the kernels can run a loop, and run it on the kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook

from unbounded import kernels
from unbounded.errors import BackendError
from unbounded.kernels import ControllerWeights, kernel_of, negative_field, why_no_kernel
from unbounded.memories import Memory
from unbounded.memories.core import autocast_dtype
from unbounded.replaced import remember_methods, replaced_method
from unbounded.rnn.controllers import (
    CONTROLLERS,
    Cell,
    Controller,
    ControllerState,
    WeightedController,
    check_next_state,
)
from unbounded.rnn.heads import Heads, apply_heads
from unbounded.rnn.recurrence import RecurrenceState, run_recurrence


def why_not_fused(
    controller: Controller,
    heads: Heads,
    memory: Memory[Any, Any],
    x: Tensor,
    state: RecurrenceState,
) -> str | None:
    """The reason why the fused kernel cannot compute this call; None if it can."""
    # Only these exact types are supported, because a subclass may compute something else.
    exact = type(controller) in CONTROLLERS.values()
    if not isinstance(controller, WeightedController) or not exact:
        return f"no kernel supports the controller {type(controller).__name__}"
    kernel = kernel_of(memory)
    if kernel is None:
        return why_no_kernel(memory)
    for head in memory.heads:
        if head.activation not in kernel.activations(head.name):
            return f"no kernel supports the activation {head.activation} of {head.name}"
    reason = why_no_kernel(memory)
    if reason is not None:
        return reason
    for name, module in (("controller", controller), ("heads", heads)):
        reason = why_called(module, name)
        if reason is not None:
            return reason
    if controller.kernel_name not in kernels.CONTROLLERS:
        return f"no kernel is built for the controller {controller.kernel_name}"
    if type(heads) is not Heads:
        return f"no kernel supports the heads {type(heads).__name__}"
    tensors = (x, *controller.weights, heads.weight, heads.bias, *flatten_state(state))
    return kernels.why_not("recurrence", kernel, *tensors) or negative_field(kernel, state.memory)


class FusedLoop:
    """A loop for the kernels, run completely, a few steps at a time, or on static buffers.

    Args:
        structure, activations, controller: as for `kernels.recurrence`.
        weights: of controller and heads; a call reads them as they are then.
        reference: computes the same in differentiable steps, for second derivatives. None in a
            captured graph: such a graph has no second derivatives, and breaks at a callable.
    """

    def __init__(
        self,
        structure: kernels.Structure[Any],
        activations: tuple[str, ...],
        controller: str,
        weights: kernels.Weights,
        reference: Callable[..., tuple[Tensor, ...]] | None = None,
    ) -> None:
        self.structure, self.activations, self.controller = structure, activations, controller
        self.weights, self._reference = weights, reference

    def run(
        self, x: Tensor, initial: Sequence[Tensor], lengths: Tensor | None
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Run over a sequence, in one call per direction.

        Args:
            x: [T, B, I]. initial: the state in the kernels' order. lengths: int64 [B] or None.
        Returns:
            h [T, B, H] and r [T, B, R] of every step, and the state at each length.
        Raises:
            ShapeError: lengths are not in 0..T.
        """
        hidden, read_vectors, final = kernels.recurrence(
            self.structure, self.activations, self.controller, x, lengths, self.weights,
            list(initial), reference=self._reference,
        )  # fmt: skip
        return hidden, read_vectors, tuple(final)

    def open_session(self, initial: Sequence[Tensor], room: int = 256) -> kernels.Session:
        """A session that runs a few steps at a time, without gradients.

        Args:
            initial: the state in the kernels' order.
            room: expected number of steps.
        """
        return kernels.open_session(
            self.structure, self.activations, self.controller, self.weights, initial, room=room
        )

    def on_static_buffers(
        self, initial: Sequence[Tensor], steps: int, *, of_x: bool = False
    ) -> kernels.StaticRecurrence:
        """Forward and backward passes over `steps` steps that keep their tensors."""
        return kernels.StaticRecurrence(
            self.structure, self.activations, self.controller, self.weights, initial, steps,
            of_x=of_x,
        )  # fmt: skip


def fused_layer(
    controller: WeightedController, heads: Heads, memory: Memory[Any, Any]
) -> FusedLoop:
    """The loop of a controller with a memory, as in `run_recurrence`.

    Raises:
        BackendError: no kernel supports the memory.
    """
    kernel = kernel_of(memory)
    if kernel is None:
        raise BackendError(str(why_no_kernel(memory)))
    reference = None
    if not torch.compiler.is_compiling():
        reference = functools.partial(_reference, controller, memory)
    return FusedLoop(
        kernel,
        tuple(head.activation for head in memory.heads),
        str(controller.kernel_name),
        kernels.Weights(*controller.weights, heads.weight, heads.bias),
        reference,
    )


def run_fused(
    controller: WeightedController,
    heads: Heads,
    memory: Memory[Any, Any],
    x: Tensor,
    state: RecurrenceState,
    lengths: Tensor | None,
) -> tuple[Tensor, Tensor, RecurrenceState]:
    """Compute `run_recurrence` on the kernels."""
    loop = fused_layer(controller, heads, memory)
    hidden, read_vectors, final = loop.run(x, flatten_state(state), lengths)
    return hidden, read_vectors, _unflatten(final, controller.state_size, memory)


def _reference(
    module: WeightedController,
    memory: Memory[Any, Any],
    lengths: Tensor | None,
    x: Tensor,
    weights: kernels.Weights,
    initial: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """Compute the kernel's result in differentiable steps, for second derivatives."""
    *controller_weights, head_weight, head_bias = weights
    hidden, read_vectors, state = run_recurrence(
        lambda inputs, before: module.cell(
            inputs, before, ControllerWeights._make(controller_weights)
        ),
        lambda h: apply_heads(memory.heads, h, head_weight, head_bias),
        memory,
        x,
        _unflatten(initial, module.state_size, memory),
        lengths,
    )
    return hidden, read_vectors, *flatten_state(state)


def flatten_state(state: RecurrenceState) -> tuple[Tensor, ...]:
    """Return the tensors of a state in the kernels' order."""
    return (*state.controller, state.read_vector, *state.memory)


def _unflatten(
    tensors: tuple[Tensor, ...], state_size: int, memory: Memory[Any, Any]
) -> RecurrenceState:
    controller, (read_vector, *rest) = tensors[:state_size], tensors[state_size:]
    return RecurrenceState(tuple(controller), read_vector, memory.State(*rest))


def why_called(module: nn.Module, name: str) -> str | None:
    """The reason why a module must be called step by step (hooks or a replaced method), or None.

    Without such a reason, the weights of a module determine the result of its call.

    Args:
        name: of the module, for the message.
    """
    if _has_any_global_hook():
        return "a hook on all modules is registered, which only the reference implementation runs"
    if (
        module._forward_hooks
        or module._forward_pre_hooks
        or module._backward_hooks
        or module._backward_pre_hooks
    ):
        return f"the {name} has hooks, which only run inside the reference implementation"
    method = replaced_method(module)
    if method is not None:
        return f"{method} of the {name} is replaced, which only the reference implementation calls"
    return None


def is_called(module: nn.Module) -> bool:
    """Whether `why_called` returns a reason."""
    return why_called(module, "module") is not None


for _cls in (nn.Linear, nn.Embedding):
    remember_methods(_cls)


#: The register that replaces the memory for a controller without one. The register holds a number
#: that is never written.
REGISTER: Final = kernels.structure_of("register", (1,))
_REGISTER_SIZES: Final = (1, 1)  # sizes of read vector and register value


def why_not_alone(
    name: str | None, x: Tensor, weights: ControllerWeights, state: ControllerState
) -> str | None:
    """The reason why the kernels cannot run a controller without a memory; None if they can.

    Args:
        name: the kernels' name of the controller; None without one.
        x, weights, state: of the call.
    """
    if name not in kernels.CONTROLLERS:
        return f"no kernel is built for the controller {name}"
    if weights.weight_hh is None:
        return "without recurrence there is nothing to fuse"
    if autocast_dtype(x.device) is not None:
        return "autocast computes the products in half precision"
    return kernels.why_not("recurrence", REGISTER, x, *weights, *state)


def run_alone(
    name: str,
    cell: Cell,
    x: Tensor,
    weights: ControllerWeights,
    state: ControllerState,
    lengths: Tensor | None,
) -> tuple[Tensor, ControllerState]:
    """Run a controller over a sequence in one fused call per direction.

    Args:
        name: the kernels' name of the controller. cell: its equations, for gradients of gradients.
        x: [T, B, I]. weights: of the controller, with weight_ih [G * H, I].
        state: tensors [B, H]. lengths: int64 [B] in 0..T, or None.
    Returns:
        h of every step, [T, B, H], 0 beyond a length, and the state at each length.
    Raises:
        ShapeError: lengths are not in 0..T.
    """
    loop = fused_controller(name, weights, cell)
    hidden, _, final = loop.run(x, [*state, *empty_register(x, x.shape[1])], lengths)
    return hidden, final[: len(state)]


def fused_controller(
    name: str, weights: ControllerWeights, cell: Cell | None = None, wide: Tensor | None = None
) -> FusedLoop:
    """The loop of a controller without a memory, with a register in its place.

    Args:
        name: the kernels' name of the controller.
        weights: of the controller, with weight_ih [G * H, I].
        cell: the controller's equations, for second derivatives; None without them.
        wide: replaces weight_ih by [G * H, I + 1], whose last column is 0; None makes it.
    """
    if wide is None:
        column = weights.weight_ih.new_zeros(len(weights.weight_ih), _REGISTER_SIZES[0])
        wide = torch.cat([weights.weight_ih, column], dim=1)
    units = len(wide) // kernels.CONTROLLERS[name].blocks
    heads = wide.new_zeros(REGISTER.head_rows, units)
    reference = None
    if cell is not None and not torch.compiler.is_compiling():
        reference = functools.partial(_reference_alone, cell)
    return FusedLoop(
        REGISTER,
        ("identity",) * len(REGISTER.heads),
        name,
        kernels.Weights(*weights._replace(weight_ih=wide), heads, None),
        reference,
    )


def empty_register(like: Tensor, batch_size: int) -> list[Tensor]:
    """The register's read vector and value, [B, 1] each."""
    return [like.new_zeros(batch_size, size) for size in _REGISTER_SIZES]


def run_steps(
    step: Callable[[Tensor, ControllerState], ControllerState],
    x: Tensor,
    state: ControllerState,
    lengths: Tensor | None,
) -> tuple[Tensor, ControllerState]:
    """Compute `run_alone` step by step. `step` maps x_t and the last state to the next state.

    Args:
        x, state, lengths: as in `run_alone`; x has at least one step.
    """
    hidden = []
    for t, x_t in enumerate(x.unbind(0)):
        new = step(x_t, state)
        if t == 0:
            check_next_state(new, state)
        output = new[0]
        if lengths is not None:
            active = (lengths > t).unsqueeze(-1)
            output = torch.where(active, output, 0.0)
            new = tuple(
                torch.where(active, after, before) for after, before in zip(new, state, strict=True)
            )
        state = new
        hidden.append(output)
    return torch.stack(hidden), state


def _reference_alone(
    cell: Cell,
    lengths: Tensor | None,
    x: Tensor,
    weights: kernels.Weights,
    initial: tuple[Tensor, ...],
) -> tuple[Tensor, ...]:
    """The fused call in differentiable steps, without the register, which stays 0."""
    *controller_weights, _, _ = weights
    narrow = ControllerWeights._make(controller_weights)
    narrow = narrow._replace(weight_ih=narrow.weight_ih[:, : -_REGISTER_SIZES[0]])
    *state, read_vector, value = initial
    hidden, final = run_steps(
        lambda x_t, before: cell(x_t, before, narrow), x, tuple(state), lengths
    )
    return hidden, x.new_zeros(*x.shape[:2], _REGISTER_SIZES[0]), *final, read_vector, value
