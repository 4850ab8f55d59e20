"""The structurally constrained network: an Elman network with slowly changing context units.

Source: Mikolov, Joulin, Chopra, Mathieu & Ranzato 2014, arXiv:1412.7753, section 3.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded.checks import check_bool, check_choice, check_number, check_place, check_positive
from unbounded.errors import ConfigError, ShapeError
from unbounded.layers.plain_layer import PlainLayer
from unbounded.memories.core import check_backend, portable

#: Activations of h, by name.
ACTIVATIONS: Final[dict[str, Callable[[Tensor], Tensor]]] = {
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
}
#: Steps over which the context is one matrix product; longer inputs take several.
BLOCK = 64


@portable
class SRCNState(NamedTuple):
    """Carried state of an SRCN between steps.

    Fields:
        hidden: h, [B, H].
        context: s, [B, C].
    """

    hidden: Tensor
    context: Tensor


class SRCN(PlainLayer[SRCNState]):
    """Hidden units h and context units s, each of which is a slowly decaying sum of the inputs.

    s_t = (1 - alpha) B x_t + alpha s_{t-1}
    h_t = sigma(P s_t + A x_t + R h_{t-1} + b)

    The output is concat(h_t, s_t), for y_t = softmax(U h_t + V s_t). The paper has no bias b. The
    context needs no loop over time: it is linear, so a block of steps is one product with the
    powers of alpha.

    Args:
        input_size: I, size of x_t.
        hidden_size: H.
        context_size: C; the paper has 10 to 40 with 40 to 300 hidden units.
        alpha: 0 <= alpha < 1, shared by all context units and not learned.
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        activation: "sigmoid", as in the paper, or "tanh". With biases, here and in the output, both
            represent the same functions, because sigma(2 a) = (1 + tanh(a)) / 2.
        bias: whether h has a bias.
        learn_initial_state: whether the initial h and s are learned or zero.
        backend: "auto" or "reference"; others raise, since there is no kernel.
        device, dtype: of the parameters.
    Raises:
        ShapeError: a size is no positive integer. ConfigError: alpha is out of range.
        ChoiceError: an unknown activation.
    Source: Mikolov et al. 2014, arXiv:1412.7753, section 3.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        context_size: int = 40,
        alpha: float = 0.95,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        activation: str = "sigmoid",
        bias: bool = False,
        learn_initial_state: bool = False,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        for name, choice in (
            ("batch_first", batch_first),
            ("bias", bias),
            ("learn_initial_state", learn_initial_state),
        ):
            check_bool(name, choice)
        check_backend(backend)
        check_choice("activation", activation, ACTIVATIONS)
        check_place(device, dtype)
        for name, size in (
            ("input_size", input_size),
            ("hidden_size", hidden_size),
            ("context_size", context_size),
        ):
            check_positive(name, size)
        check_number("alpha", alpha)
        if not 0 <= alpha < 1:
            raise ConfigError(
                [f"alpha: expected a number of at least 0 and below 1, got {alpha!r}"]
            )
        self.input_size, self.hidden_size, self.context_size = input_size, hidden_size, context_size
        self.alpha, self.batch_first, self.activation = alpha, batch_first, activation
        self.backend = backend

        def matrix(rows: int, columns: int) -> nn.Parameter:
            return nn.Parameter(torch.empty(rows, columns, device=device, dtype=dtype))

        #: A and, below it, B: both multiply x_t.
        self.weight_ih = matrix(hidden_size + context_size, input_size)
        #: P.
        self.weight_sh = matrix(hidden_size, context_size)
        #: R.
        self.weight_hh = matrix(hidden_size, hidden_size)
        self.bias = (
            nn.Parameter(torch.empty(hidden_size, device=device, dtype=dtype)) if bias else None
        )
        self.initial = (
            nn.Parameter(torch.empty(self.output_size, device=device, dtype=dtype))
            if learn_initial_state
            else None
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the matrices from Glorot's uniform distribution; bias and initial state are 0."""
        for matrix in (self.weight_ih, self.weight_sh, self.weight_hh):
            nn.init.xavier_uniform_(matrix)
        for vector in (self.bias, self.initial):
            if vector is not None:
                nn.init.zeros_(vector)

    @property
    def output_size(self) -> int:
        """H + C."""
        return self.hidden_size + self.context_size

    def weight(self) -> Tensor:
        """A and B."""
        return self.weight_ih

    def inputs_seen(self) -> int:
        """I; within `run_symbols`, the width of the substituted weights."""
        return self.weight_ih.shape[1]

    def unchecked_initial_state(self, batch_size: int) -> SRCNState:
        """The initial h and s."""
        like = self.weight_ih
        if self.initial is not None:
            first = self.initial.expand(batch_size, -1)
            return SRCNState(*torch.split(first, [self.hidden_size, self.context_size], dim=-1))
        return SRCNState(
            like.new_zeros(batch_size, self.hidden_size),
            like.new_zeros(batch_size, self.context_size),
        )

    def parts(self, state: SRCNState) -> list[tuple[str, Tensor, int]]:
        """The h and s of a step."""
        if not isinstance(state, tuple) or len(state) != len(SRCNState._fields):
            got = f" of {len(state)}" if isinstance(state, tuple) else ""
            raise ShapeError(
                f"state: expected hidden and context, got {type(state).__name__}{got}."
            )
        hidden, context = state
        return [(".hidden", hidden, self.hidden_size), (".context", context, self.context_size)]

    def run(self, x: Tensor, state: SRCNState, lengths: Tensor | None) -> tuple[Tensor, SRCNState]:
        """Compute the context of all steps at once, and h step by step."""
        self.takes_kernels("no kernel is built for it")
        state = SRCNState(*state)
        steps, batch_size = x.shape[:2]
        sizes = [self.hidden_size, self.context_size]
        to_hidden, to_context = torch.split(F.linear(x, self.weight_ih), sizes, dim=-1)
        context = self._context((1 - self.alpha) * to_context, state.context)
        from_context = F.linear(context, self.weight_sh, self.bias)
        hidden = self._hidden(to_hidden + from_context, state.hidden)
        output = torch.cat([hidden, context], dim=-1)
        if lengths is None:
            last = output[-1]
        else:
            # Step 0 of `all_steps` is the initial state, the result of a length of 0.
            all_steps = torch.cat([torch.cat(state, dim=-1).unsqueeze(0), output])
            # Lengths cannot always be checked: those beyond T count as T.
            ends = lengths.clamp(0, steps)
            last = all_steps[ends, torch.arange(batch_size, device=lengths.device)]
            is_valid = torch.arange(steps, device=lengths.device).unsqueeze(1) < lengths
            output = output * is_valid.unsqueeze(-1)
        final = SRCNState(*torch.split(last, sizes, dim=-1))
        return output, final

    def _context(self, entering: Tensor, before: Tensor) -> Tensor:
        """Every s, [T, B, C], from (1 - alpha) B x of every step and s_{-1} [B, C]."""
        blocks = []
        for block in torch.split(entering, BLOCK):
            t = torch.arange(len(block), device=block.device)
            age = (t.unsqueeze(1) - t).clamp(min=0)
            # s_t = alpha^(t+1) s_{-1} + sum_{j<=t} alpha^(t-j) entering_j
            powers = torch.tril(torch.pow(self._alpha(block), age))
            decay = torch.pow(self._alpha(block), t + 1).view(-1, 1, 1)
            new = torch.einsum("tj,jbc->tbc", powers, block) + decay * before
            before = new[-1]
            blocks.append(new)
        return torch.cat(blocks)

    def _alpha(self, like: Tensor) -> Tensor:
        return torch.tensor(self.alpha, device=like.device, dtype=like.dtype)

    def _hidden(self, entering: Tensor, before: Tensor) -> Tensor:
        """Every h, [T, B, H]: the only part with a loop over steps."""
        hidden, recurrent, activate = [], self.weight_hh.t(), ACTIVATIONS[self.activation]
        for step in entering.unbind(0):
            before = activate(torch.addmm(step, before, recurrent))
            hidden.append(before)
        return torch.stack(hidden)

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        others = "" if self.activation == "sigmoid" else f", activation={self.activation}"
        others += "" if self.bias is None else ", bias=True"
        return (
            f"{self.input_size}, {self.hidden_size}, context_size={self.context_size}, "
            f"alpha={self.alpha}, batch_first={self.batch_first}, backend={self.backend!r}{others}"
        )
