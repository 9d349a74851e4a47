"""What all LSF commands share: the words, the streams, the cluster, the exit status.

A command is a function from a `Context` to its exit status. It writes through the context, so a
test runs it with lists in place of streams. Text is written as UTF-8 whatever the locale says, and
in large blocks. The process ends without tidying up: nothing is left to be flushed.
"""

from __future__ import annotations

import gc
import os
import sys

from xce.cli.lsf.options import Options, Parsed, UsageError, parse_options
from xce.client.cluster import open_api
from xce.client.rest import WAIT_S, Api, ProblemError, UnreachableError
from xce.client.version import VERSION

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import NoReturn

FAILED = 255
"""LSF's exit status for everything that went wrong."""
_BLOCK = 1 << 16
COMMON_USAGE = """\
  --wait-daemon SECONDS
                  try an unreachable cluster that long (default $XCE_WAIT_DAEMON, else 60)
  -h, -V          print this text, print the version (both on stderr)
"""


class Context:
    """What a command is given: its words, the environment, two streams, the cluster."""

    __slots__ = (
        "_api",
        "_out",
        "_size",
        "_write_err",
        "_write_out",
        "environ",
        "parsed",
        "program",
    )

    def __init__(
        self,
        program: str,
        parsed: Parsed,
        environ: Mapping[str, str],
        write_out: Callable[[bytes], object],
        write_err: Callable[[bytes], object],
    ) -> None:
        """Args: name of the command; its words; the environment; where bytes go."""
        self.program = program
        self.parsed = parsed
        self.environ = environ
        self._write_out = write_out
        self._write_err = write_err
        self._out: list[str] = []
        self._size = 0
        self._api: Api | None = None

    @property
    def api(self) -> Api:
        """The cluster; nothing is connected before the first request."""
        if self._api is None:
            self._api = open_api(self.environ, wait_s=self.wait_s(), progress=self.err)
        return self._api

    def close(self) -> None:
        """Write what is left and close the connection."""
        self.flush()
        if self._api is not None:
            self._api.close()

    def out(self, line: str) -> None:
        """Print a line."""
        self._out.append(line + "\n")
        self._size += len(line)
        if self._size >= _BLOCK:
            self.flush()

    def out_block(self, lines: list[str]) -> None:
        """Print many lines at once; each brings its own end."""
        self._out.extend(lines)
        self.flush()

    def out_bytes(self, text: bytes) -> None:
        """Print bytes as they are."""
        self.flush()
        self._write_out(text)

    def err(self, line: str) -> None:
        """Print a line on stderr."""
        self.flush()
        self._write_err(f"{line}\n".encode("utf-8", "surrogateescape"))

    def flush(self) -> None:
        """Write what was printed so far."""
        if self._out:
            text = "".join(self._out)
            self._out.clear()
            self._size = 0
            self._write_out(text.encode("utf-8", "surrogateescape"))

    def wait_s(self) -> float:
        """Return how long an unreachable cluster is tried."""
        text = self.parsed.value("--wait-daemon") or self.environ.get("XCE_WAIT_DAEMON", "")
        if not text:
            return WAIT_S
        if not text.isascii() or not text.isdigit():
            raise UsageError(f"--wait-daemon {text}: expected a number of seconds")
        return float(text)


def run(
    words: Sequence[str],
    options: Options,
    usage: str,
    execute: Callable[[Context], int],
    environ: Mapping[str, str],
    *,
    write_out: Callable[[bytes], object],
    write_err: Callable[[bytes], object],
    until_word: bool = False,
) -> int:
    """Run a command and return its exit status; nothing but a lost stream is raised."""
    # A number with thousands of digits is judged like any other, and not by Python.
    sys.set_int_max_str_digits(0)
    program = usage.split(None, 2)[1]
    context = Context(program, Parsed({}, []), environ, write_out, write_err)
    try:
        context.parsed = parse_options(words, options, until_word=until_word)
        if context.parsed.has("-h") or context.parsed.has("-help"):
            context.err(usage + COMMON_USAGE[:-1])
            return 0
        if context.parsed.has("-V"):
            context.err(f"XCE {VERSION}")
            return 0
        status = execute(context)
    except UsageError as error:
        context.err(f"{program}: {error}")
        context.err(usage.partition("\n")[0])
        status = options.usage_status
    except ProblemError as error:
        context.err(f"{error.lsf or error.text.rstrip('.')}.")
        status = FAILED
    except UnreachableError as error:
        context.err(f"{error}.")
        status = FAILED
    context.close()
    return status


def run_main(
    options: Options, usage: str, execute: Callable[[Context], int], *, until_word: bool = False
) -> NoReturn:
    """Run a command on the process's own words and streams, and end the process."""
    gc.disable()
    _hold_streams()
    try:
        status = run(
            sys.argv[1:],
            options,
            usage,
            execute,
            os.environ,
            write_out=_write_stdout,
            write_err=_write_stderr,
            until_word=until_word,
        )
    except BrokenPipeError:
        status = 141
    except KeyboardInterrupt:
        status = 130
    except OSError as error:  # its file system is full
        _write_stderr(f"{error.strerror}\n".encode())
        status = FAILED
    os._exit(status)


def _hold_streams() -> None:
    """Let closed standard streams lead nowhere, lest the connection take their numbers."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open("/dev/null", os.O_RDWR)  # takes the lowest free number


def _write_stdout(text: bytes) -> None:
    _write_all(1, text)


def _write_stderr(text: bytes) -> None:
    try:
        _write_all(2, text)
    except OSError:
        return  # nobody reads the complaint; the exit status still tells


def _write_all(descriptor: int, text: bytes) -> None:
    view = memoryview(text)
    while view:
        view = view[os.write(descriptor, view) :]
