"""Strict reading of a user's text file; errors name the line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unbounded.errors import ConfigError

#: The largest number of erroneous lines that a message names, because often all lines have the same
#: mistake.
NAMED = 5
#: First bytes of files that are not UTF-8 text, and the advice for each.
_FOREIGN = {
    b"\x1f\x8b": "it is compressed by gzip; decompress it first",
    b"\xff\xfe": "it is UTF-16; save it as UTF-8",
    b"\xfe\xff": "it is UTF-16; save it as UTF-8",
}


#: Returns the error of a line, or None.
Check = Callable[[str], str | None]


def read_lines(
    path: str | Path, advice: str, check: Check | None = None, *, has_blanks: bool = False
) -> list[str]:
    """The lines of a file without their ends, LF or CR LF.

    Args:
        path: the file.
        advice: advice for a file that cannot be read or is empty.
        check: returns the error of a line, or None.
        has_blanks: whether all lines may be blank.
    Raises:
        ConfigError: the file cannot be read, is empty, is not UTF-8 text, has NUL bytes, or ends
            lines with CR alone; or lines have errors, of which the first are listed.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}. {advice}") from error
    return lines_of(content, str(path), advice, check, has_blanks=has_blanks)


def lines_of(
    content: bytes,
    name: str,
    advice: str,
    check: Check | None = None,
    *,
    has_blanks: bool = False,
) -> list[str]:
    """The lines of a file's content; see `read_lines`.

    Args:
        content: the file's bytes.
        name: the file's name, for messages.
        advice, check: as for `read_lines`.
        has_blanks: whether all lines may be blank.
    """
    foreign_format = next(
        (
            advice_for_format
            for mark, advice_for_format in _FOREIGN.items()
            if content.startswith(mark)
        ),
        None,
    )
    if foreign_format is not None:
        raise ConfigError(f"{name}: {foreign_format}")
    if b"\0" in content:
        raise ConfigError(
            f"{name}: it has NUL bytes, as UTF-16 without a byte-order mark has; save it as UTF-8"
        )
    if not (content if has_blanks else content.strip()):
        raise ConfigError(f"{name}: empty. {advice}")
    if b"\n" not in content and b"\r" in content.rstrip(b"\r"):
        raise ConfigError(f"{name}: its lines end in CR alone; end them in LF or CR LF")
    lines: list[str] = []
    errors: list[str] = []
    for number, raw in enumerate(content.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            # A byte-order mark is not a symbol.
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
            message = None if check is None else check(line)
        except UnicodeDecodeError as error:
            message = f"not UTF-8: byte {error.start} of the line"
        if message is None:
            lines.append(line)
        else:
            errors.append(f"{name}, line {number}: {message}")
    if len(errors) > NAMED:
        errors = [*errors[:NAMED], f"{name}: {len(errors) - NAMED} more lines are faulty"]
    if errors:
        raise ConfigError(errors)
    return lines
