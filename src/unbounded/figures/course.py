"""The heads of a tape over the course of training, as an animation: a frame for each checkpoint."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from unbounded.errors import ConfigError
from unbounded.figures.style import style
from unbounded.figures.tape import TapeTrace, seen_locations, tape_figure
from unbounded.training.files import storage_faults

_DOTS_PER_INCH = 80


def draw_course(
    frames: Mapping[int, TapeTrace], path: Path, *, title: str = "", frame_ms: int = 400
) -> Path:
    """Draw one sequence at several times of training, as a GIF that begins anew at its end.

    Args:
        frames: batch -> what the heads did then; all of one sequence and one tape.
        path: the file, which ends in .gif; its folder is made when missing.
        title: heading, before the number of the batch.
        frame_ms: how long a frame is shown, in milliseconds; the last one three times as long.
    Raises:
        ConfigError: there is no frame, or `path` ends otherwise.
        StorageError: the file cannot be written.
    """
    from PIL import Image

    faults = []
    if not frames:
        faults.append("frames: expected at least one checkpoint, got none")
    if path.suffix != ".gif":
        faults.append(f"path: expected a name that ends in .gif, got {path.name!r}")
    if faults:
        raise ConfigError(faults)
    images = []
    # The same locations in every frame: those where a head is in any of them.
    locations = seen_locations(frames.values())
    with style():
        for batch, trace in sorted(frames.items()):
            figure = tape_figure(trace, locations)
            figure.suptitle(f"{title} batch {batch}".strip(), fontsize=11)
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
            images.append(Image.open(buffer).convert("RGB"))
    durations = [frame_ms] * (len(images) - 1) + [3 * frame_ms]
    with storage_faults(path, "writing"):
        path.parent.mkdir(parents=True, exist_ok=True)
        images[0].save(path, save_all=True, append_images=images[1:], duration=durations, loop=0)
    return path
