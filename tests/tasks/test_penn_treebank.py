"""The loader on a tiny invented corpus; Penn Treebank itself is not included."""

from __future__ import annotations

import pytest
import torch

from unbounded.errors import ChoiceError, ConfigError
from unbounded.tasks import chunks, make_task, read_penn_treebank
from unbounded.tasks.penn_treebank import FILES, PUBLISHED, Counts

TEXTS = {
    "train": " the cat sat \n the dog saw N cats \n a <unk> sat \n",
    "validation": " a cat saw the dog \n",
    "test": " the <unk> saw a dog \n the cat sat \n",
}
#: With <eos>: (3 + 1) + (5 + 1) + (3 + 1), 5 + 1, (5 + 1) + (3 + 1).
COUNTS = Counts(14, 6, 10, 10)


@pytest.fixture
def folder(tmp_path):
    for split, file in FILES.items():
        (tmp_path / file).write_text(TEXTS[split], encoding="utf-8")
    return tmp_path


def words(task, row):
    return " ".join(task.input_vocabulary[token] for token in row.tolist())


def test_words_are_numbered_in_order_of_appearance(folder):
    task = read_penn_treebank(folder, COUNTS)
    assert task.input_vocabulary == (
        *("the", "cat", "sat", "<eos>", "dog", "saw", "N", "cats", "a", "<unk>"),
    )
    assert task.output_vocabulary == task.input_vocabulary
    assert [task.tokens(split) for split in FILES] == [14, 6, 10]


def test_test_is_one_stream(folder):
    batch = read_penn_treebank(folder, COUNTS).batch(0, "test", 0, 1)
    task = read_penn_treebank(folder, COUNTS)
    assert words(task, batch.inputs[0]) == "<eos> the <unk> saw a dog <eos> the cat sat"
    assert words(task, batch.targets[0]) == "the <unk> saw a dog <eos> the cat sat <eos>"
    assert batch.mask.all()
    assert batch.lengths.tolist() == [10]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 14])
def test_strips_predict_each_token_once_for_any_number_of_strips(folder, size):
    task = read_penn_treebank(folder, COUNTS)
    batch = task.batch(0, "train", 0, size)
    full = task.batch(0, "train", 0, 1)
    assert torch.equal(batch.targets[batch.mask], full.targets[0])
    assert torch.equal(batch.inputs[batch.mask], full.inputs[0])
    assert int(batch.lengths.sum()) == 14
    assert int(batch.lengths.max() - batch.lengths.min()) <= 1
    assert torch.equal(batch.mask.sum(1), batch.lengths)
    cut = list(chunks(batch, 3))
    assert torch.equal(torch.cat([chunk.targets for chunk in cut], 1), batch.targets)


def test_readable_sentences(folder):
    task = read_penn_treebank(folder, COUNTS)
    drawn = task.examples(0, "test", 0, 2)
    assert [" ".join(example.source) for example in drawn] == ["the <unk> saw a dog", "the cat sat"]
    with pytest.raises(ConfigError, match="size: expected an integer from 1 to 1, got 2"):
        task.examples(0, "test", 1, 2)


def test_a_custom_corpus(folder):
    assert read_penn_treebank(folder, None).tokens("train") == 14
    assert PUBLISHED == (929_589, 73_760, 82_430, 10_000)


def test_all_unexpected_counts_are_reported_together(folder):
    with pytest.raises(ConfigError) as caught:
        read_penn_treebank(folder)
    errors = "\n".join(caught.value.errors)
    assert len(caught.value.errors) == 4
    assert "ptb.train.txt: expected 929589 tokens with <eos>, got 14" in errors
    assert "ptb.valid.txt: expected 73760 tokens" in errors
    assert "ptb.test.txt: expected 82430 tokens" in errors
    assert "expected 10000 different words with <eos>, got 10" in errors


def test_all_missing_files_are_reported_together(folder, tmp_path):
    (folder / FILES["train"]).unlink()
    (folder / FILES["test"]).unlink()
    with pytest.raises(ConfigError) as caught:
        read_penn_treebank(folder, COUNTS)
    assert len(caught.value.errors) == 2
    assert f"{folder / 'ptb.train.txt'}: No such file" in caught.value.errors[0]
    assert "--data DIR" in caught.value.errors[0]
    with pytest.raises(ConfigError, match=r"nowhere: it has none of ptb\.train\.txt.*--data DIR"):
        read_penn_treebank(tmp_path / "nowhere", COUNTS)


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_file(folder, content):
    (folder / FILES["validation"]).write_bytes(content)
    with pytest.raises(ConfigError, match=r"ptb\.valid\.txt: empty\. Give the folder of"):
        read_penn_treebank(folder, COUNTS)


def test_a_file_that_is_not_utf8(folder):
    (folder / FILES["test"]).write_bytes(b" the caf\xe9 \n")
    with pytest.raises(ConfigError, match=r"ptb\.test\.txt, line 1: not UTF-8: byte 8"):
        read_penn_treebank(folder, COUNTS)


def test_a_word_that_is_not_in_the_training_file(folder):
    (folder / FILES["test"]).write_text(" the zebra saw a dog \n the cat sat \n")
    with pytest.raises(ConfigError, match=r"1 words are not in ptb\.train\.txt, such as 'zebra'"):
        read_penn_treebank(folder, COUNTS)


def test_by_name(folder):
    assert make_task("penn_treebank", data=str(folder), published_counts=False).tokens("test") == 10
    with pytest.raises(ConfigError, match="data: give the folder of"):
        make_task("penn_treebank")


def test_bad_requests(folder):
    task = read_penn_treebank(folder, COUNTS)
    with pytest.raises(ConfigError, match="size: expected an integer from 1 to 14, got 15"):
        task.batch(0, "train", 0, 15)
    with pytest.raises(ChoiceError, match="unknown split 'valid'"):
        task.batch(0, "valid", 0, 1)
