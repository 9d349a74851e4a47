"""Faults: what must never happen, and what a text got wrong."""


class XceError(Exception):
    """A fault or a trouble of XCE's own; its message is for people."""


class IllegalTransitionError(XceError):
    """A record does not fit the state: the journal is corrupt or a decider is wrong."""


class CorruptJournalError(XceError):
    """A stored entry is cut, altered, out of order or of a kind that this release does not know."""


class ConfigError(XceError):
    """Configuration that cannot be used; the message names file, line, key and what is allowed."""


class TextError(XceError):
    """A text of a user cannot be read.

    ``text`` is the whole text, ``column`` counts from 1 and names where reading stopped.
    """

    def __init__(self, message: str, *, text: str = "", column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.text = text
        self.column = column
