"""`unbounded predict` on constructed networks."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from tests.cli.failing import Capture, failing
from tests.constructions import model_of
from tests.verification.runs import constructed_run
from unbounded.cli import main, predict
from unbounded.models import MemoryModel
from unbounded.tasks import make_task


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("runs")
    return str(constructed_run(folder, "reversal", {"symbols": 4}, symbols=4))


def test_a_file_line_by_line(run: str, capsys: Capture, tmp_path: Path) -> None:
    source, target = tmp_path / "source.txt", tmp_path / "target.txt"
    lines = [" ".join(f"s{(7 * n + k) % 4}" for k in range(1 + n % 5)) for n in range(20)]
    source.write_text("\n".join(lines) + "\n")
    expected = [" ".join(reversed(line.split())) for line in lines]
    assert main(["predict", run, str(source), "--batch", "3"]) == 0
    assert capsys.readouterr().out.splitlines() == expected
    assert main(["predict", run, str(source), "--out", str(target)]) == 0
    assert target.read_text().splitlines() == expected
    assert "exists; name another file" in failing(
        capsys, "predict", run, str(source), "--out", str(target)
    )


def test_standard_input_and_probabilities(
    run: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"s1 s2\r\ns3\n\n \n")))
    assert main(["predict", run, "--probabilities"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    output, probabilities = first.split("\t")
    assert output == "s2 s1"
    assert len(probabilities.split()) == 3
    assert second.startswith("s3\t")


def test_an_output_that_is_cut_is_counted(
    run: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"s1 s2 s3\ns0\n")))
    assert main(["predict", run, "--max_length", "2"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines() == ["s3 s2", "s0"]
    assert err.startswith("1 of 2 outputs have no end symbol within --max_length")


@pytest.mark.parametrize("batch", ["1", "64"])
def test_lines_on_which_keys_overflow_have_an_empty_output(
    capsys: Capture, tmp_path: Path, batch: str
) -> None:
    task = make_task("answer_copy", symbols=4)
    memory = {"name": "lie_access", "group": "scaling_rotation", "step": "free"}
    memory["read_key_gate_bias"] = -50.0  # the head moves on from its key
    torch.manual_seed(3)
    model = model_of(task, memory=memory, hidden_size=4)
    with torch.no_grad():
        model.sequence.layer.layers[0].heads.bias.add_(30.0)  # keys grow thirtyfold in each step
    folder = constructed_run(tmp_path, "answer_copy", {"symbols": 4}, model)
    lines = tmp_path / "lines.txt"
    lines.write_text(f"s1 s2\n{'s0 ' * 40}\ns3\n{'s1 ' * 30}\n")
    arguments = ["predict", str(folder), str(lines), "--batch", batch, "--max_length", "4"]
    assert main(arguments) == 1
    out, err = capsys.readouterr()
    outputs = out.split("\n")
    assert [bool(output) for output in outputs] == [True, False, True, False, False]
    assert err == (
        f"{lines}: the memory overflows on 2 of 4 lines, whose outputs are left empty: 2, 4\n"
    )
    assert main([*arguments, "--probabilities"]) == 1
    shown = capsys.readouterr().out.splitlines()
    assert [line.partition("\t")[0] for line in shown] == outputs[:4]
    assert shown[1] == shown[3] == "\t"


def test_a_blank_line_is_the_empty_string_of_a_task_that_has_it(
    capsys: Capture, tmp_path: Path
) -> None:
    task = make_task("flare", language="even_pairs")
    run = str(constructed_run(tmp_path, "flare", {"language": "even_pairs"}, model_of(task)))
    file = tmp_path / "lines.txt"
    outputs = []
    for text in ("\n", "01\n\n0\n\n"):
        file.write_text(text)
        assert main(["predict", run, str(file)]) == 0
        outputs.append(capsys.readouterr().out.splitlines())
    (empty,), (pair, between, symbol, last) = outputs
    assert empty in ("0", "1")
    assert (between, last) == (empty, empty)
    assert [len(each.split()) for each in (pair, symbol)] == [2, 1]
    file.write_text("")
    assert "lines.txt: empty. Give a file" in failing(capsys, "predict", run, str(file))
    assert main(["actions", run, ""]) == 0
    assert capsys.readouterr().out.splitlines()[-1].split()[:2] == ["1", "<s>"]


def test_bad_input(run: str, capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes(b"s1\n\xff\ns9\n")
    assert "line 2: not UTF-8: byte 0 of the line" in failing(capsys, "predict", run, str(file))
    file.write_bytes(b"s1\n\ns9\n")
    message = failing(capsys, "predict", run, str(file))
    assert "lines.txt, line 2: source: expected at least one symbol" in message
    assert "lines.txt, line 3: source: symbol 1 is 's9'" in message
    file.write_bytes(b"\n")
    assert "lines.txt: empty. Give a file, or type" in failing(capsys, "predict", run, str(file))
    missing = str(tmp_path / "missing.txt")
    assert "No such file" in failing(capsys, "predict", run, missing)
    file.write_bytes(b"s1\n")
    message = failing(capsys, "predict", run, str(file), "--batch", "0", "--max_length", "0")
    assert "--batch: expected an integer of at least 1" in message
    assert "--max_length: expected" in message
    message = failing(capsys, "predict", run, str(file), "--device", "gpu0")
    assert "unknown device 'gpu0'" in message
    assert "import: expected a module" in failing(capsys, "predict", run, str(file), "--import=")
    assert "No such file" in failing(capsys, "predict", run, "null")
    assert "no CUDA device" in failing(capsys, "predict", run, str(file), "--device", "cuda")


def blanks_run(folder: Path) -> str:
    """An untrained run on pairs of characters, of which the blank is one."""
    data = folder / "pairs.txt"
    data.write_text("".join(f"{'ab '[k % 3]}b{'a ' * (k % 7)}\ta b\n" for k in range(60)))
    options = {"data": str(data), "characters": True}
    torch.manual_seed(0)
    task = make_task("pairs", **options)
    sizes = {"inputs": len(task.input_vocabulary), "outputs": len(task.output_vocabulary)}
    memory = {"name": "queue", "width": 3}
    return str(constructed_run(folder, "pairs", options, MemoryModel(**sizes, memory=memory)))


def test_blanks_that_are_symbols_are_read(capsys: Capture, tmp_path: Path) -> None:
    """Once blanks at the end of a file were dropped, and the open box was no symbol."""
    run, file = blanks_run(tmp_path), tmp_path / "lines.txt"
    arguments = ["predict", run, str(file), "--max_length", "3"]
    file.write_text("a b\na\u2423b\n \n\u2423\n  \n\n")
    assert main(arguments) == 0
    out = capsys.readouterr().out.splitlines()
    assert len(out) == 5
    assert (out[0], out[2]) == (out[1], out[3])
    file.write_text("a b\n\na\u00b7\n")
    message = failing(capsys, *arguments)
    assert "lines.txt, line 2: source: expected at least one symbol" in message
    assert "lines.txt, line 3: source: symbol 2 is '\u00b7'" in message
    with pytest.raises(SystemExit):
        main(["predict", "--help"])
    assert "among longer symbols it is written \u2423" in capsys.readouterr().out


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_byte_order_mark_is_named_in_the_error(
    run: str, capsys: Capture, tmp_path: Path, encoding: str
) -> None:
    file = tmp_path / "lines.txt"
    file.write_bytes("s1 s2\ns3\n".encode(encoding))
    message = "lines.txt: it has NUL bytes, as UTF-16 without a byte-order mark has; save it as"
    assert message in failing(capsys, "predict", run, str(file))


def test_a_bar_is_for_long_files_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    assert list(predict._with_bar(range(0, 10, 5), 10)) == [0, 5]
    assert screen.getvalue() == ""
    assert list(predict._with_bar(range(0, 2000, 500), 2000)) == [0, 500, 1000, 1500]
    assert "predicting" in screen.getvalue()
