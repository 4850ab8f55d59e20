"""DeltaNet and DeltaProduct: linear memories, as layers with the interface of MemoryRNN.

A token has n steps of the delta rule, each with a key k of norm 1, a value v and a strength b:

    H <- H + b k (v - H^T k)^T = (I - b k k^T) H + b k v^T;   o = H^T q after a token's last step

The eigenvalues of I - b k k^T are 1 and 1 - b. The reference computes the rule in chunks of matrix
products, and the kernel for the CPU step by step, with the convolution before it.

Sources: one step, Yang et al. 2024, arXiv:2406.06484; several, Siems et al. 2025,
arXiv:2502.10297; b up to 2, Grazzi et al. 2025, arXiv:2411.12537.
"""

from __future__ import annotations

from abc import ABC
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unbounded import kernels
from unbounded.checks import check_bool, check_positive, check_size
from unbounded.memories.core import portable, without_autocast
from unbounded.memories.core.backend import choose_backend
from unbounded.rnn.baselines import Shape
from unbounded.rnn.blocks import Block, BlockNetwork, SequencePart, check_fields, check_sizes
from unbounded.rnn.fused import why_called

#: Number of steps in a chunk, on the CPU and on other devices. The triangular system takes time
#: quadratic in this number, and each chunk needs a few products with H.
CHUNK = 16
LARGE_CHUNK = 64


def delta_rule(
    queries: Tensor, keys: Tensor, values: Tensor, strengths: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the steps of all tokens, chunk by chunk.

    Within a chunk of keys K and values V, the rows u_t = b_t (v_t - H_{t-1}^T k_t) solve one
    triangular system (the WY representation):

        (I + tril(diag(b) K K^T, -1)) U = diag(b) (V - K H);   O = Q H + tril(Q K^T) U;
        H <- H + K^T U

    Args:
        queries: [B, heads, T, D]. keys: [B, heads, T, n, D]. values: [B, heads, T, n, E].
        strengths: [B, heads, T, n]; a step of strength 0 changes nothing.
        state: H before the first step, [B, heads, D, E].
    Returns:
        o of every token, [B, heads, T, E], and H after the last step.
    Source: Yang et al. 2024, arXiv:2406.06484, section 3.
    """
    tokens, each = keys.shape[2:4]
    most = CHUNK if keys.device.type == "cpu" else LARGE_CHUNK
    size = max(1, min(tokens, most // each))
    missing = -tokens % size

    def chunked(tensor: Tensor) -> Tensor:
        """Reshape to [B, heads, chunks, tokens of a chunk, ...], with zeros in the last chunk."""
        padding = (0, 0) * (tensor.dim() - 3) + (0, missing)
        # Padding by 0 keeps the strides, but torch.compile's dynamic shapes expect none left.
        filled: Tensor = F.pad(tensor.contiguous(), padding).unflatten(2, (-1, size))
        return filled

    query = chunked(queries)
    key, value = chunked(keys).flatten(3, 4), chunked(values).flatten(3, 4)
    strength = chunked(strengths).flatten(3).unsqueeze(-1)
    place = torch.arange(size * each, device=keys.device)
    # The solver sees only the part below the diagonal.
    between = strength * (key @ key.transpose(-1, -2))
    # The two parts of the right side that do not need H: diag(b) V and diag(b) K.
    right = torch.cat([strength * value, strength * key], dim=-1)
    solved = torch.linalg.solve_triangular(between, right, upper=False, unitriangular=True)
    own, through_state = solved.split([value.shape[-1], key.shape[-1]], dim=-1)
    token = torch.arange(size, device=keys.device).unsqueeze(1)
    scores = (query @ key.transpose(-1, -2)) * (place // each <= token)
    outputs = []
    for chunk in range(query.shape[2]):
        written = own[:, :, chunk] - through_state[:, :, chunk] @ state
        outputs.append(query[:, :, chunk] @ state + scores[:, :, chunk] @ written)
        state = state + key[:, :, chunk].transpose(-1, -2) @ written
    return torch.cat(outputs, dim=2)[:, :, :tokens], state


@portable
class DeltaState(NamedTuple):
    """State of a `DeltaPart`.

    Fields:
        matrix: H of each head, [B, heads, D, D].
        recent: the last inputs of the convolution, [B, conv_size - 1, C].
    """

    matrix: Tensor
    recent: Tensor


def convolved(inputs: Tensor, weights: Tensor) -> Tensor:
    """Convolve each channel with its weights, as products; torch's way takes longer on the CPU.

    Args:
        inputs: [B, T + taps - 1, C]. weights: [taps, C].
    Returns:
        [B, T, C].
    """
    tokens = inputs.shape[1] - len(weights) + 1
    mixed = inputs[:, :tokens] * weights[0]
    for place, weight in enumerate(weights[1:], start=1):
        mixed = mixed + inputs[:, place : place + tokens] * weight
    return mixed


class _Convolution(nn.Conv1d):
    """A convolution of each channel of [B, T, C]; see `convolved`."""

    def taps(self) -> Tensor:
        """The weights, [taps, C]."""
        return self.weight.squeeze(1).t()

    def forward(self, input: Tensor) -> Tensor:
        """Map [B, T + taps - 1, C] to [B, T, C]."""
        return convolved(input, self.taps())


def split_mixed(
    mixed: Tensor, steps: int, heads: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries [B, heads, T, D], and keys and values [B, heads, T, n, D], of silu(mixed).

    Args:
        mixed: [B, T, C], as for `delta_rule_of_mixed`. steps: n. heads: of D numbers each.
        dtype: of the results. Queries and keys have norm 1.
    """
    # [B, heads, T, 1 + 2 n, D]
    parts = F.silu(mixed).unflatten(-1, (1 + 2 * steps, heads, -1)).permute(0, 3, 1, 2, 4)
    query, key, value = parts.to(dtype).split([1, steps, steps], dim=3)
    return _of_norm_1(query.squeeze(3)), _of_norm_1(key), value


def delta_rule_of_mixed(mixed: Tensor, strengths: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """Run the delta rule on silu(mixed), with queries and keys of norm 1.

    Args:
        mixed: [B, T, C]: queries of all heads, then the keys and the values of each step.
        strengths: [B, T, n, heads]. state: [B, heads, D, D].
    Returns:
        o of every token, [B, T, heads, D], and the last state.
    """
    steps, heads = strengths.shape[2:]
    by_head = strengths.to(state.dtype).permute(0, 3, 1, 2)
    with without_autocast(mixed.device):
        query, key, value = split_mixed(mixed, steps, heads, state.dtype)
        read, state = delta_rule(query, key, value, by_head, state)
    return read.transpose(1, 2), state


def reference_delta_rule(
    projected: Tensor, recent: Tensor, weights: Tensor | None, strengths: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """What `kernels.delta_rule` computes, in plain torch; see `kernels.DeltaInputs`."""
    if weights is not None:
        projected = convolved(torch.cat([recent, projected], dim=1), weights)
    return delta_rule_of_mixed(projected, strengths, state)


class DeltaPart(SequencePart):
    """The delta rule with queries, keys, values and strengths that are maps of its inputs.

    q, k_j, v_j = silu(convolution(W x)), with q and k_j divided by their norms;
    b_j = sigmoid(W_b x), or twice that;  y = W_o norm(o), with o of `delta_rule`

    Args:
        hidden_size: H. num_heads: of D = H / num_heads numbers each.
        steps: n, steps of a token.
        conv_size: tokens that the convolution of each channel sees; 0 for none.
        negative_eigenvalues: whether b is in (0, 2) instead of (0, 1).
        backend: "auto" uses the kernel for the CPU if it can serve a call; see `DeltaNet`.
        device, dtype: of the parameters.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        *,
        steps: int,
        conv_size: int,
        negative_eigenvalues: bool,
        backend: str,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.backend = backend
        place: dict[str, Any] = {"device": device, "dtype": dtype}
        self.num_heads, self.head_size, self.steps = num_heads, hidden_size // num_heads, steps
        self.conv_size, self.negative_eigenvalues = conv_size, negative_eigenvalues
        self.channels = (1 + 2 * steps) * hidden_size
        #: Queries, then the keys of each step, then their values.
        self.projections = nn.Linear(hidden_size, self.channels, bias=False, **place)
        self.strengths = nn.Linear(hidden_size, steps * num_heads, bias=False, **place)
        self.convolution: _Convolution | None = None
        if conv_size:
            self.convolution = _Convolution(
                self.channels, self.channels, conv_size, groups=self.channels, bias=False, **place
            )
        self.norm = nn.RMSNorm(self.head_size, eps=1e-5, **place)
        self.output = nn.Linear(hidden_size, hidden_size, bias=False, **place)

    def reset_parameters(self) -> None:
        """Draw the convolution like torch.nn.Conv1d, and set the norm to 1."""
        if self.convolution is not None:
            self.convolution.reset_parameters()
        self.norm.reset_parameters()

    def initial_state(self, batch_size: int, like: Tensor) -> DeltaState:
        """Zeros."""
        size = self.head_size
        matrix = like.new_zeros(batch_size, self.num_heads, size, size)
        return DeltaState(matrix, like.new_zeros(batch_size, self._earlier, self.channels))

    @property
    def _earlier(self) -> int:
        return max(0, self.conv_size - 1)

    def parts(self, name: str, state: Any) -> list[tuple[str, Tensor, Shape]]:
        """The matrix and the recent inputs."""
        matrix, recent = check_fields(name, state, DeltaState._fields)
        return [
            (f"{name}.matrix", matrix, (self.num_heads, self.head_size, self.head_size)),
            (f"{name}.recent", recent, (self._earlier, self.channels)),
        ]

    def forward(
        self, x: Tensor, state: DeltaState, lengths: Tensor | None
    ) -> tuple[Tensor, DeltaState]:
        """Run over a chunk; see `SequencePart.forward`."""
        matrix, recent = state
        by_head = self._strengths(x, lengths)
        projected = self.projections(x)
        recent = recent.to(projected.dtype)
        read, matrix = self._run(projected, recent, by_head, matrix)
        output: Tensor = self.output(self.norm(read).flatten(2))
        return output, DeltaState(matrix, self._last_inputs(projected, recent, lengths))

    def instructions(
        self, x: Tensor, state: DeltaState, lengths: Tensor | None
    ) -> tuple[Tensor, ...]:
        """What each head does at each step, by the reference.

        Args:
            x, state, lengths: as for a call.
        Returns:
            queries [B, T, heads, D], keys and values [B, T, heads, n, D], strengths
            [B, T, heads, n].
        """
        projected = self.projections(x)
        if self.convolution is not None:
            recent = state.recent.to(projected.dtype)
            projected = self.convolution(torch.cat([recent, projected], dim=1))
        dtype = state.matrix.dtype
        parts = split_mixed(projected, self.steps, self.num_heads, dtype)
        strengths = self._strengths(x, lengths).transpose(2, 3).to(dtype)
        return (*(part.transpose(1, 2) for part in parts), strengths)

    def _strengths(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """The strengths of each step and head, [B, T, n, heads]; 0 beyond the lengths."""
        strengths = torch.sigmoid(self.strengths(x)) * (2 if self.negative_eigenvalues else 1)
        if lengths is not None:
            steps = torch.arange(x.shape[1], device=x.device)
            strengths = torch.where((steps < lengths.unsqueeze(1)).unsqueeze(-1), strengths, 0)
        by_head: Tensor = strengths.unflatten(-1, (-1, self.num_heads))
        return by_head

    def _run(
        self, projected: Tensor, recent: Tensor, strengths: Tensor, matrix: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The reads and the last matrix; see `delta_rule_of_mixed`."""
        convolution: Any = self.convolution
        reason, weights = self._why_called(), None
        if convolution is not None and reason is None:
            weights = convolution.taps()
        inputs = kernels.DeltaInputs(projected, recent, weights, strengths, matrix)
        reason = reason or kernels.why_not("delta_rule", None, *inputs)
        if self._takes_kernel(reason, matrix.device.type):
            return kernels.delta_rule(inputs, reference=reference_delta_rule)
        if convolution is not None:
            projected = convolution(torch.cat([recent, projected], dim=1))
        return delta_rule_of_mixed(projected, strengths, matrix)

    def _why_called(self) -> str | None:
        """Why the convolution must be called as a module; None if its weights are enough."""
        convolution: Any = self.convolution
        if convolution is None:
            return None
        if not isinstance(convolution, _Convolution):
            return "the convolution is another module, which only the reference calls"
        return why_called(convolution, "convolution")

    def _takes_kernel(self, reason: str | None, device: str) -> bool:
        if self.backend in ("auto", "reference"):
            return self.backend == "auto" and reason is None
        return choose_backend(self.backend, "the delta rule", reason, device)

    def _last_inputs(self, projected: Tensor, recent: Tensor, lengths: Tensor | None) -> Tensor:
        """The last inputs of the convolution of each sequence."""
        tokens, earlier = projected.shape[1], self._earlier
        if self.convolution is None:
            return recent
        # A graph for any number of tokens must not depend on it.
        if lengths is None and not torch.compiler.is_compiling() and tokens >= earlier:
            return projected[:, tokens - earlier :].clone()  # a view would keep all of them
        every = torch.cat([recent, projected], dim=1)
        if lengths is None:
            return every[:, tokens:]
        ends = lengths.clamp(0, tokens)
        rows = ends.unsqueeze(1) + torch.arange(earlier, device=every.device)
        return every.gather(1, rows.unsqueeze(-1).expand(-1, -1, self.channels))


def _of_norm_1(vectors: Tensor) -> Tensor:
    """Divide vectors by their norms. Vectors near 0 stay short, so that gradients stay finite."""
    return vectors * torch.rsqrt(vectors.square().sum(dim=-1, keepdim=True) + 1e-6)


class _DeltaNetwork(BlockNetwork, ABC):
    """What `DeltaNet` and `DeltaProduct` have in common."""

    def _make_blocks(
        self, input_size: int, hidden_size: int, num_layers: int, num_heads: int,
        feed_forward_size: int | None, *,
        steps: int, conv_size: int, negative_eigenvalues: bool, dropout: float,
        batch_first: bool, backend: str,
        device: torch.device | str | None, dtype: torch.dtype | None, **sizes: int,
    ) -> None:  # fmt: skip
        """Check the options and make the network; `sizes` are further sizes to check."""
        check_sizes(
            batch_first=batch_first, backend=backend, dropout=dropout, num_heads=num_heads,
            device=device, dtype=dtype,
            input_size=input_size, hidden_size=hidden_size, num_layers=num_layers, **sizes,
        )  # fmt: skip
        check_bool("negative_eigenvalues", negative_eigenvalues)
        check_size("conv_size", conv_size)
        if feed_forward_size is not None:
            check_positive("feed_forward_size", feed_forward_size)
        self.num_layers, self.num_heads = num_layers, num_heads
        self.conv_size, self.negative_eigenvalues = conv_size, negative_eigenvalues
        between = 4 * hidden_size if feed_forward_size is None else feed_forward_size
        place: dict[str, Any] = {"device": device, "dtype": dtype}

        def part() -> DeltaPart:
            return DeltaPart(
                hidden_size,
                num_heads,
                steps=steps,
                conv_size=conv_size,
                negative_eigenvalues=negative_eigenvalues,
                backend=backend,
                **place,
            )

        blocks = [
            Block([part()], hidden_size, between, dropout=dropout, **place)
            for _ in range(num_layers)
        ]
        self._make_network(
            input_size, hidden_size, blocks, batch_first=batch_first, backend=backend, **place
        )

    def no_kernel(self) -> None:
        """None: each block chooses."""


class DeltaNet(_DeltaNetwork):
    """A linear memory with one matrix per head, in which the delta rule replaces a key's value.

    x_t goes through a linear map and the blocks: x <- x + deltanet(norm(x)); x <- x + W_2
    relu(W_1 norm(x)). A norm ends it. The state is a matrix for each head and the last inputs of
    the convolution, so a step costs the same at any length. Sequences are computed in chunks.

    Args:
        input_size: I.
        hidden_size: H of every block, a multiple of num_heads.
        num_layers: blocks, 1 or more.
        num_heads: matrices of a block.
        feed_forward_size: units between the two maps of a block; None for 4 times hidden_size.
        conv_size: steps that the convolution of queries, keys and values sees; 0 for none.
        negative_eigenvalues: whether a step's matrix has eigenvalues in (-1, 1) instead of (0, 1).
            With (0, 1) a network cannot learn parity (Grazzi et al. 2025).
        dropout: share of feed-forward units and of what a block adds that is dropped in training,
            in [0, 1).
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        backend: "auto" uses the kernel for the CPU if it can serve a call, otherwise the reference;
            "cpu" raises if it cannot; "reference" uses plain torch.
        device, dtype: of the parameters.
    Raises:
        ShapeError, ConfigError, ChoiceError, DTypeError: an option is invalid.
    The blocks are those of `Transformer`; the source has other norms and feed-forward layers.
    Nothing of the initial state is learned.
    Source: Yang et al. 2024, arXiv:2406.06484.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 2,
        num_heads: int = 4,
        feed_forward_size: int | None = None,
        conv_size: int = 4,
        negative_eigenvalues: bool = False,
        dropout: float = 0.0,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self._make_blocks(
            input_size, hidden_size, num_layers, num_heads, feed_forward_size,
            steps=1, conv_size=conv_size, negative_eigenvalues=negative_eigenvalues,
            dropout=dropout, batch_first=batch_first, backend=backend, device=device, dtype=dtype,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Sizes and choices, for print(module)."""
        return (
            f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, "
            f"num_heads={self.num_heads}, conv_size={self.conv_size}, "
            f"negative_eigenvalues={self.negative_eigenvalues}, batch_first={self.batch_first}, "
            f"backend={self.backend!r}"
        )


class DeltaProduct(_DeltaNetwork):
    """A DeltaNet that applies several steps of the delta rule to its matrices for each input.

    The matrix of a token is a product of n generalized Householder matrices, which can be any
    rotation or permutation of n + 1 directions.

    Args:
        input_size: I.
        hidden_size: H of every block, a multiple of num_heads.
        householder_steps: n, steps of the delta rule for each input.
        num_layers: blocks, 1 or more.
        num_heads: matrices of a block.
        feed_forward_size: units between the two maps of a block; None for 4 times hidden_size.
        conv_size: inputs that the convolution of queries, keys and values sees; 0 for none.
        negative_eigenvalues: whether a step's matrix has eigenvalues in (-1, 1), as in most of the
            source, instead of (0, 1).
        dropout: share of feed-forward units and of what a block adds that is dropped in training,
            in [0, 1).
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        backend: "auto" uses the kernel for the CPU if it can serve a call, otherwise the reference;
            "cpu" raises if it cannot; "reference" uses plain torch.
        device, dtype: of the parameters.
    Raises:
        ShapeError, ConfigError, ChoiceError, DTypeError: an option is invalid.
    The blocks are those of `Transformer`; the source has other norms and feed-forward layers, and a
    variant with a forget gate, which is not part of this library. Nothing of the initial state is
    learned.
    Source: Siems et al. 2025, arXiv:2502.10297.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        householder_steps: int = 2,
        num_layers: int = 2,
        num_heads: int = 4,
        feed_forward_size: int | None = None,
        conv_size: int = 4,
        negative_eigenvalues: bool = True,
        dropout: float = 0.0,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        self.householder_steps = householder_steps
        self._make_blocks(
            input_size, hidden_size, num_layers, num_heads, feed_forward_size,
            steps=householder_steps, conv_size=conv_size, negative_eigenvalues=negative_eigenvalues,
            dropout=dropout, batch_first=batch_first, backend=backend, device=device, dtype=dtype,
            householder_steps=householder_steps,
        )  # fmt: skip

    def extra_repr(self) -> str:
        """Sizes and choices, for print(module)."""
        return (
            f"{self.input_size}, {self.hidden_size}, householder_steps={self.householder_steps}, "
            f"num_layers={self.num_layers}, num_heads={self.num_heads}, "
            f"conv_size={self.conv_size}, negative_eigenvalues={self.negative_eigenvalues}, "
            f"batch_first={self.batch_first}, backend={self.backend!r}"
        )
