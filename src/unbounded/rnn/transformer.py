"""The Transformer as a layer with the interface of MemoryRNN."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unbounded.checks import check_bool, check_choice, check_kind, check_positive
from unbounded.errors import ConfigError, ShapeError
from unbounded.memories import Memory
from unbounded.rnn.attention import POSITIONS, SelfAttention, Sinusoids
from unbounded.rnn.baselines import Shape
from unbounded.rnn.blocks import Block, BlockNetwork, BlocksState, SequencePart, check_sizes
from unbounded.rnn.memory_attention import MemoryAttention, MemoryPart
from unbounded.rnn.memory_layer import check_memory


class Transformer(BlockNetwork):
    """A Transformer whose steps attend to themselves and earlier steps, or optionally to all.

    x_t goes through a linear map and the blocks: x <- x + attention(norm(x)); x <- x + W_2
    relu(W_1 norm(x)). A norm ends it. The state holds the keys and values of earlier steps, so the
    cost of a step grows with their number. A sequence in chunks has the same results as the
    complete sequence.

    Args:
        input_size: I.
        hidden_size: H of every block, a multiple of num_heads.
        num_layers: blocks, 1 or more.
        num_heads: heads of the attention.
        feed_forward_size: units between the two maps of a block; None for 4 H.
        positions: "none", "sinusoidal", "rotary", "alibi" or "relative".
        bidirectional: whether steps also attend to later ones. The whole sequence must then be
            given in one call, and no input may depend on the answer of the task.
        window: number of steps that a step attends to, itself included; None for all. It bounds
            the state on streams and texts.
        dropout: share that is dropped in training of attention weights, of the feed-forward units
            and of what a block adds, in [0, 1).
        norm_first: whether norms are taken before attention and feed-forward layer; otherwise norms
            are taken after each sum, as in Vaswani et al. 2017, and the network does not end with a
            norm.
        memory: a data structure that some blocks work on (`MemoryAttention`), each with a state of
            its own; on the command line its name, or a mapping of name and options.
        memory_layers: the numbers of these blocks, from 1; None for the middle one.
        beside_attention: whether these blocks add the outputs of attention and memory; otherwise
            the memory replaces the attention, as in DuSell & Chiang 2024.
        batch_first: whether inputs and outputs are [B, T, ...] instead of [T, B, ...].
        backend: of the memory, as for `MemoryAttention`. Without one "auto" or "reference"; others
            raise, since there is no kernel.
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
        memory: Memory[Any, Any] | None = None,
        memory_layers: list[int] | None = None,
        beside_attention: bool = False,
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
        check_bool("beside_attention", beside_attention)
        errors = _memory_errors(memory, memory_layers, beside_attention, num_layers)
        if errors:
            raise ConfigError(errors)
        check_choice("positions", positions, POSITIONS)
        if feed_forward_size is not None:
            check_positive("feed_forward_size", feed_forward_size)
        if window is not None:
            check_positive("window", window)
        if positions == "rotary" and hidden_size // num_heads % 2:
            raise ConfigError(
                "positions: rotary needs heads of an even size, got hidden_size / num_heads = "
                f"{hidden_size // num_heads}"
            )
        self.num_layers, self.num_heads, self.positions = num_layers, num_heads, positions
        self.bidirectional, self.window, self.memory = bidirectional, window, memory
        place: dict[str, Any] = {"device": device, "dtype": dtype}

        with_memory = (num_layers // 2 + 1,) if memory_layers is None else tuple(memory_layers)

        def block(number: int) -> Block:
            mixers: list[SequencePart] = []
            if memory is None or number not in with_memory or beside_attention:
                mixers.append(attention())
            if memory is not None and number in with_memory:
                layer = MemoryAttention(hidden_size, memory, True, backend=backend, **place)
                mixers.append(MemoryPart(layer))
            between = 4 * hidden_size if feed_forward_size is None else feed_forward_size
            return Block(
                mixers, hidden_size, between, dropout=dropout, norm_first=norm_first, **place
            )

        def attention() -> SelfAttention:
            return SelfAttention(
                hidden_size,
                num_heads,
                positions,
                bidirectional=bidirectional,
                window=window,
                dropout=dropout,
                **place,
            )

        first: list[SequencePart] = [Sinusoids()] if positions == "sinusoidal" else []
        self._make_network(
            input_size,
            hidden_size,
            [*first, *(block(number) for number in range(1, num_layers + 1))],
            batch_first=batch_first,
            backend=backend,
            norm=norm_first,
            **place,
        )

    def no_kernel(self) -> str | None:
        """Why the kernels do not support the layer; None with a memory, which chooses itself."""
        return super().no_kernel() if self.memory is None else None

    def parts(self, state: BlocksState) -> list[tuple[str, Tensor, Shape]]:
        """The state parts of each block.

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
        others += "" if self.memory is None else f", memory={self.memory!r}"
        return (
            f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, "
            f"num_heads={self.num_heads}, positions={self.positions!r}{others}, "
            f"batch_first={self.batch_first}, backend={self.backend!r}"
        )


def _memory_errors(
    memory: Memory[Any, Any] | None, layers: Sequence[int] | None, beside: bool, num_layers: int
) -> list[str]:
    """The errors of the options for a memory, one line each."""
    if layers is not None:
        check_kind("memory_layers", layers, list, "Give the numbers of blocks, such as [2].")
    if memory is None:
        given = (("memory_layers", layers is not None), ("beside_attention", beside))
        return [f"{name}: has no effect without a memory" for name, is_given in given if is_given]
    check_memory(memory)
    errors = [
        f"memory_layers: expected numbers of 1..{num_layers}, got {number!r}"
        for number in layers or ()
        if type(number) is not int or not 1 <= number <= num_layers
    ]
    if layers == []:
        errors.append("memory_layers: expected at least one block number, got none")
    if memory.uses_lengths:
        errors.append(f"memory: {type(memory).__name__} uses lengths, which blocks do not pass on")
    return errors
