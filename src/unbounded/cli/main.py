"""`unbounded VERB ...`: run a verb and print each expected error as one message."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout, suppress
from threading import Event, current_thread, main_thread
from types import FrameType, ModuleType
from typing import TYPE_CHECKING, Any, Final, TextIO

from unbounded import __version__, errors
from unbounded.errors import ChoiceError, NonFiniteError, StorageError, UnboundedError
from unbounded.files import printable_lines, refusal

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

#: Verbs and their descriptions. A module in this folder has the name of its verb.
VERBS: Final[dict[str, str]] = {
    "train": "train a model on a task and report on its test split",
    "evaluate": "score a trained run over length ranges",
    "explore": "write a page that runs a trained network and shows its memory",
    "harden": "train the gates of a run to 0 or 1, to generalise to longer inputs",
    "verify": "find the lengths at which a run is correct, and its first error",
    "extract": "extract the automaton of a hardened run: a table, a graph, a program",
    "predict": "write the outputs of a trained run for lines of input",
    "actions": "show the stack or list actions of a run on an input, step by step",
    "study": "train and report a grid of runs of one's own, on one machine or a cluster",
    "reproduce": "make a paper's table of published and measured values",
    "sample": "show examples of a task, or write them to a file",
    "list": "show the tasks, memories, controllers, presets and papers",
    "bench": "time the fused kernels against torch, the reference and jax",
    "doctor": "show what is installed and whether it is usable",
}

#: Commands that continue when nothing reads their output any more.
WORKING: Final = ("train", "harden", "reproduce", "study")

_HELP = """usage: unbounded VERB [options]

Neural networks with external memory: train them, test them, watch them generalise.

{verbs}

`unbounded VERB --help` shows a verb's options and an example.
`unbounded --print_shtab bash` (or zsh, tcsh) prints a completion script.

example:
  unbounded train copy

exit codes: 0 done; 2 bad input or a full disk; 3 training diverged (NaN or infinite);
75 a study stopped with runs left, and the same command continues;
130 stopped by Ctrl-C; 129 by a closed terminal (SIGHUP);
143 by SIGTERM, SIGUSR1, SIGUSR2 or SIGXCPU, which schedulers send before a time limit.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        arguments: the command line without the program's name; None for sys.argv.
    Returns:
        The exit code: 0 done, 2 bad input, 3 a NaN or infinite loss, 130 or 143 stopped.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Figures go into files, so no window system is needed.
    os.environ["MPLBACKEND"] = "agg"
    with _ctrl_c() as stopped:
        try:
            with outliving(work=bool(given) and given[0] in WORKING), _plain_warnings():
                return _run(given)
        except BrokenPipeError:
            return 0  # the reader of the output has ended (head, less)
        except KeyboardInterrupt:
            return _fail("stopped by Ctrl-C", 130)
        except Exception as error:
            # Ctrl-C during the import of a library can surface as another exception.
            if stopped.is_set():
                return _fail("stopped by Ctrl-C", 130)
            return _foreseen(error)


def _foreseen(error: Exception) -> int:
    """The exit code of an expected error; any other error is raised again."""
    if isinstance(error, UnboundedError):
        return _fail(str(error), 3 if isinstance(error, NonFiniteError) else 2)
    if _out_of_memory(error):
        reason = str(error).split("\n", 1)[0]
        return _fail(f"there is not enough memory for these sizes: {reason}", 2)
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return _fail(refusal(error), 2)
    raise error


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Inside the block, show each of the library's own warnings as one line without source code."""
    before = warnings.formatwarning

    def formatted(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        if category.__module__ == errors.__name__:
            return f"unbounded: {printable_lines(str(message))}\n"
        return before(message, category, filename, lineno, line)

    warnings.formatwarning = formatted
    try:
        yield
    finally:
        warnings.formatwarning = before


@contextmanager
def _ctrl_c() -> Iterator[Event]:
    """An event that is set by Ctrl-C inside the block; Ctrl-C still raises KeyboardInterrupt."""
    stopped = Event()
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or current_thread() is not main_thread():
        yield stopped
        return

    def stop(number: int, frame: FrameType | None) -> None:
        stopped.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, stop)
    try:
        yield stopped
    finally:
        signal.signal(signal.SIGINT, before)


def _run(given: list[str]) -> int:
    if given[:1] == ["help"]:
        return _run([given[1], "--help"] if len(given) > 1 else ["--help"])
    if not given or given[0] in ("-h", "--help"):
        verbs = "\n".join(f"  {name:<10} {text}" for name, text in VERBS.items())
        print(_HELP.format(verbs=verbs), end="")
        return 0 if given else 2
    if given[0] in ("--version", "-V", "-v", "version"):
        print(f"unbounded {__version__}")
        return 0
    if given[0].split("=", 1)[0] == "--print_shtab":
        from unbounded.cli.completion import print_completion

        return print_completion(given)
    verb, rest = given[0], given[1:]
    if verb not in VERBS:
        raise ChoiceError("command", verb, VERBS)
    from unbounded.cli.parsing import UsageError

    try:
        code: int = verb_module(verb).run(rest)
    except UsageError as error:
        return _fail(f"{error}\n`unbounded {verb} --help` shows the options.", 2)
    return code


def verb_module(verb: str) -> ModuleType:
    """The module of a verb, with `parser(arguments)` and `run(arguments) -> exit code`."""
    return importlib.import_module(f"unbounded.cli.{'list_' if verb == 'list' else verb}")


def _out_of_memory(error: Exception) -> bool:
    # torch has no exception class for CPU memory.
    text = str(error)
    return isinstance(error, MemoryError) or any(
        part in text for part in ("can't allocate memory", "out of memory")
    )


def _fail(message: str, code: int) -> int:
    with suppress(OSError):
        print(f"unbounded: {printable_lines(message)}", file=sys.stderr)
    return code


class _Output:
    """A stream that discards all output after the first failed write.

    Args:
        stream: the underlying stream.
        name: the stream's name, for the message.
        needed: whether a failed write ends the command; else it continues without output.
        tell: the stream for a notice that output is lost; None for no notice.
    """

    def __init__(
        self, stream: TextIO, name: str, needed: bool, tell: SupportsWrite[str] | None
    ) -> None:
        self._stream = stream
        self._name = name
        self._needed = needed
        self._tell = tell

    def write(self, text: str) -> int:
        """Write, or discard the text after a failure.

        Raises:
            BrokenPipeError: the reader has gone and the stream is needed.
            StorageError: another error, and the stream is needed.
        """
        try:
            return self._stream.write(text)
        except UnicodeEncodeError:  # the terminal's encoding lacks a symbol: escape it
            encoding = self._stream.encoding
            self._stream.write(text.encode(encoding, "backslashreplace").decode(encoding))
            return len(text)
        except OSError as error:
            self._failed(error)
            return len(text)

    def flush(self) -> None:
        """As `write`."""
        try:
            self._stream.flush()
        except OSError as error:
            self._failed(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def _failed(self, error: OSError) -> None:
        # Python flushes the buffer again at exit; redirect it to the null device.
        with suppress(OSError, ValueError):
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        if self._needed and isinstance(error, BrokenPipeError):
            raise error
        if self._needed:
            raise StorageError(f"writing {self._name} failed: {error.strerror}") from error
        if self._tell is not None:
            print(
                f"unbounded: {self._name} cannot be written ({error.strerror}); continuing "
                "without it",
                file=self._tell,
            )


@contextmanager
def outliving(work: bool) -> Iterator[None]:
    """Replace the process's standard streams by streams that survive failed writes.

    Args:
        work: whether the command continues if standard output is closed, as training does.
            Otherwise a failed write ends the command.
    """
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        err = _Output(sys.stderr or nowhere, "standard error", needed=False, tell=None)
        out = _Output(sys.stdout or nowhere, "standard output", not work, tell=err)
        with redirect_stdout(out), redirect_stderr(err):
            try:
                yield
            finally:
                out.flush()
