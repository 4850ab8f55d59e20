"""The benchmarked model as a jax.lax.scan, compiled by XLA without a kernel written by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import Tensor

from unbounded.experiments.bench.cases import Case
from unbounded.rnn import MemoryRNN
from unbounded.rnn.controllers import WeightedController


def _nearer(strengths: Any, end: str) -> Any:
    """Sum, for each entry, the strengths of entries strictly nearer to `end`, [B, N]."""
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
    """Return outputs and final state as a function of the weights and the input [T, B, I]."""
    width, steps = case.width, case.steps
    pops_and_reads = {"stack": ["top"], "queue": ["bottom"], "deque": ["top", "bottom"]}
    ends = pops_and_reads[case.memory]

    def step(weights: Any, carry: Any, x_and_time: Any) -> Any:
        h, c, read_vector, values, strengths = carry
        x, t = x_and_time
        gates = (
            jnp.concatenate([x, read_vector], -1) @ weights["ih"] + h @ weights["hh"] + weights["b"]
        )
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
        read_vector = jnp.concatenate([_read(strengths, values, end) for end in ends], -1)
        output = jnp.tanh(h @ weights["out"] + weights["out_b"])
        return (h, c, read_vector, values, strengths), output

    def run(weights: Any, x: Any) -> Any:
        batch = x.shape[1]
        rows = steps * len(ends)
        dtype = x.dtype
        carry = (
            jnp.zeros((batch, case.hidden), dtype),
            jnp.zeros((batch, case.hidden), dtype),
            jnp.zeros((batch, case.read_vector), dtype),
            jnp.zeros((batch, rows, width), dtype),
            jnp.zeros((batch, rows), dtype),
        )
        final, outputs = jax.lax.scan(
            lambda carry, each: step(weights, carry, each), carry, (x, jnp.arange(steps))
        )
        return outputs, final

    return run


def _weights(layer: MemoryRNN) -> dict[str, Any]:
    """The layer's weights under the names that the scan uses."""
    part = layer.only_layer()
    controller, readout = part.controller, part.readout
    if not isinstance(controller, WeightedController) or readout is None:
        raise TypeError("the JAX scan supports only an LSTM with a readout")
    of = controller.weights
    if of.weight_hh is None or of.bias_ih is None or part.heads.bias is None:
        raise TypeError("the JAX scan supports only an LSTM with recurrence and biases")
    bias = of.bias_ih if of.bias_hh is None else of.bias_ih + of.bias_hh
    tensors = {
        "ih": of.weight_ih.t(),
        "hh": of.weight_hh.t(),
        "b": bias,
        "heads": part.heads.weight.t(),
        "heads_b": part.heads.bias,
        "out": readout.weight.t(),
        "out_b": readout.bias,
    }
    return {name: jnp.asarray(tensor.detach().numpy()) for name, tensor in tensors.items()}


class Scan:
    """An LSTM with the case's memory as one compiled scan, with the weights of a layer.

    JAX chooses its own number of threads; set XLA_FLAGS to change it.
    """

    def __init__(self, case: Case, layer: MemoryRNN, x: Tensor) -> None:
        if case.dtype == "float64":
            jax.config.update("jax_enable_x64", True)
        run = _model(case)
        self._arguments = _weights(layer), jnp.asarray(x.detach().numpy())
        self._run = jax.jit(run)
        self._gradients = jax.jit(
            jax.value_and_grad(lambda weights, x: run(weights, x)[0].sum(), argnums=(0, 1))
        )

    def forward_backward(self) -> object:
        """One forward and backward pass."""
        return jax.block_until_ready(self._gradients(*self._arguments))

    def results(self) -> list[Tensor]:
        """Return outputs, final h, c, read vector, values and strengths, and the gradient of x."""
        outputs, final = self._run(*self._arguments)
        _, (_, grad_x) = self._gradients(*self._arguments)
        return [torch.from_numpy(np.array(each)) for each in (outputs, *final, grad_x)]
