"""Penn Treebank as prepared by Mikolov: three text files, read from the user's folder.

The project does not distribute the text. Each line is a sentence, and its end is the token <eos>.

Source: Mikolov et al. 2010; the counts are those of the three files.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from unbounded.errors import ConfigError, collected
from unbounded.tasks.text import TextTask, read_words

FILES: Final = {
    "train": "ptb.train.txt",
    "validation": "ptb.valid.txt",
    "test": "ptb.test.txt",
}


class Counts(NamedTuple):
    """Tokens of each split, with each <eos>, and distinct words.

    Fields:
        train, validation, test: tokens. words: vocabulary size, with <eos>.
    """

    train: int
    validation: int
    test: int
    words: int


#: The token counts of Mikolov's files.
PUBLISHED: Final = Counts(929_589, 73_760, 82_430, 10_000)


def read_penn_treebank(folder: str | Path, counts: Counts | None = PUBLISHED) -> TextTask:
    """The text of Penn Treebank.

    Args:
        folder: the folder of the three files.
        counts: the required counts; None for no requirement, for another corpus.

    Raises:
        ConfigError: the folder has none of the files; or a file is missing, empty or not UTF-8, has
            other counts, or has a word that is not in the training file. All errors together.
    """
    if not any((Path(folder) / file).exists() for file in FILES.values()):
        raise ConfigError(
            f"{folder}: it has none of {', '.join(FILES.values())}. Give the folder of these "
            "files (--data DIR)."
        )
    errors: list[str] = []
    words: dict[str, list[str]] = {}
    for split, file in FILES.items():
        with collected(errors):
            words[split] = read_words(Path(folder) / file, FILES.values())
    if not errors:
        errors += _count_errors(Path(folder), words, counts)
    if errors:
        raise ConfigError(errors)
    return TextTask("penn_treebank", words)


def _count_errors(folder: Path, words: Mapping[str, list[str]], counts: Counts | None) -> list[str]:
    known = set(words["train"])
    errors = []
    for split in ("validation", "test"):
        unknown = sorted(set(words[split]) - known)
        if unknown:
            some = ", ".join(repr(word) for word in unknown[:3])
            errors.append(
                f"{folder / FILES[split]}: {len(unknown)} words are not in {FILES['train']}, "
                f"such as {some}"
            )
    if counts is None:
        return errors
    for split, file in FILES.items():
        expected, got = getattr(counts, split), len(words[split])
        if got != expected:
            errors.append(
                f"{folder / file}: expected {expected} tokens with <eos>, got {got}; these are "
                "not Mikolov's files, or not all of them"
            )
    if len(known) != counts.words:
        errors.append(
            f"{folder / FILES['train']}: expected {counts.words} different words with <eos>, got "
            f"{len(known)}"
        )
    return errors
