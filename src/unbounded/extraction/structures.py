"""Hardened memories as data structures of symbols, in plain Python.

An extracted program contains the source of these classes, so they need nothing else.
"""

from __future__ import annotations

from typing import Any


class Stack:
    """Last in, first out. Actions: push, pop; a step pops, pushes, then shows the top."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Carry out the actions, each 0 or 1; what is pushed is the one value."""
        push, pop = actions
        if pop and self.rows:
            self.rows.pop()
        if push:
            self.rows.append(values[0])

    def read(self) -> tuple[Any, ...]:
        """The top; None where there is none."""
        return (self.rows[-1] if self.rows else None,)


class Queue:
    """First in, first out. Actions: push, pop; a step pops, pushes, then shows the front."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Carry out the actions, each 0 or 1; what is pushed is the one value."""
        push, pop = actions
        if pop and self.rows:
            del self.rows[0]
        if push:
            self.rows.append(values[0])

    def read(self) -> tuple[Any, ...]:
        """The front; None where there is none."""
        return (self.rows[0] if self.rows else None,)


class Deque:
    """Two ends. Actions: push, pop at the top, push, pop at the bottom; it shows both ends."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Pop the top, pop the bottom, push both; values are the top's and the bottom's."""
        top_push, top_pop, bottom_push, bottom_pop = actions
        if top_pop and self.rows:
            self.rows.pop()
        if bottom_pop and self.rows:
            del self.rows[0]
        if top_push:
            self.rows.append(values[0])
        if bottom_push:
            self.rows.insert(0, values[1])

    def read(self) -> tuple[Any, ...]:
        """Top and bottom; None where there is none."""
        return (self.rows[-1], self.rows[0]) if self.rows else (None, None)


class Stacks:
    """Stacks side by side; each shows its topmost cells. Actions: PUSH, POP or NO-OP each."""

    def __init__(self, count: int, depth: int) -> None:
        self.depth = depth
        self.rows: list[list[Any]] = [[] for _ in range(count)]

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Carry out one action and take one value a stack."""
        for rows, action, value in zip(self.rows, actions, values, strict=True):
            if action == "PUSH":
                rows.append(value)
            elif action == "POP" and rows:
                rows.pop()

    def read(self) -> tuple[Any, ...]:
        """The topmost cells of each stack, from the top down; None where there is none."""
        return tuple(
            rows[-1 - k] if k < len(rows) else None for rows in self.rows for k in range(self.depth)
        )


class Lists:
    """Lists side by side; each shows the cell at HEAD and those left of it.

    Actions: RIGHT, LEFT, INSERT or NO-OP each.
    """

    def __init__(self, count: int, depth: int) -> None:
        self.depth = depth
        # From HEAD leftwards, and from the right of HEAD rightwards; both end at what is near.
        self.left: list[list[Any]] = [[None] for _ in range(count)]
        self.right: list[list[Any]] = [[] for _ in range(count)]

    def step(self, actions: tuple[Any, ...], values: tuple[Any, ...]) -> None:
        """Carry out one action and take one value a list."""
        for left, right, action, value in zip(self.left, self.right, actions, values, strict=True):
            if action == "RIGHT":
                left.append(right.pop() if right else None)
            elif action == "LEFT":
                right.append(left.pop() if left else None)
                if not left:
                    left.append(None)
            elif action == "INSERT":
                left.append(value)

    def read(self) -> tuple[Any, ...]:
        """HEAD and the cells left of it, list by list; None where there is none."""
        return tuple(
            left[-1 - k] if k < len(left) else None for left in self.left for k in range(self.depth)
        )
