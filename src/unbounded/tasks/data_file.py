"""The lines of a text file that a user gives, read strictly: what is wrong is named by line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unbounded.errors import ConfigError

#: Faulty lines that are named; one mistake is often in all of them.
NAMED = 5
#: How files begin that are no UTF-8 text, and what to do about each.
_FOREIGN = {
    b"\x1f\x8b": "it is compressed by gzip; decompress it first",
    b"\xff\xfe": "it is UTF-16; save it as UTF-8",
    b"\xfe\xff": "it is UTF-16; save it as UTF-8",
}


#: What is wrong with a line; None where nothing is.
Check = Callable[[str], str | None]


def read_lines(path: str | Path, advice: str, check: Check | None = None) -> list[str]:
    """The lines of a file without their ends, LF or CR LF.

    Args:
        path: of the file.
        advice: what to give instead, where it cannot be read or is empty.
        check: of each line; what it finds is an error with the line's number.
    Raises:
        ConfigError: it cannot be read, is empty, is no UTF-8 text, has NUL bytes, or parts lines by
            CR alone; or lines are faulty, the first of them together.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigError([f"{path}: {error.strerror or error}. {advice}"]) from error
    return lines_of(content, str(path), advice, check)


def lines_of(content: bytes, name: str, advice: str, check: Check | None = None) -> list[str]:
    """The lines of a file's content; see `read_lines`.

    Args:
        content: of the file.
        name: of the file, for the messages.
        advice, check: as for `read_lines`.
    """
    foreign = next((why for mark, why in _FOREIGN.items() if content.startswith(mark)), None)
    if foreign is not None:
        raise ConfigError([f"{name}: {foreign}"])
    if b"\0" in content:
        raise ConfigError(
            [f"{name}: it has NUL bytes, as UTF-16 without a byte-order mark has; save it as UTF-8"]
        )
    if not content.strip():
        raise ConfigError([f"{name}: empty. {advice}"])
    if b"\n" not in content and b"\r" in content.rstrip(b"\r"):
        raise ConfigError([f"{name}: its lines end in CR alone; end them in LF or CR LF"])
    lines: list[str] = []
    faults: list[str] = []
    for number, raw in enumerate(content.removesuffix(b"\n").split(b"\n"), start=1):
        try:
            # A mark of the byte order is no symbol.
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8").removesuffix("\r")
            fault = None if check is None else check(line)
        except UnicodeDecodeError as error:
            fault = f"not UTF-8: byte {error.start} of the line"
        if fault is None:
            lines.append(line)
        else:
            faults.append(f"{name}, line {number}: {fault}")
    if len(faults) > NAMED:
        faults = [*faults[:NAMED], f"{name}: {len(faults) - NAMED} more lines are faulty"]
    if faults:
        raise ConfigError(faults)
    return lines
