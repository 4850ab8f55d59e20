"""Recognition: labels, the distribution of strings, and the authors' files."""

from __future__ import annotations

import tarfile
from collections import Counter
from pathlib import Path

import pytest
import torch
from scipy.stats import chisquare

from unbounded.errors import ConfigError
from unbounded.tasks import Batch, LengthRange, Recognition, Stream, make_task
from unbounded.tasks.languages import LANGUAGES
from unbounded.tasks.recognition import Drawer, _edit

#: The authors' data, if it is present: it is not a part of the project.
OFFICIAL = next(
    (
        path
        for folder in Path(__file__).resolve().parents
        if (path := folder / "shared" / "data" / "flare" / "flare.tar.xz").is_file()
    ),
    None,
)


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_label_is_that_of_the_language(language):
    task = make_task("flare", language=language)
    automaton = LANGUAGES[language]()
    places = {symbol: place for place, symbol in enumerate(automaton.alphabet)}
    examples = task.examples(1, "train", 0, 300)
    for source, (label,) in examples:
        assert len(source) <= 40
        assert automaton.accepts([places[symbol] for symbol in source]) == (label == "1")
    positives = sum(label == "1" for _, (label,) in examples)
    assert 110 < positives < 190
    assert task.example(1, "train", 17) == examples[17]
    assert task.examples(2, "train", 0, 9) != examples[:9]
    batch = task.batch(1, "train", 0, 20)
    for inputs, targets, mask, steps, (source, (label,)) in zip(*batch, examples[:20], strict=True):
        assert [task.input_vocabulary[t] for t in inputs[:steps].tolist()] == ["<s>", *source]
        assert mask.nonzero().tolist() == [[len(source)]]
        assert int(targets[len(source)]) == int(label)
        assert int(targets.sum()) == int(label)


def test_lengths_are_uniform_over_those_of_the_language():
    examples = make_task("flare", language="dyck_2_3").examples(1, "train", 0, 4000)
    counts = Counter(len(source) for source, (label,) in examples if label == "1")
    assert set(counts) == set(range(0, 41, 2))
    assert chisquare(list(counts.values())).pvalue > 1e-3
    labels = Counter(label for _, (label,) in examples)
    assert chisquare(list(labels.values())).pvalue > 1e-3


def test_half_of_the_negatives_are_edited_strings_of_the_language():
    """A random string of 20 symbols has no # in the middle; an edited one usually has one."""
    task = make_task("flare", language="marked_reversal")
    examples = task.examples(1, "train", 0, 4000, LengthRange(35, 40))
    negatives = [source for source, (label,) in examples if label == "0"]
    marked = sum(0 < source.count("#") < 4 for source in negatives) / len(negatives)
    assert 0.45 < marked < 0.56


def test_edits_are_uniform():
    (drawer,) = Drawer.for_each(Stream(1, "train"), 0, 1)
    counts = Counter()
    for _ in range(6000):
        string = [0, 1]
        _edit(string, 3, 1, 3, drawer.below)
        counts[tuple(string)] += 1
    expected = dict.fromkeys(((2, 1), (1, 1), (0, 0), (0, 2)), 6000 / 3 / 4)
    expected |= {(0,): 1000, (1,): 1000}
    for place in range(3):
        for symbol in range(3):
            string = [0, 1]
            string.insert(place, symbol)
            expected[tuple(string)] = expected.get(tuple(string), 0) + 6000 / 3 / 9
    assert set(counts) == set(expected)
    assert chisquare([counts[key] for key in expected], list(expected.values())).pvalue > 1e-3


def test_a_drawer_is_uniform_at_any_size():
    (drawer,) = Drawer.for_each(Stream(1, "test"), 5, 1)
    assert chisquare(list(Counter(drawer.below(7) for _ in range(3000)).values())).pvalue > 1e-3
    big = [drawer.below(3 * 10**60) // 10**60 for _ in range(900)]
    assert chisquare(list(Counter(big).values())).pvalue > 1e-3


def test_a_range_without_strings_is_named():
    with pytest.raises(
        ConfigError, match="train_lengths: length range: the language has no string"
    ):
        make_task("flare", language="dyck_2_3", train_lengths="3:3")
    task = make_task("flare", language="dyck_2_3")
    with pytest.raises(ConfigError, match="lengths: flare: length range: the language has no"):
        task.batch(0, "train", 0, 1, LengthRange(5, 5))
    with pytest.raises(ConfigError, match="the language has no string of 2:4"):
        make_task("flare", language="binary_addition", test_lengths="2:4")
    with pytest.raises(ConfigError) as caught:
        make_task("flare", language="paritty", train_lengths="5:3", data=3)
    assert len(caught.value.errors) == 3
    assert caught.value.errors[0] == "data: expected the path of a folder, got 3"
    caught.value.errors = caught.value.errors[1:]
    assert "Did you mean 'parity'?" in caught.value.errors[0]


def test_all_strings_are_listed():
    task = make_task("flare", language="parity")
    batch = task.every(5, 2)
    assert (len(batch.inputs), task.count_of(5, 2)) == (32, 32)
    assert int(batch.targets.sum()) == 16
    assert torch.equal(batch.lengths, torch.full((32,), 6))


def official(folder: Path, language: str = "parity") -> Path:
    """A folder with the form of the authors' data."""
    task = make_task("flare", language=language)
    for number, (split, place) in enumerate(
        (("train", "."), ("validation", "datasets/validation-short"),
         ("validation", "datasets/validation-long"), ("test", "datasets/test"))
    ):  # fmt: skip
        own = folder / language.replace("_", "-") / place
        own.mkdir(parents=True)
        examples = task.examples(number, split, 0, 20, LengthRange(1, 20 + 30 * (number == 2)))
        (own / "main.tok").write_text("".join(" ".join(s) + "\n" for s, _ in examples))
        (own / "labels.txt").write_text("".join(label + "\n" for _, (label,) in examples))
    return folder


def test_the_authors_files_are_read(tmp_path: Path):
    folder = official(tmp_path)
    for given in (folder, folder / "parity"):
        task = make_task("flare", data=str(given), published_counts=False)
        assert isinstance(task, Recognition)
        lines = (folder / "parity/datasets/test/main.tok").read_text().split("\n")[:-1]
        examples = task.examples(3, "test", 0, 20)
        assert [" ".join(source) for source, _ in examples] == lines
        assert task.examples(3, "test", 20, 1) == examples[:1]
        assert task.available("test", LengthRange(1, 500)) == 20
        long = [source for source, _ in task.examples(3, "validation", 0, 20, LengthRange(1, 80))]
        assert max(map(len, long)) > 20
        short = [source for source, _ in task.examples(3, "validation", 0, 20, LengthRange(1, 40))]
        assert max(map(len, short)) <= 20
        trained = {source for source, _ in task.examples(3, "train", 0, 200)}
        assert len(trained) <= 20
        assert len(task.data_digest) == 64
    with pytest.raises(ConfigError, match="the data has no string for test of 300:400"):
        task.batch(0, "test", 0, 1, LengthRange(300, 400))


def test_damaged_files_are_named(tmp_path: Path):
    folder = official(tmp_path)
    with pytest.raises(ConfigError) as caught:
        make_task("flare", data=str(folder))
    assert len(caught.value.errors) == 4
    assert "expected the 10000 strings of FLaRe, got 20" in caught.value.errors[0]
    assert "published_counts false accepts another version" in caught.value.errors[0]
    train = folder / "parity"
    texts = (train / "main.tok").read_text(), (train / "labels.txt").read_text()
    for place, text, message in (
        ("labels.txt", texts[1].replace("0", "3", 1), "expected a label 0 or 1, got '3'"),
        ("labels.txt", texts[1] + "1\n", "20 strings and labels.txt 21 labels"),
        ("main.tok", texts[0].replace("1", "x", 1), "'x' is not among the symbols 0 1"),
        ("main.tok", None, "Give the folder of FLaRe's data"),
    ):
        (train / "main.tok").write_text(texts[0])
        (train / "labels.txt").write_text(texts[1])
        if text is None:
            (train / place).unlink()
        else:
            (train / place).write_text(text)
        with pytest.raises(ConfigError, match="data: ") as caught:
            make_task("flare", data=str(folder), published_counts=False)
        assert message in str(caught.value)
    (train / "main.tok").write_text(texts[0])
    flipped = texts[1].replace("0", "2").replace("1", "0").replace("2", "1")
    (train / "labels.txt").write_text(flipped)
    task = make_task("flare", data=str(folder), published_counts=False)
    assert any("20 of 20 labels are not those of the language" in note for note in task.notes)


def test_a_missing_test_file_is_replaced_by_drawn_strings_with_a_note(tmp_path: Path):
    folder = official(tmp_path, "stack_manipulation")
    (folder / "stack-manipulation/datasets/test/main.tok").unlink()
    task = make_task(
        "flare", language="stack_manipulation", data=str(folder), published_counts=False
    )
    assert any("is not there: strings of the test are drawn" in note for note in task.notes)
    assert task.available("test", LengthRange(1, 500)) is None
    assert len(task.examples(1, "test", 0, 5)) == 5


@pytest.mark.slow
@pytest.mark.skipif(OFFICIAL is None, reason="the official data of FLaRe is not here")
def test_the_official_data_is_read_and_its_labels_agree_but_for_the_wrong_roots(tmp_path: Path):
    """Counts and labels of all files are checked when a task is made."""
    with tarfile.open(OFFICIAL) as archive:
        archive.extractall(tmp_path, filter="data")
    (root,) = {path.parent.parent for path in tmp_path.glob("**/parity/main.tok")}
    notes = {
        language: make_task("flare", language=language, data=str(root)).notes
        for language in LANGUAGES
    }
    (wrong,) = notes.pop("compute_sqrt")
    assert "943 of 5010 labels are wrong, as in FLaRe itself" in wrong
    assert wrong.endswith("an exact recogniser has an accuracy of 0.812")
    for language, test_set, count in (
        ("first", "test-short-held-out", 1000),
        ("repeat_01", "test-edit-distance", 50),
    ):
        other = make_task("flare", language=language, data=str(root), test_set=test_set)
        assert other.available("test", LengthRange(1, 500)) == count
        assert not other.notes
    (missing,) = notes.pop("stack_manipulation")
    assert "strings of the test are drawn" in missing
    assert not any(notes.values())


def test_another_file_of_the_authors_is_the_test(tmp_path: Path):
    folder = official(tmp_path)
    own = folder / "parity/datasets/test-short-held-out"
    options = {"data": str(folder), "published_counts": False, "test_set": own.name}
    with pytest.raises(ConfigError, match="Give the folder of FLaRe's data"):
        make_task("flare", **options)
    own.mkdir()
    (own / "main.tok").write_text("0 1\n1 1\n")
    (own / "labels.txt").write_text("1\n0\n")
    task = make_task("flare", **options)
    assert task.available("test", LengthRange(1, 500)) == 2
    assert [label for _, (label,) in task.examples(1, "test", 0, 2)] == ["1", "0"]
    assert any("expected the 1000 strings of FLaRe, got 2" in note for note in task.notes)
    with pytest.raises(ConfigError) as caught:
        make_task("flare", language="first", test_set="test-edit-distance", lm=0.1)
    assert caught.value.errors == ("test_set: has no effect without data; leave it at test",)
    (tmp_path / "empty").mkdir()
    for root, missing in ((tmp_path / "none", "none"), (tmp_path / "empty", "parity")):
        with pytest.raises(ConfigError, match="there is no folder") as caught:
            make_task("flare", data=str(root))
        (error,) = caught.value.errors
        assert error.startswith("data: there is no folder")
        assert f"{missing}. Give the folder of FLaRe's data" in error
    with pytest.raises(ConfigError, match="unknown test_set 'held'"):
        make_task("flare", test_set="held")


def test_the_example_of_a_figure_is_of_a_length_that_the_language_has():
    task = make_task("flare", language="dyck_2_3", train_lengths="33:40")
    assert int(task.short_example(1).lengths[0]) in (34, 35)
    task = make_task("stack_language", train_lengths="40:80")
    assert int(task.short_example(1).lengths[0]) == 42


def test_the_further_losses_are_means_over_the_strings_of_the_language():
    """Against loops: next symbols and the end; and which of them are possible."""
    task = make_task("flare", language="marked_reversal", lm=0.5, ns=2.0)
    assert task.output_vocabulary == (
        "in the language", "next </s>", "next 0", "next 1", "next #",
        "possible </s>", "possible 0", "possible 1", "possible #",
    )  # fmt: skip
    batch = task.batch(1, "train", 0, 12, LengthRange(1, 9))
    logits = torch.randn(*batch.inputs.shape, 9, dtype=torch.float64, requires_grad=True)
    total, positives = 0.0, 0
    for row, (inputs, targets, _, steps) in enumerate(zip(*batch, strict=True)):
        if not targets.any():
            continue
        positives += 1
        string = (inputs[1:steps] - 1).tolist()
        sets = task.language.next_symbols(string)
        assert sets[-1] == ([], True)
        for step, symbol in enumerate([*string, -1]):
            own = logits[row, step].detach()
            total -= 0.5 * float(own[1:5].log_softmax(0)[symbol + 1]) / int(steps)
            for place in range(4):
                is_possible = sets[step][1] if place == 0 else place - 1 in sets[step][0]
                signed = own[5 + place] if is_possible else -own[5 + place]
                nats = float(torch.nn.functional.softplus(-signed))
                total += 2.0 * nats / 4 / int(steps)
    assert 2 < positives < 11
    loss = task.further_loss(logits, batch)
    assert float(loss.detach()) / 12 == pytest.approx(total / positives, rel=1e-5)
    loss.backward()
    assert not logits.grad[..., 0].any()
    others = ~batch.targets.any(dim=1)
    assert not logits.grad[others].any()
    assert logits.grad[~others][..., 1:].any()
    none = Batch(batch.inputs, torch.zeros_like(batch.targets), batch.mask, batch.lengths)
    assert float(task.further_loss(logits.detach(), none)) == 0.0
    assert not make_task("flare").has_further_loss
