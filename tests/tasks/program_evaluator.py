"""Evaluates a small program with a parser of exactly its grammar; Python evaluates nothing.

program    = { statement "#" } "print(" expression ")"
statement  = name "=" expression ";"
           | name "=" expression "#" "for x in range(" integer "):" name ("+=" | "-=") expression
expression = integer | name
           | "(" expression ("+" | "-" | "*") expression ")"
           | "(" expression " if " expression (">" | "<") expression " else " expression ")"
"""

from __future__ import annotations


class Reader:
    def __init__(self, text: str) -> None:
        self.text, self.place = text, 0
        self.variables: dict[str, int] = {}

    def take(self, expected: str) -> None:
        if not self.text.startswith(expected, self.place):
            raise SyntaxError(f"expected {expected!r} at {self.place} of {self.text!r}")
        self.place += len(expected)

    def taken(self, expected: str) -> bool:
        if self.text.startswith(expected, self.place):
            self.place += len(expected)
            return True
        return False

    def integer(self) -> int:
        begin = self.place
        while self.place < len(self.text) and self.text[self.place] in "0123456789":
            self.place += 1
        digits = self.text[begin : self.place]
        if not digits or (digits[0] == "0"):
            raise SyntaxError(f"expected an integer at {begin} of {self.text!r}")
        value = 0
        for digit in digits:
            value = 10 * value + "0123456789".index(digit)
        return value

    def name(self) -> str:
        letter = self.text[self.place]
        if letter not in "abcdefghij":
            raise SyntaxError(f"expected a variable at {self.place} of {self.text!r}")
        self.place += 1
        return letter

    def expression(self) -> int:
        if self.text[self.place] in "0123456789":
            return self.integer()
        if not self.taken("("):
            return self.variables[self.name()]
        first = self.expression()
        if self.taken(" if "):
            left = self.expression()
            more = self.taken(">")
            if not more:
                self.take("<")
            right = self.expression()
            self.take(" else ")
            other = self.expression()
            self.take(")")
            return first if (left > right if more else left < right) else other
        for sign in "+-*":
            if self.taken(sign):
                second = self.expression()
                self.take(")")
                return {"+": first + second, "-": first - second, "*": first * second}[sign]
        raise SyntaxError(f"expected an operator at {self.place} of {self.text!r}")

    def statement(self) -> None:
        name = self.name()
        self.take("=")
        value = self.expression()
        if self.taken(";"):
            if name in self.variables:
                raise SyntaxError(f"{name} is assigned twice in {self.text!r}")
            self.variables[name] = value
            return
        self.variables[name] = value
        self.take("#for x in range(")
        rounds = self.integer()
        self.take("):")
        assert self.name() == name
        more = self.taken("+=")
        if not more:
            self.take("-=")
        begin = self.place
        for _ in range(rounds):
            self.place = begin
            step = self.expression()
            self.variables[name] += step if more else -step

    def program(self) -> int:
        while not self.taken("print("):
            self.statement()
            self.take("#")
        value = self.expression()
        self.take(")")
        if self.place != len(self.text):
            raise SyntaxError(f"something stands behind {self.text[: self.place]!r}")
        return value


def printed(text: str) -> int:
    """The output of a program."""
    return Reader(text).program()
