"""Dependency conditions: the text of ``-w``, what it names, and whether it holds.

The grammar is LSF's: tests of jobs joined by ``&& || !`` and parentheses; a bare job is
``done(job)``.
"""

import enum
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias, assert_never

from xce.model.dependency import (
    COUNTS,
    EACH,
    EVERY,
    WHOLE,
    And,
    Condition,
    Dependency,
    Not,
    Or,
    Subject,
    Test,
)
from xce.model.ids import Index, JobId
from xce.resreq.errors import DependencySyntaxError, UnknownJobError

TEXT_MAX: Final = 16 * 1024
DEPTH_MAX: Final = 100
ID_MAX: Final = (1 << 63) - 1
INDEX_MAX: Final = (1 << 31) - 1
CODE_MAX: Final = 999_999

Probe: TypeAlias = Callable[[Condition, JobId, Index], tuple[bool, bool]]
"""``(condition, job, index)`` -> whether it is true now of that job, and whether that is final."""

_TOKEN: Final = re.compile(
    r"""(?P<blank>\s+)
    | (?P<string>"[^"\x00-\x1f\x7f]*")
    | (?P<mark>&&|\|\||>=|<=|==|!=|[()!,<>\[\]])
    | (?P<name>[^\s"&|()!,<>\[\]\x00-\x1f\x7f]+)""",
    re.VERBOSE,
)
_PLAIN: Final = re.compile(r'[^\s"&|()!,<>\[\]\x00-\x1f\x7f0-9=][^\s"&|()!,<>\[\]\x00-\x1f\x7f]*')
_OPS: Final = (">", ">=", "<", "<=", "==", "!=")
_TESTS: Final = ", ".join(Test)


class Verdict(enum.Enum):
    """Whether a condition holds."""

    HOLDS = "holds"
    WAITS = "waits"
    NEVER = "never"
    """It is false, and nothing can change that."""


def parse_dependency(text: str) -> Dependency:
    """Return the tree of a ``-w`` text; names stand unresolved in ``Subject.name``.

    Double quotes around the whole text are tolerated, since some clients send them.

    Raises:
        DependencySyntaxError: The text is no condition.
    """
    if len(text) > TEXT_MAX:
        raise DependencySyntaxError(
            f"a dependency condition may have {TEXT_MAX} characters, this one has {len(text)}",
            column=TEXT_MAX + 1,
        )
    inner = text.strip()
    if len(inner) > 1 and inner[0] == inner[-1] == '"' and "(" in inner:
        try:
            return _Reader(text, quoted=True).whole()
        except DependencySyntaxError:
            # It may be a quoted name, or begin and end with quoted names.
            pass
    return _Reader(text).whole()


def render_dependency(tree: Dependency) -> str:
    """Return the text of a condition, which parses to an equal tree.

    A name that was resolved to several jobs gives several tests side by side.
    """
    return _render(tree, 1)


def resolve_dependency(
    tree: Dependency,
    lookup: Callable[[str], Sequence[JobId]],
    exists: Callable[[JobId], bool],
) -> Dependency:
    """Return ``tree`` with every name replaced by the ids of all jobs that have it.

    Args:
        tree: A parsed condition.
        lookup: Gives the ids of the owner's jobs whose name matches a pattern with ``*``.
        exists: Says whether a job of that id can be asked about.

    Raises:
        UnknownJobError: A subject stands for no job.
    """
    match tree:
        case Condition(test, subjects, op, code, word):
            resolved: dict[Subject, None] = {}
            for subject in subjects:
                resolved.update(dict.fromkeys(_resolved(subject, lookup, exists)))
            return Condition(test, tuple(resolved), op, code, word)
        case Not(part):
            return Not(resolve_dependency(part, lookup, exists))
        case And(parts):
            return And(tuple(resolve_dependency(part, lookup, exists) for part in parts))
        case Or(parts):
            return Or(tuple(resolve_dependency(part, lookup, exists) for part in parts))
        case _:
            assert_never(tree)


def evaluate(tree: Dependency, probe: Probe) -> Verdict:
    """Return whether a resolved condition holds now, may hold later, or never can."""
    value, is_final = _value(tree, probe)
    if value:
        return Verdict.HOLDS
    return Verdict.NEVER if is_final else Verdict.WAITS


def subjects_of(tree: Dependency) -> tuple[JobId, ...]:
    """Return the ids of all jobs that a resolved condition is about, each once, rising."""
    found: set[JobId] = set()
    rest = [tree]
    while rest:
        match rest.pop():
            case Condition(_, subjects):
                found.update(subject.job for subject in subjects)
            case Not(part):
                rest.append(part)
            case And(parts) | Or(parts):
                rest.extend(parts)
    return tuple(sorted(found))


def has_moving_test(tree: Dependency) -> bool:
    """Return whether a condition has a test that also starts, stops and messages may change."""
    match tree:
        case Condition(test):
            return test in COUNTS or test is Test.EXTERNAL
        case Not(part):
            return has_moving_test(part)
        case And(parts) | Or(parts):
            return any(map(has_moving_test, parts))


def _resolved(
    subject: Subject, lookup: Callable[[str], Sequence[JobId]], exists: Callable[[JobId], bool]
) -> list[Subject]:
    if subject.name:
        found = [Subject(job, subject.index) for job in sorted(lookup(subject.name))]
    else:
        found = [subject] if exists(subject.job) else []
    if not found:
        raise UnknownJobError(subject)
    return found


def _value(tree: Dependency, probe: Probe) -> tuple[bool, bool]:
    """Return the value now and whether it is final."""

    def at(part: Dependency) -> tuple[bool, bool]:
        return _value(part, probe)

    match tree:
        case Condition(_, subjects):
            return _all(probe(tree, about.job, about.index) for about in subjects)
        case Not(part):
            value, is_final = _value(part, probe)
            return not value, is_final
        case And(parts):
            return _all(map(at, parts))
        case Or(parts):
            # a || b is !(!a && !b).
            inverted = ((not value, is_final) for value, is_final in map(at, parts))
            value, is_final = _all(inverted)
            return not value, is_final
        case _:
            assert_never(tree)


def _all(values: Iterable[tuple[bool, bool]]) -> tuple[bool, bool]:
    """Return whether all are true, and whether that is final: by one final no, or by all."""
    holds = is_final = True
    for value, is_final_here in values:
        if is_final_here and not value:
            return False, True
        holds = holds and value
        is_final = is_final and is_final_here
    return holds, is_final


def _render(tree: Dependency, level: int) -> str:
    match tree:
        case Condition(test, subjects, op, code, word):
            tail = f", {op} {code}" if op else ""
            if op == EVERY or word:
                tail = f', "{word}"' if word else ", *"
            texts = [f"{test.value}({_render_subject(subject)}{tail})" for subject in subjects]
            own = 2 if len(texts) > 1 else 3
            text = " && ".join(texts)
        case Not(part):
            own, text = 3, "!" + _render(part, 3)
        case And(parts):
            own, text = 2, " && ".join(_render(part, 2) for part in parts)
        case Or(parts):
            own, text = 1, " || ".join(_render(part, 2) for part in parts)
        case _:
            assert_never(tree)
    return text if own >= level else f"({text})"


def _render_subject(subject: Subject) -> str:
    name = subject.name or str(subject.job)
    if subject.name and not _PLAIN.fullmatch(subject.name):
        name = f'"{subject.name}"'
    if subject.index == WHOLE:
        return name
    return f"{name}[{'*' if subject.index == EACH else subject.index}]"


class _Reader:
    """Reads one text. ``quoted``: without the double quotes around it."""

    def __init__(self, text: str, *, quoted: bool = False) -> None:
        self.text = text
        start = len(text) - len(text.lstrip()) if quoted else 0
        stop = len(text.rstrip()) if quoted else len(text)
        self.tokens: list[tuple[str, str, int]] = []
        at, end = start + quoted, stop - quoted
        while at < end:
            match = _TOKEN.match(text, at, end)
            if match is None:
                raise self.fault("a test, a job or an operator", at, repr(text[at]))
            if match.lastgroup != "blank":
                self.tokens.append((match.lastgroup or "", match.group(), at))
            at = match.end()
        self.tokens.append(("end", "", end))
        self.at = 0
        self.depth = 0

    def whole(self) -> Dependency:
        """Read the whole text."""
        tree = self.any()
        if self.kind != "end":
            raise self.error('"&&", "||" or the end')
        return tree

    @property
    def kind(self) -> str:
        """The kind of the next token."""
        return self.tokens[self.at][0]

    @property
    def word(self) -> str:
        """The text of the next token."""
        return self.tokens[self.at][1]

    def take(self, mark: str) -> bool:
        """Take the next token if it is ``mark``; return whether it was."""
        if self.kind == "mark" and self.word == mark:
            self.at += 1
            return True
        return False

    def expect(self, mark: str) -> None:
        """Take ``mark``."""
        if not self.take(mark):
            raise self.error(f'"{mark}"')

    def error(self, expected: str) -> DependencySyntaxError:
        """Return the error for the next token."""
        found = self.word if self.kind == "string" else f'"{self.word}"'
        place = self.tokens[self.at][2]
        return self.fault(expected, place, "the end" if self.kind == "end" else found)

    def fault(self, expected: str, place: int, found: str) -> DependencySyntaxError:
        """Return the error for what was found at ``place``."""
        return DependencySyntaxError(
            f"expected {expected} at column {place + 1}: found {found}",
            text=self.text,
            column=place + 1,
            expected=expected,
        )

    def any(self) -> Dependency:
        """Read ``all || all ...``."""
        parts = [self.all()]
        while self.take("||"):
            parts.append(self.all())
        if len(parts) == 1:
            return parts[0]
        return Or(
            tuple(p for part in parts for p in (part.parts if isinstance(part, Or) else (part,)))
        )

    def all(self) -> Dependency:
        """Read ``one && one ...``."""
        parts = [self.one()]
        while self.take("&&"):
            parts.append(self.one())
        if len(parts) == 1:
            return parts[0]
        return And(
            tuple(p for part in parts for p in (part.parts if isinstance(part, And) else (part,)))
        )

    def one(self) -> Dependency:
        """Read ``!one``, ``(any)`` or a condition."""
        count = 0
        while self.take("!"):
            count += 1
            self.descend()
        if self.take("("):
            self.descend()
            tree = self.any()
            self.expect(")")
            self.depth -= 1
        else:
            tree = self.condition()
        self.depth -= count
        for _ in range(count):
            tree = Not(tree)
        return tree

    def descend(self) -> None:
        """Enter one more level."""
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise self.error(f"at most {DEPTH_MAX} nested levels")

    def condition(self) -> Condition:
        """Read ``test(job [, [op] code])`` or a bare job."""
        function, place = self.word, self.tokens[self.at][2]
        if self.kind != "name" or self.tokens[self.at + 1][1] != "(":
            return Condition(Test.DONE, (self.subject(),))
        if function not in list(Test):
            raise self.error(f"one of {_TESTS}")
        self.at += 2
        subject = self.subject()
        op, code, word = "", 0, ""
        if function == Test.EXIT and self.take(","):
            op, code = self.number("an exit code", CODE_MAX)
        elif function in COUNTS:
            if subject.name or subject.index != WHOLE:
                raise DependencySyntaxError(
                    f"{function}() takes the id of an array: found {subject.name or subject.job} "
                    f"at column {place + 1}",
                    text=self.text, column=place + 1, lsf="Job array does not exist",
                )  # fmt: skip
            self.expect(",")
            op, code = self.element_count()
        elif function == Test.EXTERNAL:
            self.expect(",")
            word = self.status_word()
        self.expect(")")
        return Condition(Test(function), (subject,), op, code, word)

    def element_count(self) -> tuple[str, int]:
        """Read ``[op] number`` or ``*``."""
        if self.kind == "name" and self.word == EVERY:
            self.at += 1
            return EVERY, 0
        return self.number("a number of elements or *", INDEX_MAX)

    def status_word(self) -> str:
        """Read the word of an external status."""
        if self.kind not in ("name", "string"):
            raise self.error("a word")
        word = self.word[1:-1] if self.kind == "string" else self.word
        if not word or " " in word:
            raise self.error("one word")
        self.at += 1
        return word

    def subject(self) -> Subject:
        """Read a job id or a name, perhaps with ``[index]``."""
        if self.kind not in ("name", "string"):
            raise self.error("a job id or a job name")
        word, place = self.word, self.tokens[self.at][2]
        is_quoted = self.kind == "string"
        self.at += 1
        if not is_quoted and _is_digits(word):
            if not 1 <= int(word[:20]) <= ID_MAX:
                raise self.fault(f"a job id from 1 to {ID_MAX}", place, word)
            return Subject(job=int(word), index=self.index())
        if not is_quoted and word[0] in "0123456789":
            raise self.fault("double quotes around a name that begins with a digit", place, word)
        name = word[1:-1] if is_quoted else word
        inner = re.fullmatch(r"(?P<name>[^\[\]]*)\[(?P<index>\*|[0-9]{1,10})\]", name)
        if inner is None:
            index = self.index()
        else:
            name, index = inner["name"], self.checked_index(inner["index"], place)
        if not name or "[" in name:
            raise self.fault("a job name", place, word)
        return Subject(name=name, index=index)

    def index(self) -> Index:
        """Read ``[index]`` if it is there."""
        if not self.take("["):
            return WHOLE
        word, place = self.word, self.tokens[self.at][2]
        if self.kind != "name":
            raise self.error("an array index")
        self.at += 1
        self.expect("]")
        return self.checked_index(word, place)

    def checked_index(self, word: str, place: int) -> Index:
        """Return the index that a word means."""
        if word == "*":
            return EACH
        if not _is_digits(word) or len(word) > 10 or not 1 <= int(word) <= INDEX_MAX:
            raise self.fault("one array index", place, word)
        return int(word)

    def number(self, what: str, most: int) -> tuple[str, int]:
        """Read ``[op] number``."""
        op = "=="
        if self.kind == "mark" and self.word in _OPS:
            op = self.word
            self.at += 1
        word, place = self.word, self.tokens[self.at][2]
        # Whoever writes a thousand digits is told so, too.
        number = word.lstrip("0") or "0"
        if self.kind != "name" or not _is_digits(word) or len(number) > len(str(most)):
            raise self.fault(what, place, word or "nothing")
        self.at += 1
        return op, int(number)


def _flat(part: Dependency, kind: type[And | Or]) -> tuple[Dependency, ...]:
    """Return what ``part`` consists of if it is a chain of that kind, else itself."""
    return part.parts if isinstance(part, kind) else (part,)


def _is_digits(word: str) -> bool:
    return word.isascii() and word.isdecimal()
