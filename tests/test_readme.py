"""What the README says is true: its map, its example, its table."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

import unbounded
from unbounded.models import least_saturated

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MAP_LINE = re.compile(r"^ {4}\w+/ .*$", flags=re.MULTILINE)


def test_the_map_is_that_of_the_package():
    assert MAP_LINE.findall(README) == MAP_LINE.findall(unbounded.__doc__ or "")


def test_the_first_screen_has_both_commands():
    first_screen = "\n".join(README.splitlines()[:20])
    assert "    pip install -c constraints.txt '.[lab]' && unbounded train copy\n" in first_screen
    assert "    pip install -c constraints.txt -e '.[dev]' && pytest\n" in first_screen
    assert '<img src="docs/images/memory.svg"' in first_screen


def run_examples(page: Path, count: int) -> dict[str, object]:
    """Run the examples of a page, one after the other; the names that they leave."""
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) == count
    space: dict[str, object] = {}
    for block in blocks:
        exec(compile(block, page.name, "exec"), space)
    return space


def test_the_examples_run_as_they_stand(capsys):
    space = run_examples(ROOT / "README.md", 2)
    assert capsys.readouterr().out == "torch.Size([8, 20, 5])\n"
    assert space["reading"].tolist() == [[1.0] * 16]


def test_the_examples_of_hardening_run_as_they_stand(capsys):
    space = run_examples(ROOT / "docs" / "hardening.md", 3)
    assert len(space["found"].removed) + space["found"].model.sequence.layer.memory.count == 3
    removed, head, *rows = capsys.readouterr().out.splitlines()
    assert removed == str(space["found"].removed)
    assert head.split()[:2] == ["current", "next"]
    assert [row.split()[:2] for row in rows] == [*map(list, ("ba", "aa", "ab", "bb", "ba"))]


def test_what_hardening_says_of_the_batch_of_least_saturated_is_so():
    """Item 25: the page did not say which batch, and its own `streams` was none."""
    space = run_examples(ROOT / "docs" / "hardening.md", 3)
    assert least_saturated(space["machine"], space["streams"].batch) in (0.5, 1.0)
    assert 1 / 3 < least_saturated(space["model"], space["streams"].batch) < 1


def test_the_example_of_custom_components_runs_as_it_stands(capsys):
    space = run_examples(ROOT / "docs" / "custom_components.md", 3)
    model, task = space["loaded"](ROOT / "results" / "joulin2015" / "adder", hardened=True)
    assert len(task.input_vocabulary) == model.config["inputs"]
    assert "expected a subclass of unbounded.memories.base.Memory" in capsys.readouterr().out


def test_the_examples_of_coming_from_lstm_run_as_they_stand():
    space = run_examples(ROOT / "docs" / "coming_from_lstm.md", 2)
    assert space["h_n"].shape == (2, 2, 64)


def test_the_example_of_machines_runs_as_it_stands(capsys):
    run_examples(ROOT / "docs" / "constructions.md", 1)
    assert capsys.readouterr().out == "10 of 10 words of 640 symbols\n"


def pages() -> list[Path]:
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def test_every_public_name_stands_in_a_page():
    text = "".join(
        page.read_text(encoding="utf-8") for page in pages() if page.parent.name != "reproducing"
    )
    names = [name for name in unbounded.__all__ if not name.startswith("__")]
    assert [name for name in names if not re.search(rf"\b{name}\b", text)] == []


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    pictures = re.findall(r'<img src="([^"]+)"', text)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", text) + pictures:
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name} links to {target}"


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_commands_of_the_pages_exist(page):
    from unbounded.cli.main import VERBS

    for verb in re.findall(r"(?<!import )unbounded ([a-z]+)", page.read_text(encoding="utf-8")):
        assert verb in VERBS, f"{page.name} shows `unbounded {verb}`"


@pytest.fixture(scope="module")
def make_images():
    return runpy.run_path(str(ROOT / "docs" / "make_images.py"), run_name="make_images")


@pytest.mark.parametrize("paper", ["exact", "grefenstette2015", "joulin2015"])
def test_the_table_is_that_of_the_results(make_images, paper):
    assert make_images["filled"](README, paper, make_images["table_of"](paper)) == README


def test_the_table_to_the_digit(make_images):
    values = {"test_exact_match": 0.996}
    measured = {
        "median": values,
        "least": {"test_exact_match": 0.5},
        "greatest": {"test_exact_match": 1.0},
        "solved": 2,
        "seeds": 3,
        "batches_median": 1500,
        "minutes_median": 4.6,
    }
    cell = {"task": "copy", "model": "queue", "published": {"test_exact_match": 1.0}}
    table = {"cells": [{**cell, "measured": measured}, {**cell, "measured": None}]}
    text = make_images["filled"](README, "grefenstette2015", table)
    assert "| Copy | Queue-LSTM | 1.00 | 1.00 (0.50–1.00) | 2 of 3 | 1500 | 5 |" in text
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
    text = make_images["filled"](README, "exact", {"cells": cells})
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
    text = make_images["filled"](README, "joulin2015", {"cells": cells})
    assert (
        "| a^n b^n | 23.3 / not run | not published / 100 (86–100, 3 runs) "
        "| 100 / not run | 100 / 86 (86–100) | 100 / 100 (86–100, 3 runs) | 2 of 3 |"
    ) in text


def test_figure_1a_of_the_pictures_is_that_of_the_paper(make_images):
    strengths = make_images["figure1a_trace"]().arrays["strengths"][0].tolist()
    expected = [[0.8, 0, 0], [0.7, 0.5, 0], [0.3, 0, 0.9]]
    for row, values in zip(strengths, expected, strict=True):
        assert row == pytest.approx(values, abs=1e-15)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_no_section_stands_twice(page):
    """A merge that keeps both sides of a section shows as a second heading below the same one."""
    seen, above = set(), ""
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            above = line
        if re.match(r"##+ ", line):
            assert (above, line) not in seen, line
            seen.add((above, line))
