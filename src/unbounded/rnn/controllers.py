"""Controllers: recurrent cells as functions of their weights, and modules with these weights.

The reference loop and the fused kernels use the same weights.
"""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.checks import check_bool, check_choice, check_number, check_place, check_positive
from unbounded.errors import ChoiceError, ConfigError, DTypeError, ShapeError
from unbounded.kernels import ControllerWeights
from unbounded.replaced import remember_methods

ControllerState = tuple[Tensor, ...]
Cell = Callable[[Tensor, ControllerState, ControllerWeights], ControllerState]

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": F.relu,
}


def _linear(inputs: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Apply a linear map. Under autocast, the result is cast to the dtype of the weights."""
    return F.linear(inputs, weight, bias).to(weight.dtype)


def lstm_cell(
    inputs: Tensor, state: ControllerState, weights: ControllerWeights
) -> ControllerState:
    """One step of an LSTM, with gates in the order i, f, g, o as in torch.nn.LSTM.

    Args:
        inputs: [B, I + R]. state: (h, c), each [B, H].
    """
    h, c = state
    gates = _linear(inputs, weights.weight_ih, weights.bias_ih)
    if weights.weight_hh is not None:
        gates = gates + _linear(h, weights.weight_hh, weights.bias_hh)
    i, f, g, o = gates.chunk(4, dim=-1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(c), c


def gru_cell(inputs: Tensor, state: ControllerState, weights: ControllerWeights) -> ControllerState:
    """One step of a GRU, with gates in the order r, z, n as in torch.nn.GRU.

    Args:
        inputs: [B, I + R]. state: (h,), [B, H].
    """
    (h,) = state
    if weights.weight_hh is None:
        raise ChoiceError("GRU controller without recurrence", "weight_hh = None", ["weight_hh"])
    input_r, input_z, input_n = _linear(inputs, weights.weight_ih, weights.bias_ih).chunk(3, -1)
    hidden_r, hidden_z, hidden_n = _linear(h, weights.weight_hh, weights.bias_hh).chunk(3, -1)
    reset = torch.sigmoid(input_r + hidden_r)
    update = torch.sigmoid(input_z + hidden_z)
    candidate = torch.tanh(input_n + reset * hidden_n)
    return (candidate + update * (h - candidate),)


def elman_cell(
    inputs: Tensor,
    state: ControllerState,
    weights: ControllerWeights,
    activation: str = "tanh",
) -> ControllerState:
    """One step of an Elman network. Without weight_hh, it is a feed-forward controller.

    Args:
        inputs: [B, I + R]. state: (h,), [B, H].
    """
    (h,) = state
    total = _linear(inputs, weights.weight_ih, weights.bias_ih)
    if weights.weight_hh is not None:
        total = total + _linear(h, weights.weight_hh, weights.bias_hh)
    elif weights.bias_hh is not None:
        total = total + weights.bias_hh
    return (ACTIVATIONS[activation](total),)


def initialize_cell(module: nn.Module, hidden_size: int) -> None:
    """Draw matrices from Glorot's uniform distribution and biases from U(-1/sqrt(H), 1/sqrt(H)).

    The papers do not specify a distribution. With this distribution, reversal is learned in a third
    of the batches that the defaults of torch.nn.LSTM need.
    """
    bound = 1 / math.sqrt(hidden_size)
    for parameter in module.parameters():
        if parameter.dim() == 2:
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.uniform_(parameter, -bound, bound)


def check_next_state(new: object, state: ControllerState) -> None:
    """Raise ShapeError unless a controller returned a state like the one that it was given."""
    if not isinstance(new, tuple) or len(new) != len(state):
        got = f"a tuple of {len(new)}" if isinstance(new, tuple) else type(new).__name__
        raise ShapeError(
            "the controller's forward: expected the next state, a tuple of its `state_size` "
            f"tensors ({len(state)}) with the output first, got {got}."
        )


class Controller(nn.Module, ABC):
    """A recurrent cell with its weights.

    A custom controller is created with (input_size, hidden_size, device=, dtype=), where input_size
    is I + R. A custom controller needs `hidden_size`, `state_size` (number of tensors in its state;
    the first is the output h) and `forward(inputs, state) -> state`. A custom controller runs on
    the reference implementation.
    """

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        remember_methods(cls)

    hidden_size: int
    state_size: int = 1
    #: The kernels' name for this cell; None without a kernel.
    kernel_name: str | None = None

    @abstractmethod
    def forward(self, inputs: Tensor, state: ControllerState) -> ControllerState:
        """Return the next state from inputs [B, I + R] and state, tensors [B, H]."""

    def reset_parameters(self) -> None:
        """Reinitialize the parameters. By default, call `reset_parameters` of all children."""
        for module in self.children():
            reset = getattr(module, "reset_parameters", None)  # torch has no type for these modules
            if callable(reset):
                reset()


class WeightedController(Controller):
    """Parameters that the three cells share. A kernel uses them as they are."""

    weight_ih: nn.Parameter
    weight_hh: nn.Parameter | None
    bias_ih: nn.Parameter | None
    bias_hh: nn.Parameter | None

    def _make_weights(
        self,
        gates: int,
        input_size: int,
        hidden_size: int,
        *,
        recurrent: bool,
        biases: int,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        check_positive("input_size", input_size)
        check_positive("hidden_size", hidden_size)
        check_place(device, dtype)
        self.input_size, self.hidden_size = input_size, hidden_size

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(*shape, device=device, dtype=dtype))

        rows = gates * hidden_size
        self.weight_ih = parameter(rows, input_size)
        self.weight_hh = parameter(rows, hidden_size) if recurrent else None
        self.bias_ih = parameter(rows) if biases >= 1 else None
        self.bias_hh = parameter(rows) if biases >= 2 else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Reinitialize the parameters with `initialize_cell`."""
        initialize_cell(self, self.hidden_size)

    @property
    def weights(self) -> ControllerWeights:
        """The weights in the form that cells and kernels use."""
        return ControllerWeights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)

    @property
    @abstractmethod
    def cell(self) -> Cell:
        """The step of the cell, as a function of the weights."""

    def forward(self, inputs: Tensor, state: ControllerState) -> ControllerState:
        """Return the next state from inputs [B, I + R] and state, tensors [B, H]."""
        return self.cell(inputs, state, self.weights)

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        return f"{self.input_size}, {self.hidden_size}"


class LSTMController(WeightedController):
    """An LSTM cell with one bias per gate, as in the paper's parameter counts.

    Args:
        input_size: I + R. hidden_size: H.
        bias: whether there is a bias.
        forget_bias: initial bias of the forget gate; None keeps the random draw.
        second_bias: whether there is a second bias, as in torch.nn.LSTM and in the parameter
            counts of Yang 2016.
    Raises:
        ConfigError: a second bias without the first. DTypeError: a bias option is not a bool.
    Source: Grefenstette et al. 2015, arXiv:1506.02516, section 3.4.
    """

    state_size = 2
    kernel_name = "lstm"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        forget_bias: float | None = 1.0,
        second_bias: bool = False,
    ) -> None:
        super().__init__()
        biases = _biases(bias, second_bias)
        if forget_bias is not None:
            check_number("forget_bias", forget_bias)
        self.forget_bias = None if forget_bias is None else float(forget_bias)
        self._make_weights(
            4,
            input_size,
            hidden_size,
            recurrent=True,
            biases=biases,
            device=device,
            dtype=dtype,
        )

    def reset_parameters(self) -> None:
        """Reinitialize the parameters, then set the forget gate's bias (or the sum of its two)."""
        super().reset_parameters()
        if self.bias_ih is not None and self.forget_bias is not None:
            gate = slice(self.hidden_size, 2 * self.hidden_size)
            with torch.no_grad():
                self.bias_ih[gate] = self.forget_bias
                if self.bias_hh is not None:
                    self.bias_hh[gate] = 0.0

    @property
    def cell(self) -> Cell:
        """`lstm_cell`."""
        return lstm_cell


class GRUController(WeightedController):
    """A GRU cell with the two biases of torch.nn.GRU.

    Args:
        input_size: I + R. hidden_size: H.
        bias: whether there are biases.
    """

    kernel_name = "gru"

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check_bool("bias", bias)
        self._make_weights(
            3,
            input_size,
            hidden_size,
            recurrent=True,
            biases=2 * int(bias),
            device=device,
            dtype=dtype,
        )

    @property
    def cell(self) -> Cell:
        """`gru_cell`."""
        return gru_cell


class ElmanController(WeightedController):
    """A simple recurrent network, or a feed-forward layer with `recurrent=False`.

    Args:
        input_size: I + R. hidden_size: H.
        activation: "tanh", "sigmoid" or "relu".
        recurrent: whether h_{t-1} is an input (the matrix R of Joulin & Mikolov 2015).
        bias: whether there is a bias; Joulin & Mikolov 2015 have none.
        second_bias: whether there is a second bias, as in torch.nn.RNN; the program of Deleu &
            Dureau 2016 has one for x and one for the read vector.
    Raises:
        ChoiceError: an unknown activation. ConfigError: a second bias without the first.
        DTypeError: `recurrent` or a bias is not a bool.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: str = "tanh",
        recurrent: bool = True,
        bias: bool = True,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        second_bias: bool = False,
    ) -> None:
        super().__init__()
        check_choice("activation", activation, ACTIVATIONS)
        check_bool("recurrent", recurrent)
        biases = _biases(bias, second_bias)
        self.activation = activation
        self.kernel_name = f"elman_{activation}"
        self._make_weights(
            1,
            input_size,
            hidden_size,
            recurrent=recurrent,
            biases=biases,
            device=device,
            dtype=dtype,
        )

    @property
    def cell(self) -> Cell:
        """`elman_cell` with this activation."""

        def cell(
            inputs: Tensor, state: ControllerState, weights: ControllerWeights
        ) -> ControllerState:
            return elman_cell(inputs, state, weights, self.activation)

        return cell


def _biases(bias: bool, second_bias: bool) -> int:
    """Number of biases of a gate."""
    check_bool("bias", bias)
    check_bool("second_bias", second_bias)
    if second_bias and not bias:
        raise ConfigError("second_bias: expected False without a bias, got True")
    return bias + second_bias


ControllerClass = type[LSTMController] | type[GRUController] | type[ElmanController]

#: Every controller by its name in `MemoryRNN(controller=...)`.
CONTROLLERS: dict[str, ControllerClass] = {
    "lstm": LSTMController,
    "gru": GRUController,
    "elman": ElmanController,
}


def input_width(controller: Controller, input_size: int, read_vector_size: int = 0) -> int:
    """Number of columns for x_t in the input matrix; `input_size` for a custom controller."""
    if not isinstance(controller, WeightedController):
        return input_size
    return controller.weight_ih.shape[1] - read_vector_size


#: (input_size, hidden_size, device=, dtype=) -> Controller.
ControllerFactory = Callable[..., Controller]


def _check_signature(controller: ControllerFactory) -> None:
    """Raise DTypeError unless a callable accepts a controller's arguments."""
    try:
        signature = inspect.signature(controller)
    except ValueError:  # the class is not written in Python
        return
    try:
        signature.bind(1, 1, device=None, dtype=None)
    except TypeError as error:
        name = getattr(controller, "__name__", type(controller).__name__)
        raise DTypeError(
            f"controller: expected a callable (input_size, hidden_size, device=, dtype=), got "
            f"{name}{signature}: {error}."
        ) from None


def make_controller(
    controller: str | ControllerFactory,
    input_size: int,
    hidden_size: int,
    device: torch.device | str | None,
    dtype: torch.dtype | None,
    bias: bool = True,
) -> Controller:
    """Create a controller from its name or a user's callable.

    Raises:
        ChoiceError: an unknown name. DTypeError: the callable returns no Controller, or `bias` is
            False with a callable.
    """
    if not isinstance(controller, str):
        kind: object = controller
        if isinstance(kind, type) and issubclass(kind, Mapping):
            raise DTypeError(
                f"controller: expected a callable that makes an unbounded.rnn.Controller, got "
                f"the class {kind.__name__}. By name: {', '.join(CONTROLLERS)}."
            )
        if not bias:
            raise DTypeError(
                "bias: expected True with a custom controller; give it there, for example "
                "functools.partial(ElmanController, bias=False)."
            )
        is_factory = callable(controller) and not isinstance(controller, nn.Module)
        if is_factory:
            _check_signature(controller)
        result: object = controller
        if is_factory:
            result = controller(input_size, hidden_size, device=device, dtype=dtype)
        if not isinstance(result, Controller) or not is_factory:
            raise DTypeError(
                f"controller: expected a callable that makes an unbounded.rnn.Controller, got "
                f"a {type(result).__name__}. By name: {', '.join(CONTROLLERS)}."
            )
        return result
    if controller not in CONTROLLERS:
        text = f"Valid: {', '.join(sorted(CONTROLLERS))}, or a custom class, given as the class."
        raise ChoiceError("controller", controller, CONTROLLERS, text)
    return CONTROLLERS[controller](input_size, hidden_size, bias=bias, device=device, dtype=dtype)
