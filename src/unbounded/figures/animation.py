"""Sequences of figures as a looping GIF."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from matplotlib.figure import Figure

from unbounded.errors import ConfigError
from unbounded.figures.style import set_heading, style
from unbounded.files import replacing, storage_errors

FrameT = TypeVar("FrameT")

_DOTS_PER_INCH = 80


def draw_animation(
    frames: Mapping[int, FrameT],
    draw: Callable[[FrameT], Figure],
    path: Path,
    *,
    title: str = "",
    frame_ms: int = 400,
) -> Path:
    """Draw a frame for each batch.

    Args:
        frames: batch -> the data of its frame.
        draw: draws a figure of it; all have one size.
        path: the file, which ends in .gif; its folder is created when missing.
        title: heading, before the number of the batch.
        frame_ms: duration of a frame, in milliseconds; the last one is shown three times as long.
    Raises:
        ConfigError: there is no frame, or `path` ends otherwise.
        StorageError: the file cannot be written.
    """
    from PIL import Image

    errors = []
    if not frames:
        errors.append("frames: expected at least one checkpoint, got none")
    if path.suffix != ".gif":
        errors.append(f"path: expected a name that ends in .gif, got {path.name!r}")
    if errors:
        raise ConfigError(errors)
    images = []
    with style():
        for batch, frame in sorted(frames.items()):
            figure = draw(frame)
            set_heading(figure, title, f"batch {batch}")
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
            images.append(Image.open(buffer).convert("RGB"))
    durations = [frame_ms] * (len(images) - 1) + [3 * frame_ms]
    with storage_errors(path.parent, "making folder"):
        path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as draft:
        images[0].save(
            draft,
            format="GIF",
            save_all=True,
            append_images=images[1:],
            duration=durations,
            loop=0,
        )
    return path
