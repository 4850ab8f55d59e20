"""The heads of a memory during training: an animation with a frame for each checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unbounded.figures.animation import draw_animation
from unbounded.figures.keys import KeyTrace, key_bounds, key_figure
from unbounded.figures.tape import TapeTrace, seen_locations, tape_figure


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
    # All frames have the same locations: those with a head in any frame.
    locations = seen_locations(frames.values()) if frames else None
    return draw_animation(
        frames, lambda trace: tape_figure(trace, locations), path, title=title, frame_ms=frame_ms
    )


def draw_key_course(
    frames: Mapping[int, KeyTrace], path: Path, *, title: str = "", frame_ms: int = 400
) -> Path:
    """Draw the heads of a Lie-access memory at several checkpoints, as a GIF.

    Args, errors and returns as for `draw_course`; all frames have the same axes.
    Source: the animations accompanying Yang 2016, arXiv:1602.08671.
    """
    bounds = key_bounds(frames.values()) if frames else None
    return draw_animation(
        frames, lambda trace: key_figure(trace, bounds), path, title=title, frame_ms=frame_ms
    )
