"""The same model as a jax.lax.scan, compiled by XLA: what one gets without writing a kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from unbounded.experiments.bench.cases import Case


def _nearer(strengths: Any, end: str) -> Any:
    """Sum the strengths strictly nearer to `end`, [B, N]."""
    if end == "top":
        flipped = jnp.flip(strengths, -1)
        return jnp.flip(jnp.cumsum(flipped, -1) - flipped, -1)
    return jnp.cumsum(strengths, -1) - strengths


def _pop(strengths: Any, quantity: Any, end: str) -> Any:
    left = jax.nn.relu(quantity[:, None] - _nearer(strengths, end))
    return jax.nn.relu(strengths - left)


def _read(strengths: Any, values: Any, end: str) -> Any:
    weights = jnp.minimum(strengths, jax.nn.relu(1 - _nearer(strengths, end)))
    return jnp.einsum("bn,bnm->bm", weights, values)


def _model(case: Case) -> Callable[[Any, Any], Any]:
    """Return the sum of all outputs as a function of the weights and the input [T, B, I]."""
    width, steps = case.width, case.steps
    pops_and_reads = {"stack": ["top"], "queue": ["bottom"], "deque": ["top", "bottom"]}
    ends = pops_and_reads[case.memory]

    def step(weights: Any, carry: Any, x_and_time: Any) -> Any:
        h, c, reading, values, strengths = carry
        x, t = x_and_time
        gates = jnp.concatenate([x, reading], -1) @ weights["ih"] + h @ weights["hh"] + weights["b"]
        i, f, g, o = jnp.split(gates, 4, -1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        raw = (h @ weights["heads"] + weights["heads_b"]).reshape(h.shape[0], len(ends), width + 2)
        value = jnp.tanh(raw[..., :width])
        push, pop = jax.nn.sigmoid(raw[..., width]), jax.nn.sigmoid(raw[..., width + 1])
        for part, end in enumerate(ends):
            strengths = _pop(strengths, pop[:, part], end)
        rows = [t] if case.memory != "deque" else [steps + t, steps - 1 - t]
        for part, row in enumerate(rows):
            values = jax.lax.dynamic_update_slice(values, value[:, part : part + 1], (0, row, 0))
            strengths = jax.lax.dynamic_update_slice(strengths, push[:, part : part + 1], (0, row))
        reading = jnp.concatenate([_read(strengths, values, end) for end in ends], -1)
        output = jnp.tanh(h @ weights["out"] + weights["out_b"])
        return (h, c, reading, values, strengths), output

    def total(weights: Any, x: Any) -> Any:
        batch = x.shape[1]
        rows = steps * len(ends)
        dtype = x.dtype
        carry = (
            jnp.zeros((batch, case.hidden), dtype),
            jnp.zeros((batch, case.hidden), dtype),
            jnp.zeros((batch, case.reading), dtype),
            jnp.zeros((batch, rows, width), dtype),
            jnp.zeros((batch, rows), dtype),
        )
        _, outputs = jax.lax.scan(
            lambda carry, each: step(weights, carry, each), carry, (x, jnp.arange(steps))
        )
        return outputs.sum()

    return total


def scan_pass(case: Case) -> Callable[[], object]:
    """Return one compiled forward and backward pass of an LSTM with the case's memory.

    JAX chooses its own number of threads; set XLA_FLAGS to change it.
    """
    if case.dtype == "float64":
        jax.config.update("jax_enable_x64", True)
    hidden, heads = case.hidden, (case.width + 2) * (2 if case.memory == "deque" else 1)
    shapes = {
        "ih": (case.input + case.reading, 4 * hidden),
        "hh": (hidden, 4 * hidden),
        "b": (4 * hidden,),
        "heads": (hidden, heads),
        "heads_b": (heads,),
        "out": (hidden, case.output),
        "out_b": (case.output,),
    }
    keys = jax.random.split(jax.random.PRNGKey(0), len(shapes) + 1)
    weights = {
        name: jax.random.normal(key, shape, case.dtype) / 16
        for (name, shape), key in zip(shapes.items(), keys[1:], strict=True)
    }
    x = jax.random.normal(keys[0], (case.steps, case.batch, case.input), case.dtype)
    gradients = jax.jit(jax.value_and_grad(_model(case), argnums=(0, 1)))
    return lambda: jax.block_until_ready(gradients(weights, x))
