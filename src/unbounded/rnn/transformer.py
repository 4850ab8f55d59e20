"""The Transformer as a layer with the interface of MemoryRNN."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unbounded.checks import check_bool, check_choice, check_positive
from unbounded.errors import ConfigError, ShapeError
from unbounded.rnn.attention import POSITIONS, SelfAttention, Sinusoids
from unbounded.rnn.baselines import Shape
from unbounded.rnn.blocks import Block, BlockNetwork, BlocksState, SequencePart, check_sizes


class Transformer(BlockNetwork):
    """A Transformer whose steps attend to the steps up to them, or with an option to all.

    x_t goes through a linear map and the blocks: x <- x + attention(norm(x)); x <- x + W_2
    relu(W_1 norm(x)). A norm ends it. The state holds the keys and values of earlier steps, so a
    step costs as much as there are; chunk after chunk gives the results of the whole.

    Args:
        input_size: I.
        hidden_size: H of every block, a multiple of num_heads.
        num_layers: blocks, 1 or more.
        num_heads: heads of the attention.
        feed_forward_size: units between the two maps of a block; None for 4 H.
        positions: "none", "sinusoidal", "rotary", "alibi" or "relative".
        bidirectional: whether steps also attend to later ones. The whole sequence then comes in
            one call, and a task must feed nothing that depends on its answer.
        window: number of steps that a step attends to, itself included; None for all. It bounds
            the state on streams and texts.
        dropout: share that is dropped in training of attention weights, of the feed-forward units
            and of what a block adds, in [0, 1).
        norm_first: whether norms are taken before attention and feed-forward layer; otherwise after
            each sum, as in Vaswani et al. 2017, and none ends the network.
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        backend: "auto" or "reference"; others raise, since there is no kernel.
        device, dtype: of the parameters.
    Raises:
        ShapeError, ConfigError, ChoiceError, DTypeError: an option is invalid.
    Matrices are drawn from Glorot's distribution, biases are 0. Nothing of the initial state is
    learned.
    Source: Vaswani et al. 2017, arXiv:1706.03762; those of `positions` are in `SelfAttention`.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 2,
        num_heads: int = 4,
        feed_forward_size: int | None = None,
        positions: str = "sinusoidal",
        bidirectional: bool = False,
        window: int | None = None,
        dropout: float = 0.0,
        norm_first: bool = True,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        backend: str = "auto",
    ) -> None:
        super().__init__()
        check_sizes(
            batch_first=batch_first, backend=backend, dropout=dropout, num_heads=num_heads,
            device=device, dtype=dtype,
            input_size=input_size, hidden_size=hidden_size, num_layers=num_layers,
        )  # fmt: skip
        check_bool("bidirectional", bidirectional)
        check_bool("norm_first", norm_first)
        check_choice("positions", positions, POSITIONS)
        if feed_forward_size is not None:
            check_positive("feed_forward_size", feed_forward_size)
        if window is not None:
            check_positive("window", window)
        if positions == "rotary" and hidden_size // num_heads % 2:
            raise ConfigError(
                [
                    "positions: rotary needs heads of an even size, got hidden_size / num_heads = "
                    f"{hidden_size // num_heads}"
                ]
            )
        self.num_layers, self.num_heads, self.positions = num_layers, num_heads, positions
        self.bidirectional, self.window = bidirectional, window
        place: dict[str, Any] = {"device": device, "dtype": dtype}

        def block() -> Block:
            attention = SelfAttention(
                hidden_size,
                num_heads,
                positions,
                bidirectional=bidirectional,
                window=window,
                dropout=dropout,
                **place,
            )
            between = 4 * hidden_size if feed_forward_size is None else feed_forward_size
            return Block(
                [attention], hidden_size, between, dropout=dropout, norm_first=norm_first, **place
            )

        first: list[SequencePart] = [Sinusoids()] if positions == "sinusoidal" else []
        self._make_network(
            input_size,
            hidden_size,
            [*first, *(block() for _ in range(num_layers))],
            batch_first=batch_first,
            backend=backend,
            norm=norm_first,
            **place,
        )

    def parts(self, state: BlocksState) -> list[tuple[str, Tensor, Shape]]:
        """Those of each block.

        Raises:
            ShapeError: the layer is bidirectional, and so goes on from no state.
        """
        if self.bidirectional:
            raise ShapeError(
                "state: expected None, because a bidirectional Transformer reads a whole sequence "
                "in one call. Give it the whole sequence, or make one with bidirectional=False."
            )
        return super().parts(state)

    def extra_repr(self) -> str:
        """Sizes, for print(module)."""
        others = ", bidirectional=True" if self.bidirectional else ""
        others += "" if self.window is None else f", window={self.window}"
        return (
            f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, "
            f"num_heads={self.num_heads}, positions={self.positions!r}{others}, "
            f"batch_first={self.batch_first}, backend={self.backend!r}"
        )
