"""Every expected no to a command.

A refusal is a value with a stable code, a text for people and, where LSF has one, LSF's text.
The LSF commands print ``lsf`` when there is one, else ``text``.
"""

import enum

import msgspec


class RefusalCode(enum.StrEnum):
    """Stable codes; they are the ``code`` of REST's problem documents and are never renamed."""

    BAD_REQUEST = "bad-request"
    UNKNOWN_JOB = "unknown-job"
    ALREADY_FINISHED = "already-finished"
    NOT_YOURS = "not-yours"
    UNKNOWN_QUEUE = "unknown-queue"
    QUEUE_CLOSED = "queue-closed"
    QUEUE_REFUSES_EXCLUSIVE = "queue-refuses-exclusive"
    OVER_QUEUE_LIMIT = "over-queue-limit"
    UNKNOWN_HOST = "unknown-host"
    UNKNOWN_DEVICE = "unknown-device"
    UNKNOWN_RESOURCE = "unknown-resource"
    BAD_RESREQ = "bad-resreq"
    BAD_DEPENDENCY = "bad-dependency"
    DEPENDENCY_UNKNOWN_JOB = "dependency-unknown-job"
    BAD_ARRAY = "bad-array"
    ARRAY_TOO_LARGE = "array-too-large"
    TOO_MANY_TASKS = "too-many-tasks"
    TOO_FEW_TASKS = "too-few-tasks"
    EMPTY_JOB = "empty-job"
    TOO_LARGE = "too-large"
    KEY_EXPIRED = "key-expired"
    KEY_REUSED = "key-reused"
    NOT_BUILT = "not-built"
    JOURNAL_FULL = "journal-full"
    JOURNAL_AWAY = "journal-away"
    """It passes by itself: clients of ours try again."""
    OVERLOADED = "overloaded"
    """Too much waits, or too much is remembered: nothing was done, and it passes."""
    WRONG_STATE = "wrong-state"
    STALE = "stale"
    DENIED = "denied"
    UNREACHABLE_HOST = "unreachable-host"
    UNKNOWN_RULE = "unknown-rule"
    BAD_KEY = "bad-key"
    UNKNOWN_KEY = "unknown-key"
    KEY_REVOKED = "key-revoked"
    BAD_TOKEN = "bad-token"
    TOKEN_REVOKED = "token-revoked"
    TOKEN_REUSED = "token-reused"
    """A token that can be used once was shown again: the login that it belongs to is over."""
    BAD_SPEC = "bad-spec"
    UNKNOWN_GROUP = "unknown-group"
    GROUP_EXISTS = "group-exists"
    GROUP_IN_USE = "group-in-use"
    UNKNOWN_APP = "unknown-app"
    OVER_APP_LIMIT = "over-app-limit"


class Refusal(msgspec.Struct, frozen=True, tag="refusal", array_like=True):
    """An expected no."""

    code: RefusalCode
    text: str
    """One sentence for people: what was found and what is allowed."""
    lsf: str = ""
    """LSF's own words without the final stop; empty where LSF has none."""
    job: int = 0
    """The job that it is about, or 0."""
    column: int = 0
    """Where in a text the trouble is, counted from 1, or 0."""
    first: int = -1
    """First index of the elements that it is about; -1: the whole job."""
    last: int = -1
    permission: str = ""
    """The permission that is missing; empty: none, or it is not to be told."""
