"""Resource requirement text to tokens, and a cursor that walks them."""

import re
from typing import Final, NamedTuple

from xce.resreq.errors import ResreqError

TEXT_MAX: Final = 16 * 1024
"""Longest text that is read, in characters."""
DEPTH_MAX: Final = 100
"""Deepest nesting of an expression."""
DIGITS_MAX: Final = 18

_TOKEN: Final = re.compile(
    r"""(?P<blank>[ \t\r\n]+)
    | (?P<number>[0-9]+(?:\.[0-9]*)?|\.[0-9]+)
    | (?P<word>[A-Za-z_][A-Za-z0-9_.]*)
    | (?P<string>'[^'\x00-\x1f\x7f]*'|"[^"\x00-\x1f\x7f]*")
    | (?P<mark>&&|\|\||[=!<>]=|[-+*/<>=!()\[\]{},:@])""",
    re.VERBOSE,
)
_NOT_A_TOKEN: Final = {
    "&": ('"&&"', "a single & is no operator"),
    "|": ('"||"', "a single | is no operator"),
    "'": ("a closing quote", "the quote is not closed"),
    '"': ("a closing quote", "the quote is not closed"),
}


class Token(NamedTuple):
    """A piece of text. ``kind``: number, word, string (without its quotes), mark or end."""

    kind: str
    text: str
    start: int
    end: int


def tokenize(text: str) -> list[Token]:
    """Return the tokens of ``text``, the last one of kind ``end``.

    Raises:
        ResreqError: The text is too long or holds a character that stands for nothing.
    """
    if len(text) > TEXT_MAX:
        raise ResreqError(
            f"a resource requirement may have {TEXT_MAX} characters, this one has {len(text)}",
            column=TEXT_MAX + 1,
            expected="a shorter text",
        )
    tokens = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            expected, why = _NOT_A_TOKEN.get(
                text[at], ("a name, a number or an operator", f"{text[at]!r} stands for nothing")
            )
            raise ResreqError(
                f"expected {expected} at column {at + 1}: {why}",
                text=text,
                column=at + 1,
                expected=expected,
            )
        kind = match.lastgroup or ""
        if kind == "string":
            tokens.append(Token(kind, match.group()[1:-1], at, match.end()))
        elif kind != "blank":
            tokens.append(Token(kind, match.group(), at, match.end()))
        at = match.end()
    tokens.append(Token("end", "", len(text), len(text)))
    return tokens


class Cursor:
    """Walks the tokens of one text. ``lsf`` is what LSF says about trouble in this section."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = tokenize(text)
        self.at = 0
        self.depth = 0
        self.lsf = ResreqError.LSF

    @property
    def peek(self) -> Token:
        """The next token."""
        return self.tokens[self.at]

    def peek_after(self, count: int) -> Token:
        """Return the token that follows after ``count`` more."""
        return self.tokens[min(self.at + count, len(self.tokens) - 1)]

    def next(self) -> Token:
        """Take the next token; the end stays."""
        token = self.tokens[self.at]
        if token.kind != "end":
            self.at += 1
        return token

    def is_mark(self, mark: str) -> bool:
        """Whether the next token is ``mark``."""
        token = self.tokens[self.at]
        return token.kind == "mark" and token.text == mark

    def take_mark(self, mark: str) -> bool:
        """Take the next token if it is ``mark``; return whether it was."""
        if self.is_mark(mark):
            self.at += 1
            return True
        return False

    def expect_mark(self, mark: str, expected: str = "") -> None:
        """Take ``mark``.

        Raises:
            ResreqError: Something else comes next.
        """
        if not self.take_mark(mark):
            raise self.error(expected or f'"{mark}"')

    def expect_word(self, expected: str) -> str:
        """Take a word and return it.

        Raises:
            ResreqError: Something else comes next.
        """
        if self.peek.kind != "word":
            raise self.error(expected)
        return self.next().text

    def expect_choice(self, words: tuple[str, ...]) -> str:
        """Take one of ``words`` and return it.

        Raises:
            ResreqError: Something else comes next.
        """
        if self.peek.kind != "word" or self.peek.text not in words:
            raise self.error(f"one of {', '.join(words)}")
        return self.next().text

    def expect_count(self, expected: str, *, least: int = 1, most: int = 10**9) -> int:
        """Take a whole number from ``least`` to ``most`` and return it.

        Raises:
            ResreqError: Something else comes next.
        """
        token = self.peek
        if token.kind != "number" or not token.text.isdecimal() or len(token.text) > DIGITS_MAX:
            raise self.error(expected)
        if not least <= int(token.text) <= most:
            raise self.error(expected if least == most else f"{expected} from {least} to {most}")
        self.at += 1
        return int(token.text)

    def error(self, expected: str, *, why: str = "", lsf: str | None = None) -> ResreqError:
        """Return the error that says what was expected at the next token."""
        token = self.peek
        found = f'"{token.text}"' if token.kind != "end" else "the end"
        detail = why or f"found {found}"
        return ResreqError(
            f"expected {expected} at column {token.start + 1}: {detail}",
            text=self.text,
            column=token.start + 1,
            expected=expected,
            lsf=self.lsf if lsf is None else lsf,
        )

    def descend(self) -> None:
        """Enter one more level of nesting.

        Raises:
            ResreqError: It is one too many.
        """
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.too_deep()

    def too_deep(self) -> ResreqError:
        """Return the error for an expression that is nested too deep."""
        return self.error("a flatter expression", why=f"nested more than {DEPTH_MAX} levels deep")

    def ascend(self) -> None:
        """Leave a level of nesting."""
        self.depth -= 1
