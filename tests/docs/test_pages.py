"""README and pages agree with the library: map, names, links, commands, tables."""

from __future__ import annotations

import json
import re
import runpy
import shlex
from importlib import import_module

import pytest

import unbounded
from tests.docs.pages import ROOT, name_of, pages
from unbounded.memories.as_data import KINDS

README = (ROOT / "README.md").read_text(encoding="utf-8")
MAP = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
MAP_LINE = re.compile(r"^ {4}\w+/ .*$", flags=re.MULTILINE)


def test_the_map_is_that_of_the_package():
    assert MAP_LINE.findall(MAP) == MAP_LINE.findall(unbounded.__doc__ or "")


def test_the_readme_is_short_and_has_its_commands():
    assert len(README.splitlines()) <= 130
    assert "    pip install -c constraints.txt '.[lab]' && unbounded train copy\n" in README
    assert "    pip install -c constraints.txt -e '.[dev]' && pytest\n" in README
    assert README.count("<img ") == 1
    assert '<img src="docs/explorer/queue_copy_light.png"' in README


def test_every_public_name_is_on_a_page():
    text = "".join(
        page.read_text(encoding="utf-8") for page in pages() if page.parent.name != "notebook"
    )
    names = [name for name in unbounded.__all__ if not name.startswith("__")]
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_link_targets_exist(page):
    text = page.read_text(encoding="utf-8")
    pictures = re.findall(r'<img src="([^"]+)"', text)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) + pictures:
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_commands_of_the_pages_exist(page):
    from unbounded.cli.main import VERBS

    for verb in re.findall(r"(?<!import )unbounded ([a-z]+)", page.read_text(encoding="utf-8")):
        assert verb in VERBS, f"{page.name} shows `unbounded {verb}`"


#: Names that stand for a file or component of the reader.
_STAND_INS = ("mypackage", "...", "mine.yaml", "--import", "TASK", " NAME", "PAPER")


def commands() -> dict[str, str]:
    """The command lines of all pages but the notebook, each with the page that shows it."""
    from unbounded.cli.main import VERBS

    found = {}
    for page in pages():
        text = page.read_text(encoding="utf-8").replace("\\\n", " ")
        for line in re.findall(r"unbounded [a-z]+[^`\n]*", text):
            line = re.split(r"  +| #| && | \|", line)[0].strip()
            is_whole = line.split()[1] in VERBS and line != "unbounded train"
            if is_whole and not any(stand_in in line for stand_in in _STAND_INS):
                found.setdefault(line, name_of(page))
    return found


@pytest.mark.parametrize(("line", "page"), commands().items())
def test_commands_of_the_pages_parse(line, page, tmp_path, monkeypatch, capsys):
    """A training config is composed and checked; for other commands the arguments are parsed."""
    from unbounded.cli import overlay
    from unbounded.cli.main import main
    from unbounded.cli.parsing import parse

    monkeypatch.chdir(tmp_path)
    (tmp_path / "FILE").write_text("".join(f"{i}\tx\n" for i in range(100)), encoding="utf-8")
    (tmp_path / "FOLDER").mkdir()
    for split in ("train", "valid", "test"):
        (tmp_path / "FOLDER" / f"{split}.txt").write_text("a b a\n" * 100, encoding="utf-8")
    verb, *words = shlex.split(line.replace("wandb,", ""))[1:]
    if verb == "train":
        assert main([verb, *words, "--print_config"]) == 0, capsys.readouterr().err
        return
    module = import_module(f"unbounded.cli.{'list_' if verb == 'list' else verb}")
    sections = {"evaluate": ("model",), "sample": ("task",)}.get(verb)
    rest = overlay.sorted_words(words, sections).rest if sections else words
    errors = [] if words in ([], ["--help"]) else parse(module.parser(rest), rest)[1]
    assert errors == []


@pytest.fixture(scope="module")
def make_images():
    return runpy.run_path(str(ROOT / "docs" / "make_images.py"), run_name="make_images")


#: The README's rows of results: the cell, its number of seeds, and for each field what is
#: published, the least and the greatest, as shown.
ROWS = {
    "| Bigram flip, Queue-LSTM, training lengths 8–64 / lengths 65–128 | 0.55 / 0.55 "
    "| 1.00 / 1.00 on 3 of 3 seeds |": (
        ("grefenstette2015-long", "bigram_flip", "queue", 3),
        {
            "train_exact_match": ("0.55", "1.00", "1.00"),
            "test_exact_match": ("0.55", "1.00", "1.00"),
        },
    ),
    "| a^n b^n c^n, hardened Stack RNN, lengths 2 to 60 | 100 % | 100 % on 5 of 5 restarts |": (
        ("joulin2015", "anbncn", "stack-rnn-hardened", 5),
        {"percent": ("100.00", "100.00", "100.00")},
    ),
    "| Copy, DeQue-LSTM as published, lengths 8–64 / 65–128 | 1.00 / 1.00 "
    "| 0.00 to 0.93 / 0.00 to 0.03 on 3 seeds |": (
        ("grefenstette2015-long", "copy", "deque", 3),
        {
            "train_exact_match": ("1.00", "0.00", "0.93"),
            "test_exact_match": ("1.00", "0.00", "0.03"),
        },
    ),
    "| Bigram flip, Lie access (2017), twice the length | 1.00 | 1.00 on 3 of 3 seeds |": (
        ("yang2016", "answer_bigram_flip", "lantm-2017", 3),
        {"exact_match_2x": ("1.00", "1.00", "1.00")},
    ),
}


@pytest.mark.parametrize(("row", "expected"), ROWS.items())
def test_the_rows_of_the_readme_are_in_the_tables(row, expected):
    (study, task, model, seeds), fields = expected
    path = ROOT / "results" / study / "table.json"
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    [cell] = [each for each in cells if (each["task"], each["model"]) == (task, model)]
    measured = cell["measured"]
    assert measured["seeds"] == seeds
    values = (cell["published"], measured["least"], measured["greatest"])
    for field, shown in fields.items():
        assert tuple(f"{value[field]:.2f}" for value in values) == shown, field
    assert row in README


def test_copy_at_100_times_the_training_length_is_in_the_table():
    assert "strings 100 times as long as in training | – | 1.00 on 3 of 3 seeds" in README
    assert "| the same, hardened | 3 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 |" in page_of("exact")


MEMORY_PAGES = sorted((ROOT / "docs" / "memories").glob("*.md"))


@pytest.mark.parametrize("page", MEMORY_PAGES, ids=name_of)
def test_a_page_of_a_memory_has_all_sections(page):
    text = page.read_text(encoding="utf-8")
    sections = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert sections == ["Idea", "Equations", "When to use it", "Results", "Pitfalls", "API"]
    has_view = page.stem in KINDS
    assert has_view == bool(re.search(r"^<!-- explorer: \w+ -->$", text, flags=re.MULTILINE))


def page_of(paper: str) -> str:
    return (ROOT / "docs" / "reproducing" / f"{paper}.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        "exact",
        "grefenstette2015",
        "grefenstette2015-padded",
        "grefenstette2015-unrestricted",
        "joulin2015",
    ],
)
def test_the_table_is_that_of_the_results(make_images, name):
    page = page_of(name.partition("-")[0])
    assert make_images["filled"](page, name, make_images["table_of"](name)) == page


def test_the_table_of_unrestricted_lengths_to_the_digit(make_images):
    known = {"train_exact_match": 0.96, "test_exact_match": 0.97}
    runs = [
        {"test_exact_match": drawn, "longer": {"8:64": [near, 1.0], "65:128": [far, 1.0]}}
        for drawn, near, far in ((0.9, 0.8, 0.0), (1.0, 0.99, 0.2), (0.95, 0.9, 0.1))
    ]
    cell = {"task": "svo_sov_unrestricted", "published": known}
    cells = [
        {**cell, "model": "lstm-1", "measured": {"runs": runs, "batches_median": 700}},
        {**cell, "model": "queue", "measured": None},
    ]
    name = "grefenstette2015-unrestricted"
    table = {"cells": cells, "command": "unbounded list"}
    text = make_images["filled"](page_of("grefenstette2015"), name, table)
    assert "1 of 2 cells are trained: `unbounded list`." in text
    assert (
        "| SVO to SOV, lengths as drawn | 1-layer LSTM | 0.96 / 0.97 | 0.95 (0.90–1.00) "
        "| 0.90 (0.80–0.99) | 0.10 (0.00–0.20) | 3 | 700 |\n"
        "| SVO to SOV, lengths as drawn | Queue-LSTM | 0.96 / 0.97 |  |  |  |  |  |" in text
    )


def test_the_table_to_the_digit(make_images):
    values = {"train_exact_match": 0.914, "test_exact_match": 0.996}
    measured = {
        "median": values,
        "least": {"test_exact_match": 0.5},
        "greatest": {"test_exact_match": 1.0},
        "solved": 2,
        "seeds": 3,
        "batches_median": 1500,
        "minutes_median": 4.6,
    }
    cell = {
        "task": "copy",
        "model": "queue",
        "published": {"train_exact_match": 0.62, "test_exact_match": 1.0},
    }
    table = {"cells": [{**cell, "measured": measured}, {**cell, "measured": None}]}
    text = make_images["filled"](page_of("grefenstette2015"), "grefenstette2015", table)
    assert (
        "| Copy | Queue-LSTM | 0.62 / 1.00 | 0.91 | 1.00 (0.50–1.00) | 2 of 3 | 1500 | 5 |" in text
    )
    assert "Not run yet" not in text
    assert make_images["filled"](text, "grefenstette2015", table) == text


def test_the_table_of_far_lengths_to_the_digit(make_images):
    def run(*values):
        near = {"train_exact_match": values[0], "test_exact_match": values[1], "minutes": 3.4}
        far = ("129:256", "640:640", "6400:6400")
        return {**near, "longer": {each: [v, v] for each, v in zip(far, values[2:], strict=True)}}

    def cell(task, model, *runs):
        return {"task": task, "model": model, "measured": {"runs": runs} if runs else None}

    cells = [
        cell("copy", "own", run(1, 1, 0.9, 0.1, 0), run(1, 0.98, 0.5, 0, 0), run(1, 1, 1, 1, 0)),
        cell("copy", "own-hardened", run(1, 1, 1, 1, 1)),
        cell("reversal", "deque"),
        cell("anbn", "own", run(1, 1, 1, 1, 1)),
    ]
    text = make_images["filled"](page_of("exact"), "exact", {"cells": cells})
    assert (
        "| Copy, Queue-LSTM | 3 | 1.00 | 1.00 (least 0.98) | 0.90 (least 0.50) "
        "| 0.10 (least 0.00) | 0.00 | 3 |\n"
        "| the same, hardened | 1 | 1.00 | 1.00 | 1.00 | 1.00 | 1.00 | 3 |\n<!-- end" in text
    )


def test_the_table_of_lengths_to_the_digit(make_images):
    def cell(model, published, runs):
        names = ("least", "median", "greatest")
        numbers = {
            name: {"percent": run["percent"]} for name, run in zip(names, runs, strict=False)
        }
        measured = {**numbers, "runs": runs}
        return {
            "task": "anbn",
            "model": model,
            "published": None if published is None else {"percent": published},
            "measured": measured if runs else None,
        }

    runs = [
        {"percent": percent, "longer": {"1000:1000": [far]}}
        for percent, far in ((86.44, 0.0), (100.0, 100.0), (100.0, 100.0))
    ]
    cells = [
        cell("rnn", 23.3, []),
        cell("lstm", None, runs),
        cell("list-rnn", 100, []),
        cell("stack-rnn", 100, [runs[0], *runs, runs[2]]),
        cell("stack-rnn-hardened", 100, runs),
    ]
    text = make_images["filled"](page_of("joulin2015"), "joulin2015", {"cells": cells})
    assert (
        "| a^n b^n | 23.3 / not run | not published / 100 (86–100, 3 runs) "
        "| 100 / not run | 100 / 86 (86–100) | 100 / 100 (86–100, 3 runs) | 2 of 3 |"
    ) in text


def test_the_table_has_the_best_restart_and_the_median(make_images, monkeypatch):
    """Where the paper's value is the best of its restarts, and nowhere else."""
    monkeypatch.setitem(
        make_images["lengths_table"].__globals__,
        "restarts_of",
        lambda study, model: {"anbn": [40.0, 96.6, 12.0]},
    )
    runs = [{"percent": 75.0, "longer": {}}]
    measured = dict.fromkeys(("least", "median", "greatest"), runs[0]) | {"runs": runs}
    cells = [
        {"task": task, "model": model, "published": {"percent": 100}, "measured": measured}
        for task in ("anbn", "anbncn")
        for model in ("lstm", "stack-rnn-hardened")
    ]
    table = make_images["lengths_table"]({"cells": cells})
    assert "| 100 / 75 (75–75, 1 run); best of 3: 97 |" in table
    assert "| 100 / 75 (75–75, 1 run); best of all restarts: not run |" in table
    assert table.count("best of") == 2


def test_the_picture_of_the_adder_is_that_of_the_committed_run(make_images, tmp_path, monkeypatch):
    monkeypatch.setitem(make_images["adder_image"].__globals__, "IMAGES", tmp_path)
    (path,) = make_images["adder_image"]()
    assert path.name == "adder.svg"
    first, second = make_images["ADDED"].partition("=")[0].split("+")
    total = f"{int(first, 2) + int(second, 2):b}"[::-1]
    assert make_images["ADDED"] == f"{first}+{second}={total}."
    drawn = make_images["adder_rows"]()
    answer = drawn[-len(total) - 1 :]
    assert "".join(row.following for row in answer) == f"{total}."
    assert all(row.predicted == row.following for row in answer)


def test_figure_1a_of_the_pictures_is_that_of_the_paper(make_images):
    strengths = make_images["figure1a_trace"]().arrays["strengths"][0].tolist()
    expected = [[0.8, 0, 0], [0.7, 0.5, 0], [0.3, 0, 0.9]]
    for row, values in zip(strengths, expected, strict=True):
        assert row == pytest.approx(values, abs=1e-15)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_no_section_is_repeated(page):
    """A merge that keeps both sides of a section shows as a second heading below the same one."""
    seen, above = set(), ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            above = line
        if re.match(r"##+ ", line):
            assert (above, line) not in seen, line
            seen.add((above, line))
