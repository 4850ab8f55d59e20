"""Functions for all kinds of verification: merge findings, and format sequences as text."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from unbounded.verification.findings import Finding

#: Greatest number of padded tokens in a batch.
CHUNK_TOKENS: Final = 65536
_SHOWN: Final = 40


def joined(parts: list[Finding]) -> Finding:
    """Merge the findings of one kind at one length."""

    def all_of(name: str) -> list[float]:
        return [value for part in parts if (value := getattr(part, name)) is not None]

    return replace(
        parts[0],
        count=sum(part.count for part in parts),
        right=sum(part.right for part in parts),
        margin=min(part.margin for part in parts),
        certainty=min(all_of("certainty"), default=None),
        displaced=max(all_of("displaced"), default=None),
        wrong=next((part.wrong for part in parts if part.wrong is not None), None),
    )


def shortened(symbols: list[str]) -> str:
    """Format symbols as a text, without the middle if there are many symbols."""
    if len(symbols) <= _SHOWN:
        return " ".join(symbols)
    half = _SHOWN // 2
    left, right = " ".join(symbols[:half]), " ".join(symbols[-half:])
    return f"{left} ... {right} ({len(symbols)} symbols)"
