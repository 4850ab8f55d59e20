"""Models as runs before version 0.2 saved them: two classes with flat keywords, read as the one.

The weights keep their names, so what such a run saved is loaded as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def upgraded_keywords(keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The keywords of `MemoryModel` for those of a saved model, whichever class it was of."""
    vocabulary: dict[str, Any]
    if "vocabulary" in keywords:
        size = keywords["vocabulary"]
        model, vocabulary = upgraded_model(keywords, streams=True), {"inputs": size}
        vocabulary["outputs"] = size
    elif "input_vocabulary" in keywords:
        model = upgraded_model(keywords, streams=False)
        vocabulary = {
            "inputs": keywords["input_vocabulary"],
            "outputs": keywords["output_vocabulary"],
        }
    else:
        return dict(keywords)
    return {**vocabulary, **model, "backend": keywords.get("backend", "auto")}


def upgraded_model(old: Mapping[str, Any], *, streams: bool) -> dict[str, Any]:
    """The options of a model from the flat ones; what was left out then had these defaults.

    Args:
        old: of `TransductionModel`, or with `streams` of `StreamModel`.
    """
    name = old.get("memory", "superposition_stack")
    without = name == "none"
    if streams:
        return {
            "memory": _superposition(old, name),
            "controller": _of_streams(old, without),
            "hidden_size": old.get("hidden_size", 40),
            "embedding_size": None,
            "readout_size": None,
            "output_bias": False,
            "learn_initial_state": False,
            "initialization": "sums",
            "output_initialization": "sums",
            "symbol_initialization": old.get("symbol_initialization", "as_model"),
        }
    embedding = old.get("embedding_size", 64)
    return {
        "memory": _push_pop(old, name),
        "controller": _of_pairs(old, without),
        "hidden_size": old.get("hidden_size", 256),
        "embedding_size": embedding,
        "readout_size": None if without else embedding,
        "output_bias": True,
        "learn_initial_state": old.get("learn_initial_state", True),
        "initialization": old.get("initialization", "glorot"),
        "output_initialization": old.get("output_initialization", "normal"),
        "symbol_initialization": "as_model",
    }


def _push_pop(old: Mapping[str, Any], name: str) -> dict[str, Any]:
    if name == "none":
        return {"name": name}
    part = {"name": name, "width": old.get("memory_width", 256)}
    return part if old.get("pop_bias", -1.0) == -1.0 else {**part, "pop_bias": old["pop_bias"]}


def _of_pairs(old: Mapping[str, Any], without: bool) -> dict[str, Any]:
    part: dict[str, Any] = {"name": "lstm" if without else old.get("controller", "lstm")}
    if without and old.get("layers", 1) != 1:
        part["num_layers"] = old["layers"]
    if without and not old.get("skip_input", True):
        part["skip_input"] = False
    return part


def _superposition(old: Mapping[str, Any], name: str) -> dict[str, Any]:
    if name == "none":
        return {"name": name}
    part = {"name": name, "count": old.get("count", 10)}
    if old.get("depth", 2) != 2:
        part["depth"] = old["depth"]
    # The classes differ in their default, and always did.
    if old.get("noop", False) or name == "superposition_list":
        part["noop"] = old.get("noop", False)
    if old.get("capacity") is not None:
        part |= {"capacity": old["capacity"], "overflow": old.get("overflow", "error")}
    return part


def _of_streams(old: Mapping[str, Any], without: bool) -> dict[str, Any]:
    name = old.get("controller", "elman")
    if name == "elman":
        beside = {} if without else {"recurrent": old.get("recurrent", False)}
        return {"name": name, "activation": "sigmoid", **beside, "bias": False}
    if name == "srcn" and old.get("context_size") is not None:
        return {"name": name, "context_size": old["context_size"]}
    if name == "lstm" and without:
        layers = old.get("layers", 1)
        return {
            "name": name,
            **({} if layers == 1 else {"num_layers": layers}),
            "skip_input": False,
        }
    return {"name": name}
