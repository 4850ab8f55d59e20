"""The delta rule over a sequence, in chunks of matrix products, or step by step.

A token has n steps, each with a key k of norm 1, a value v and a strength b:

    H <- H + b k (v - H^T k)^T = (I - b k k^T) H + b k v^T;   o = H^T q after a token's last step

The eigenvalues of I - b k k^T are 1 and 1 - b.

Sources: one step, Yang et al. 2024, arXiv:2406.06484; several, Siems et al. 2025,
arXiv:2502.10297; b up to 2, Grazzi et al. 2025, arXiv:2411.12537.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

#: Number of steps in a chunk. The triangular system takes time quadratic in this number, and each
#: chunk needs a product with H.
CHUNK = 64


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
    size = max(1, min(tokens, CHUNK // each))
    missing = -tokens % size

    def chunked(tensor: Tensor) -> Tensor:
        """Reshape to [B, heads, chunks, tokens of a chunk, ...], with zeros in the last chunk."""
        padding = (0, 0) * (tensor.dim() - 3) + (0, missing)
        filled: Tensor = F.pad(tensor, padding).unflatten(2, (-1, size))
        return filled

    query = chunked(queries)
    key, value = chunked(keys).flatten(3, 4), chunked(values).flatten(3, 4)
    strength = chunked(strengths).flatten(3).unsqueeze(-1)
    place = torch.arange(size * each, device=keys.device)
    between = (strength * (key @ key.transpose(-1, -2))).tril(-1)
    # The two parts of the right side that do not need H: diag(b) V and diag(b) K.
    right = torch.cat([strength * value, strength * key], dim=-1)
    solved = torch.linalg.solve_triangular(
        between + torch.eye(len(place), dtype=key.dtype, device=key.device),
        right,
        upper=False,
        unitriangular=True,
    )
    own, through_state = solved.split([value.shape[-1], key.shape[-1]], dim=-1)
    token = torch.arange(size, device=keys.device).unsqueeze(1)
    scores = (query @ key.transpose(-1, -2)) * (place // each <= token)
    outputs = []
    for chunk in range(query.shape[2]):
        written = own[:, :, chunk] - through_state[:, :, chunk] @ state
        outputs.append(query[:, :, chunk] @ state + scores[:, :, chunk] @ written)
        state = state + key[:, :, chunk].transpose(-1, -2) @ written
    return torch.cat(outputs, dim=2)[:, :, :tokens], state


def delta_rule_by_steps(
    queries: Tensor, keys: Tensor, values: Tensor, strengths: Tensor, state: Tensor
) -> tuple[Tensor, Tensor]:
    """Compute the result of `delta_rule` step by step, as in its equations, for tests."""
    outputs = []
    for t in range(queries.shape[2]):
        for j in range(keys.shape[3]):
            key, value = keys[:, :, t, j], values[:, :, t, j]
            read = torch.einsum("bhde,bhd->bhe", state, key)
            written = strengths[:, :, t, j].unsqueeze(-1) * (value - read)
            state = state + torch.einsum("bhd,bhe->bhde", key, written)
        outputs.append(torch.einsum("bhde,bhd->bhe", state, queries[:, :, t]))
    return torch.stack(outputs, dim=2), state
