"""What all subcommands share: the cluster, the streams, exit codes."""

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final, TextIO

from xce.client.cluster import open_api
from xce.client.login_file import LoginFileError
from xce.client.rest import WAIT_S, Api, ProblemError, UnreachableError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
NOT_FOUND: Final = 3
DENIED: Final = 4
UNREACHABLE: Final = 5
INTERRUPTED: Final = 130
_NOT_FOUND: Final = frozenset(
    ("unknown-job", "unknown-host", "unknown-queue", "no-output", "no-route", "gone")
)
_DENIED: Final = frozenset(
    (
        "denied", "not-yours", "not-logged-in", "login-refused", "token-expired", "token-revoked",
        "bad-token",
    )
)  # fmt: skip


class BadUsageError(Exception):
    """The command line cannot be used; the text says why."""


class FailedError(Exception):
    """The command has failed; the text says how, ``code`` is the exit status."""

    def __init__(self, text: str, code: int = FAILED) -> None:
        super().__init__(text)
        self.code = code


def code_of(problem: str) -> int:
    """Return the exit status for a problem's code."""
    if problem in _NOT_FOUND:
        return NOT_FOUND
    return DENIED if problem in _DENIED else FAILED


class Session:
    """The cluster and the streams of one command.

    Args:
        environ: The environment.
        out: Where results go.
        err: Where troubles go.
        wait_s: How long an unreachable cluster is tried; None: as the environment says.
    """

    def __init__(
        self,
        environ: Mapping[str, str],
        out: TextIO,
        err: TextIO,
        *,
        wait_s: float | None = None,
        api: Api | None = None,
    ) -> None:
        self.environ = environ
        self.out = out
        self.err = err
        self._wait_s = wait_s
        self._api = api

    @property
    def api(self) -> Api:
        """The cluster."""
        if self._api is None:
            self._api = open_api(self.environ, wait_s=self._patience(), progress=self.tell)
        return self._api

    def close(self) -> None:
        """Close the connection."""
        if self._api is not None:
            self._api.close()

    @property
    def has_colour(self) -> bool:
        """Whether results go to a terminal that may be coloured."""
        return self.out.isatty() and not self.environ.get("NO_COLOR")

    def _patience(self) -> float:
        if self._wait_s is not None:
            return self._wait_s
        text = self.environ.get("XCE_WAIT_DAEMON", "")
        if not text:
            return WAIT_S
        try:
            return max(0.0, float(text))
        except ValueError:
            raise BadUsageError(f"XCE_WAIT_DAEMON is {text!r}: expected seconds") from None

    def say(self, line: str) -> None:
        """Print a line of the result."""
        self.out.write(line + "\n")

    def tell(self, line: str) -> None:
        """Print a line on stderr."""
        self.out.flush()
        self.err.write(line + "\n")
        self.err.flush()

    def get(self, path: str, **query: str | int | None) -> Any:  # noqa: ANN401 - a JSON value
        """Return what a read gives; parameters that are None or empty are left out."""
        pairs = [
            (name, str(value)) for name, value in query.items() if value is not None and value != ""
        ]
        return self.api.call("GET", path, pairs)

    def rows(self, path: str, member: str, **query: str | int | None) -> tuple[list[Any], Any]:
        """Return all pages of a listing, and the last answer."""
        found: list[Any] = []
        cursor: str | None = None
        while True:
            answer = self.get(path, cursor=cursor, **query)
            found += answer[member]
            cursor = answer.get("next")
            if not cursor:
                return found, answer


@contextlib.contextmanager
def errors_told(session: Session, codes: list[int]) -> Iterator[None]:
    """Print what went wrong on stderr and add its exit status to ``codes``."""
    try:
        yield
    except BadUsageError as error:
        session.tell(f"xcecli: {error}")
        codes.append(USAGE)
    except LoginFileError as error:
        session.tell(f"xcecli: {error}")
        codes.append(DENIED)
    except FailedError as error:
        session.tell(f"xcecli: {error}")
        codes.append(error.code)
    except ProblemError as error:
        session.tell(f"xcecli: {error.text}")
        codes.append(code_of(error.code))
    except UnreachableError as error:
        session.tell(f"xcecli: {error}")
        codes.append(UNREACHABLE)
    except KeyboardInterrupt:
        codes.append(INTERRUPTED)
    except BrokenPipeError:
        # Whoever read has enough; nothing is left to be flushed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        codes.append(OK)
