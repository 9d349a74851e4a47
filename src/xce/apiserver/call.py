"""One request on its way through a route, and the answers that routes give."""

from collections.abc import Callable
from typing import Any, Final

import msgspec
from aiohttp import web

from xce.apiserver.access import Access
from xce.apiserver.identity import Caller
from xce.apiserver.problems import Problem, refused
from xce.model.errors import XceError
from xce.model.permission import Permission
from xce.model.refusal import RefusalCode

JSON: Final = "application/json"
PROBLEM: Final = "application/problem+json"
NDJSON: Final = "application/x-ndjson"
BODY_MAX: Final = 64 * 1024 * 1024
ENCODER: Final = msgspec.json.Encoder()


class ClientGoneError(XceError):
    """The connection ended while a request was being served."""


class Call:
    """A request, who sent it, and the parts of its path."""

    __slots__ = ("_charge", "access", "caller", "charged", "request", "words")

    def __init__(
        self,
        request: web.BaseRequest,
        caller: Caller,
        words: dict[str, str],
        access: Access,
        *,
        charge: Callable[[int], None],
    ) -> None:
        self._charge = charge
        self.charged = 0
        """Bytes of the body that are held in memory for the caller."""
        self.request = request
        self.caller = caller
        self.words = words
        self.access = access

    @property
    def permission(self) -> Permission:
        """What the route needs."""
        assert self.access.permission is not None, "the route needs no permission"
        return self.access.permission

    @property
    def query(self) -> dict[str, str]:
        """The parameters behind the question mark; of one given twice, the last."""
        return dict(self.request.rel_url.query)

    def header(self, name: str) -> str:
        """Return a header, empty when it was not sent."""
        return self.request.headers.get(name, "")

    def charge(self, size: int) -> None:
        """Count bytes that are held in memory for the caller.

        Raises:
            ProblemError: He has too many requests under way for that.
        """
        self._charge(size)
        self.charged += size

    async def body(self, most: int = BODY_MAX) -> bytes:
        """Return the whole body.

        Raises:
            ProblemError: It is too large.
        """
        request = self.request
        length = request.content_length
        if length is not None and length > most:
            raise _too_large(length, most)
        if not request.body_exists:
            return b""
        if length is not None and request.content.is_eof():
            # It came with the request: nothing is to be waited for.
            content = request.content.read_nowait()
            if len(content) > most:
                raise _too_large(len(content), most)
            self.charge(len(content))
            return content
        parts: list[bytes] = []
        size = 0
        async for part in request.content.iter_any():
            size += len(part)
            if size > most:
                raise _too_large(size, most)
            self.charge(len(part))
            parts.append(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def _too_large(size: int, most: int) -> Exception:
    return refused(
        RefusalCode.TOO_LARGE,
        f"the body has {size} bytes or more, at most {most} are allowed; send several "
        "requests, or many jobs as one line each (application/x-ndjson)",
    )


def decode(decoder: msgspec.json.Decoder[Any], content: bytes) -> Any:  # noqa: ANN401
    """Return a body as the type that ``decoder`` knows.

    Raises:
        ProblemError: It is no JSON, or not of that form.
    """
    try:
        return decoder.decode(content)
    except msgspec.ValidationError as error:
        raise refused(RefusalCode.BAD_REQUEST, _place_first(str(error))) from error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        what = "there is no body" if not content else f"the body is no JSON: {error}"
        raise refused(RefusalCode.BAD_REQUEST, what) from error


def _place_first(text: str) -> str:
    """Return ``env[3]: expected ...`` for ``Expected ... - at `$.env[3]```: a command shows it."""
    what, at, place = text.rpartition(" - at `$")
    place = place.rstrip("`").lstrip(".")
    return f"{place}: {what[:1].lower()}{what[1:]}" if at and place else text


def answer(seq: int, value: object, *, status: int = 200) -> web.Response:
    """Return a JSON answer that reflects entry ``seq``."""
    return raw_answer(seq, ENCODER.encode(value), status=status)


def raw_answer(
    seq: int, body: bytes, *, status: int = 200, content_type: str = JSON
) -> web.Response:
    """Return an answer whose body is ready."""
    return web.Response(
        body=body, status=status, headers={"Content-Type": content_type, "XCE-Seq": str(seq)}
    )


def problem_answer(problem: Problem, *, retry_after_s: int = 0) -> web.Response:
    """Return a problem document."""
    headers = {"Content-Type": PROBLEM}
    if retry_after_s:
        headers["Retry-After"] = str(retry_after_s)
    return web.Response(body=ENCODER.encode(problem), status=problem.status, headers=headers)
