"""The heads of a memory during training: an animation with a frame for each checkpoint."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from matplotlib.figure import Figure

from unbounded.errors import ConfigError
from unbounded.figures.keys import KeyTrace, key_bounds, key_figure
from unbounded.figures.style import set_heading, style
from unbounded.figures.tape import TapeTrace, seen_locations, tape_figure
from unbounded.files import make_folder, replacing

if TYPE_CHECKING:
    from PIL.Image import Image as PilImage

FrameT = TypeVar("FrameT")

_DOTS_PER_INCH = 80
_COLOURS = 64


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
    images: list[PilImage] = []
    with style():
        for batch, frame in sorted(frames.items()):
            figure = draw(frame)
            set_heading(figure, title, f"batch {batch}")
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
            images.append(Image.open(buffer).convert("RGB"))
    images = _with_one_palette(images)
    durations = [frame_ms] * (len(images) - 1) + [3 * frame_ms]
    make_folder(path.parent)
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


def _with_one_palette(images: list[PilImage]) -> list[PilImage]:
    """Reduce frames to common colours, so that a file has only what changes between them."""
    from PIL import Image

    width, height = (max(1, side // 2) for side in images[0].size)
    strip = Image.new("RGB", (width, height * len(images)))
    for k, image in enumerate(images):
        strip.paste(image.resize((width, height), Image.Resampling.NEAREST), (0, k * height))
    palette = strip.quantize(_COLOURS, dither=Image.Dither.NONE)
    return [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]


def draw_course(
    frames: Mapping[int, TapeTrace], path: Path, *, title: str = "", frame_ms: int = 400
) -> Path:
    """Draw the heads of a tape on one sequence at several checkpoints, as a GIF.

    Args:
        frames: batch -> trace of the heads; all of one sequence and one tape.
        path: the file, which ends in .gif; its folder is created when missing.
        title: heading, before the number of the batch.
        frame_ms: duration of a frame, in milliseconds; the last one is shown three times as long.
    Raises:
        ConfigError: there is no frame, or `path` ends otherwise.
        StorageError: the file cannot be written.
    """
    # All frames show the same locations, which are those with a head in any frame.
    locations = seen_locations(frames.values()) if frames else None
    return draw_animation(
        frames, lambda trace: tape_figure(trace, locations), path, title=title, frame_ms=frame_ms
    )


def draw_key_course(
    frames: Mapping[int, KeyTrace], path: Path, *, title: str = "", frame_ms: int = 400
) -> Path:
    """Draw the heads of a Lie-access memory at several checkpoints, as a GIF.

    Args, errors and returns are as for `draw_course`. All frames have the same axes.
    Source: the animations accompanying Yang 2016, arXiv:1602.08671.
    """
    bounds = key_bounds(frames.values()) if frames else None
    return draw_animation(
        frames, lambda trace: key_figure(trace, bounds), path, title=title, frame_ms=frame_ms
    )
