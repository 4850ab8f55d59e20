"""The heads of a memory over the course of training: an animation, a frame for each checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from unbounded.figures.animation import draw_animation
from unbounded.figures.keys import KeyTrace, key_bounds, key_figure
from unbounded.figures.tape import TapeTrace, seen_locations, tape_figure


def draw_course(
    frames: Mapping[int, TapeTrace], path: Path, *, title: str = "", frame_ms: int = 400
) -> Path:
    """Draw what the heads of a tape did with one sequence at several times of training, as a GIF.

    Args:
        frames: batch -> what the heads did then; all of one sequence and one tape.
        path: the file, which ends in .gif; its folder is made when missing.
        title: heading, before the number of the batch.
        frame_ms: how long a frame is shown, in milliseconds; the last one three times as long.
    Raises:
        ConfigError: there is no frame, or `path` ends otherwise.
        StorageError: the file cannot be written.
    """
    # The same locations in every frame: those where a head is in any of them.
    locations = seen_locations(frames.values()) if frames else None
    return draw_animation(
        frames, lambda trace: tape_figure(trace, locations), path, title=title, frame_ms=frame_ms
    )


def draw_key_course(
    frames: Mapping[int, KeyTrace], path: Path, *, title: str = "", frame_ms: int = 400
) -> Path:
    """Draw where the heads of a Lie-access memory were at several times of training, as a GIF.

    Args, errors and returns as for `draw_course`; all frames have the same axes.
    Source: the animations beside Yang 2016, arXiv:1602.08671.
    """
    bounds = key_bounds(frames.values()) if frames else None
    return draw_animation(
        frames, lambda trace: key_figure(trace, bounds), path, title=title, frame_ms=frame_ms
    )
