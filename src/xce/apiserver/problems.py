"""Problem documents (RFC 9457): every error of REST, with a stable code."""

from http import HTTPStatus
from typing import Final

import msgspec

from xce.model.errors import XceError
from xce.model.refusal import Refusal, RefusalCode

_URN: Final = "urn:xce:problem:"
_STATUS: Final[dict[str, int]] = {
    RefusalCode.BAD_REQUEST: 400,
    RefusalCode.UNKNOWN_JOB: 404,
    RefusalCode.ALREADY_FINISHED: 409,
    RefusalCode.NOT_YOURS: 403,
    RefusalCode.QUEUE_CLOSED: 409,
    RefusalCode.TOO_LARGE: 413,
    RefusalCode.KEY_EXPIRED: 409,
    RefusalCode.KEY_REUSED: 409,
    RefusalCode.JOURNAL_FULL: 503,
    RefusalCode.JOURNAL_AWAY: 503,
    RefusalCode.OVERLOADED: 429,
    RefusalCode.WRONG_STATE: 409,
    RefusalCode.STALE: 409,
    RefusalCode.DENIED: 403,
    RefusalCode.UNREACHABLE_HOST: 503,
    RefusalCode.UNKNOWN_RULE: 404,
    RefusalCode.TOKEN_REVOKED: 401,
    RefusalCode.TOKEN_REUSED: 401,
    RefusalCode.UNKNOWN_GROUP: 404,
    RefusalCode.UNKNOWN_APP: 404,
    RefusalCode.GROUP_EXISTS: 409,
    RefusalCode.GROUP_IN_USE: 409,
}
"""Every other refusal is a 422: what was asked for is well formed and not to be had."""

NO_ROUTE: Final = "no-route"
METHOD_NOT_ALLOWED: Final = "method-not-allowed"
CONTROLLER_AWAY: Final = "controller-away"
HISTORY_AWAY: Final = "history-away"
"""The database that holds the history does not answer; it passes by itself."""
OUTCOME_UNKNOWN: Final = "outcome-unknown"
UNDECIDED: Final = "undecided"
"""The journal cannot be written; what was asked may still be carried out."""
NO_OUTPUT: Final = "no-output"
GONE: Final = "gone"
INTERNAL: Final = "internal"


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """A problem document."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    lsf: str = ""
    """LSF's own words without the final stop."""
    column: int = 0
    """Where in a text the trouble is, counted from 1."""
    permission: str = ""
    """The permission that is missing."""


class ProblemError(XceError):
    """A request that cannot be served; the problem says why."""

    def __init__(
        self, problem: Problem, *, retry_after_s: int = 0, denied: str = "", about: str = ""
    ) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.retry_after_s = retry_after_s
        """0: trying again later is no use, or not known to be."""
        self.denied = denied or problem.permission
        """The permission for lack of which it is refused, also where the answer does not say so."""
        self.about = about
        """The object that it is about, for the audit."""


def make_problem(
    code: str, detail: str, *, status: int = 0, lsf: str = "", column: int = 0
) -> Problem:
    """Return the document for ``code``; its status is the code's own unless one is given."""
    number = status or _STATUS.get(code, 422)
    return Problem(f"{_URN}{code}", HTTPStatus(number).phrase, number, detail, code, lsf, column)


def refused(
    code: str, detail: str, *, status: int = 0, lsf: str = "", column: int = 0
) -> ProblemError:
    """Return the error to raise for a request that is refused."""
    return ProblemError(make_problem(code, detail, status=status, lsf=lsf, column=column))


def denied(
    permission: str, detail: str, *, code: str = RefusalCode.DENIED, about: str = ""
) -> ProblemError:
    """Return the error to raise for what the caller may not do."""
    problem = make_problem(code, detail, lsf="User permission denied")
    return ProblemError(msgspec.structs.replace(problem, permission=permission), about=about)


def from_refusal(refusal: Refusal) -> Problem:
    """Return the document for a refusal of the controller."""
    problem = make_problem(refusal.code, refusal.text, lsf=refusal.lsf, column=refusal.column)
    return msgspec.structs.replace(problem, permission=refusal.permission)
