"""A user's own pairs from a file, and texts from a folder."""

from __future__ import annotations

import re
import tracemalloc
from pathlib import Path

import pytest
import torch

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import FilePairs, LengthRange, make_task


@pytest.fixture
def lines() -> list[str]:
    return [f"w{k} w{k % 5}{' x' * (k % 3)}\tv{k % 5} v{k}" for k in range(200)]


def pair_file(folder: Path, lines: list[str]) -> Path:
    path = folder / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n")
    return path


def drawn(task, split: str, count: int) -> list[str]:
    return [
        f"{' '.join(source)}\t{' '.join(target)}"
        for source, target in task.examples(1, split, 0, count)
    ]


def test_each_line_has_one_split_whatever_its_position(tmp_path, lines):
    task = make_task("pairs", data=str(pair_file(tmp_path, lines)))
    splits = {}
    for split in ("validation", "test"):
        count = task.available(split, task.test_lengths)
        assert 5 < count < 50  # about a tenth
        splits[split] = set(drawn(task, split, count))
        assert len(splits[split]) == count
        assert drawn(task, split, 2 * count)[count:] == drawn(task, split, count)
    splits["train"] = set(drawn(task, "train", 3000))
    assert set(lines) == set().union(*splits.values())
    assert sum(map(len, splits.values())) == len(lines)
    other = make_task("pairs", data=str(pair_file(tmp_path, ["new\tline", *reversed(lines)])))
    for split in ("validation", "test"):
        assert set(drawn(other, split, 50)) - {"new\tline"} == splits[split]


def test_ranges_of_lengths_are_kept(tmp_path, lines):
    task = make_task("pairs", data=str(pair_file(tmp_path, lines)))
    assert task.train_lengths == task.test_lengths == LengthRange(2, 4)
    three = task.examples(1, "train", 0, 40, LengthRange(3, 3))
    assert {len(source) for source, _ in three} == {3}
    with pytest.raises(ConfigError, match="has no line for train with a source of length 5:9"):
        task.batch(1, "train", 0, 2, LengthRange(5, 9))
    batch = task.batch(1, "test", 0, 5)
    alone = task.batch(1, "test", 4, 1)
    assert torch.equal(alone.inputs[0], batch.inputs[4, : alone.inputs.shape[1]])


def test_characters_as_symbols(tmp_path):
    path = pair_file(tmp_path, [f"ab {k}\t{k} ba" for k in range(60)])
    task = make_task("pairs", data=str(path), characters=True)
    assert " " in FilePairs(path, characters=True).source_vocabulary
    source, target = task.example(1, "train", 0)
    assert "".join(source).startswith("ab ")
    assert "".join(target).endswith(" ba")


def test_an_empty_file_is_reported_as_empty(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_text("\n")
    with pytest.raises(ConfigError, match=f"data: {re.escape(str(path))}: empty. Give a file"):
        make_task("pairs", data=str(path))


def test_errors_are_named_by_line(tmp_path):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(b"a b\tb a\nno tab\n\tonly a target\na\tb\tc\ncaf\xe9\tx\na b\t\n")
    with pytest.raises(ConfigError) as caught:
        make_task("pairs", data=str(path))
    text = "\n".join(caught.value.errors)
    assert f"data: {path}, line 2: expected a source, one tab and a target, got 0 tabs" in text
    assert "line 3: the source is empty" in text
    assert "line 4: expected a source, one tab and a target, got 2 tabs" in text
    assert "line 5: not UTF-8: byte 3 of the line" in text
    assert "line 6" not in text  # an empty target is only </s>
    path.write_text("no tab\n" * 30)
    with pytest.raises(ConfigError, match="25 more lines are faulty"):
        make_task("pairs", data=str(path))
    path.write_text("a\tb\n")
    with pytest.raises(ConfigError, match=r"1 lines leave no line for .* give more lines"):
        make_task("pairs", data=str(path))
    with pytest.raises(ConfigError, match=re.escape("nowhere.tsv: No such file")):
        make_task("pairs", data="nowhere.tsv")
    with pytest.raises(ConfigError, match="data: give a file with a source, a tab"):
        make_task("pairs")


def text_folder(folder: Path, **files: str) -> Path:
    texts = {"train": "a b a\nb c\n", "valid": "a b\n", "test": "b a c\n", **files}
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
    return folder


def test_a_custom_text(tmp_path):
    task = make_task("text", data=str(text_folder(tmp_path)))
    assert task.input_vocabulary == ("a", "b", "<eos>", "c")
    assert task.tokens("test") == 4
    short = task.short_example(1)
    assert [task.input_vocabulary[t] for t in short.inputs[0].tolist()] == ["<eos>", "b", "a", "c"]


def test_unknown_words_are_named_by_line_or_replaced(tmp_path):
    folder = text_folder(tmp_path, valid="a b\na new word\n", test="newer\n")
    with pytest.raises(ConfigError) as caught:
        make_task("text", data=str(folder))
    first, second = caught.value.errors
    assert first.startswith(f"data: {folder / 'valid.txt'}, line 2: the word 'new' is not in train")
    assert "(nor are 1 more); --task.unknown replace" in first
    assert "test.txt, line 1: the word 'newer'" in second
    task = make_task("text", data=str(folder), unknown="replace")
    assert set(task.input_vocabulary) == {"a", "b", "<eos>", "<unk>"}  # c occurs once in training
    with pytest.raises(ChoiceError, match=r"unknown treatment of unknown words 'drop'"):
        make_task("text", data=str(folder), unknown="drop")


def test_a_folder_that_lacks_files(tmp_path):
    with pytest.raises(ConfigError, match=r"Give the folder of train.txt, valid.txt, test.txt"):
        make_task("text", data=str(tmp_path))


@pytest.mark.parametrize("name", ["pairs", "text", "penn_treebank"])
@pytest.mark.parametrize("data", [5, b"folder", ["folder"]])
def test_data_that_is_no_path(name, data):
    with pytest.raises(ConfigError) as caught:
        make_task(name, data=data, symbols=3)
    error, unknown = sorted(caught.value.errors)
    assert error == f"data: expected the path of a file or folder, got {data!r}"
    assert "symbols" in unknown


def test_a_byte_order_mark_is_no_symbol(tmp_path, lines):
    path = pair_file(tmp_path, lines)
    plain = make_task("pairs", data=str(path))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    marked = make_task("pairs", data=str(path))
    assert marked.input_vocabulary == plain.input_vocabulary
    assert marked.data_digest == plain.data_digest
    for name in ("train", "valid", "test"):
        (tmp_path / f"{name}.txt").write_bytes(b"\xef\xbb\xbfa b\n")
    assert make_task("text", data=str(tmp_path)).input_vocabulary == ("a", "b", "<eos>")


def test_the_unknown_word_is_a_symbol_even_without_training_examples(tmp_path):
    for name, words in (("train", "a b\na b\n"), ("valid", "a b\n"), ("test", "a z\n")):
        (tmp_path / f"{name}.txt").write_text(words)
    task = make_task("text", data=str(tmp_path), unknown="replace")
    assert task.input_vocabulary == ("a", "b", "<eos>", "<unk>")
    assert task.examples(1, "test", 0, 1)[0].source == ("a", "<unk>")


def test_the_digest_is_of_the_parsed_lines(tmp_path, lines):
    path = pair_file(tmp_path, lines)
    digest = make_task("pairs", data=str(path)).data_digest
    path.write_text("\r\n".join(lines) + "\r\n\n \n")
    assert make_task("pairs", data=str(path)).data_digest == digest
    path.write_text("\n".join(lines[1:]))
    assert make_task("pairs", data=str(path)).data_digest != digest
    assert make_task("copy").data_digest is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x1f\x8b\x08\x00", "it is compressed by gzip; decompress it first"),
        ("a\tb\n".encode("utf-16"), "it is UTF-16; save it as UTF-8"),
        (b"a\tb\rc\td\r", "its lines end in CR alone"),
        (b"a\tb\n\nc\td\n", "line 2: blank; only the end of the file may have blank lines"),
        (b"a |||\tb\n", "line 1: ||| is a mark of the task"),
        (b"a\tb </s>\n", "line 1: </s> is a mark of the task"),
        (b"<s>\tb\n", "line 1: <s> is a mark of the task"),
    ],
)
def test_errors_of_a_file_of_pairs_are_named(tmp_path, content, message):
    path = tmp_path / "pairs.tsv"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=re.escape(message)):
        make_task("pairs", data=str(path))


def test_special_symbols_are_ordinary_characters(tmp_path):
    path = pair_file(tmp_path, [f"<s>|||{k}\t</s>{k}" for k in range(60)])
    task = make_task("pairs", data=str(path), characters=True)
    assert {"<", "|", "s"} <= set(task.source_vocabulary)


def test_a_long_line_among_short_ones_takes_no_more_room(tmp_path):
    """All lines used to be padded to the longest: 10 000 words and 20 000 lines took 2.6 GB."""
    lines = [f"a{k % 7} b{k % 5}\tc" for k in range(2000)]
    long = " ".join(f"w{k % 9}" for k in range(200_000))
    path = pair_file(tmp_path, [*lines, f"{long}\tc"])
    tracemalloc.start()
    task = make_task("pairs", data=str(path))
    batch = task.batch(1, "train", 0, 64, LengthRange(2, 2))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert batch.inputs.shape == (64, 5)
    assert peak < 100e6
    full = [task.batch(1, split, 0, 1, LengthRange(200_000, 200_000)) for split in own_split(task)]
    assert int(full[0].lengths[0]) == 200_003


def own_split(task):
    lengths = LengthRange(200_000, 200_000)
    return [each for each in ("train", "validation", "test") if task.available(each, lengths)]


def test_one_word_sources_produce_a_hint_about_characters(tmp_path):
    path = pair_file(tmp_path, [f"word{k}\tdrow{k}" for k in range(60)])
    (note,) = make_task("pairs", data=str(path)).notes
    assert note.startswith(f"each source of {path} is one word")
    assert "--task.characters true" in note
    assert make_task("pairs", data=str(path), characters=True).notes == ()


def test_a_text_with_end_symbols_is_refused_with_the_line_number(tmp_path):
    """Each end used to count twice."""
    folder = text_folder(tmp_path, train="a b a\nb c <eos>\n")
    with pytest.raises(ConfigError, match=r"train.txt, line 2: <eos> is added by the task"):
        make_task("text", data=str(folder))
