"""The layer's input for a symbol: a row of an embedding, a one-hot vector, bits, or a number.

Source: bit vectors with control channels, Graves et al. 2014, arXiv:1410.5401, section 4; one
number per step, the program of Deleu & Dureau 2016.
"""

from __future__ import annotations

from typing import Any, Final

import torch
from torch import Tensor

from unbounded.checks import FROM_LIST, check_tensor, is_batched, is_traced
from unbounded.errors import ChoiceError, DTypeError, ShapeError

#: Largest number of bits in a symbol's number: integers below 2**24 are exact in float32.
MOST_BITS: Final = 24
#: How the number formed by the higher bits is fed: unchanged, or, if there are K numbers, as a
#: fraction in [-1, 1).
INPUT_NUMBERS: Final = ("plain", "fraction")


def check_tokens(tokens: Tensor, symbols: int, name: str = "inputs") -> Tensor:
    """Check that `tokens` is an integer tensor [B, T] in 0..symbols-1, and return it as int64.

    Only known values in CPU memory are checked, so that no GPU is synchronized.

    Raises:
        DTypeError, ShapeError: `tokens` is invalid.
    """
    check_tensor(name, tokens, FROM_LIST)
    kind = tokens.dtype
    is_integer = not (kind.is_floating_point or kind.is_complex or kind == torch.bool)
    if not is_integer or tokens.dim() != 2:
        error = ShapeError if is_integer else DTypeError
        raise error(f"{name}: expected int64 tokens [B, T], got {kind} {list(tokens.shape)}.")
    tokens = tokens.long()
    unknown = torch.compiler.is_compiling() or is_traced()
    if unknown or is_batched(tokens) or tokens.device.type != "cpu" or not tokens.numel():
        return tokens
    least, most = (int(end) for end in tokens.aminmax())
    if least < 0 or most >= symbols:
        raise ShapeError(
            f"{name}: expected tokens in 0..{symbols - 1}, one of {symbols} symbols each, got "
            f"{least if least < 0 else most}."
        )
    return tokens


def input_size(symbols: int, bits: int) -> int:
    """Number of inputs for symbols: one for each of `bits` low bits, and the rest as a number.

    Args:
        symbols: number of symbols, at least 1.
        bits: 0 for the number alone.
    """
    return bits + (symbols > 2**bits) if bits else 1


def bit_inputs(
    tokens: Tensor, symbols: int, bits: int, dtype: torch.dtype, number: str = "plain"
) -> Tensor:
    """Tokens as bits, lowest first, followed by the number of the higher bits, [..., I].

    Args:
        tokens: int64 of any shape, in 0..symbols-1.
        symbols, bits: as for `input_size`, which is I.
        dtype: of the result.
        number: "plain" for the number n of the higher bits, or "fraction". Of K numbers, "fraction"
            maps the lower half to 2 n / K and the upper half to 2 n / K - 2. So 0 stays 0 and all
            results are in [-1, 1).
    """
    places = torch.arange(bits, device=tokens.device)
    parts = [((tokens.unsqueeze(-1) >> places) & 1).to(dtype)]
    if input_size(symbols, bits) > bits:
        above = (tokens >> bits).unsqueeze(-1).to(dtype)
        if number == "fraction":
            half = number_count(symbols, bits) / 2
            above = torch.where(above < half, above, above - 2 * half) / half
        parts.append(above)
    return torch.cat(parts, dim=-1)


def number_count(symbols: int, bits: int) -> int:
    """How many different numbers the bits above the low bits of a symbol can form."""
    return (symbols - 1 >> bits) + 1


def bit_errors(bits: Any, embedding_size: int | None, number: Any = "plain") -> list[str]:
    """The errors of the options `input_bits` and `input_number`, one per line."""
    if number not in INPUT_NUMBERS:
        return [f"input_number: {ChoiceError('input_number', number, INPUT_NUMBERS)}"]
    if bits is None:
        if number == "plain":
            return []
        return [
            f"input_number: {number} has no effect without input_bits; give input_bits and "
            "embedding_size null, or leave it at plain"
        ]
    errors = []
    if type(bits) is not int or not 0 <= bits <= MOST_BITS:
        errors.append(f"input_bits: expected an integer from 0 to {MOST_BITS}, got {bits!r}")
    if embedding_size is not None:
        errors.append(
            "input_bits: has no meaning with embeddings; give embedding_size null, or leave it out"
        )
    return errors
