"""Job scripts: which text is one, and the ``#BSUB`` lines that it holds (decision X-15).

* A directive begins in column 1, anywhere in the text; an indented one is a comment.
* Single and double quotes group; what follows a blank and ``#`` is a comment; nothing is expanded.
* A line that cannot be read whole is an error that names it; LSF would drop it in silence.
"""

from __future__ import annotations

from xce.cli.lsf.options import Options, Parsed, UsageError, parse_options
from xce.cli.lsf.values import BadValueError

MARK = "#BSUB"
_BLANKS = " \t"


def directive_lines(text: str) -> list[tuple[int, str]]:
    """Return number (from 1) and text of each directive line."""
    found = []
    if MARK in text:
        for number, line in enumerate(text.split("\n"), 1):
            if line.startswith(MARK):
                line = line.rstrip("\r")
                if len(line) == len(MARK) or line[len(MARK)] in " \t-":
                    found.append((number, line))
    return found


def parse_directives(text: str, options: Options) -> Parsed:
    """Return what the directives of a script say, all together in their order.

    Raises:
        BadValueError: A line cannot be read whole; the text names it.
    """
    given: dict[str, list[str]] = {}
    for number, line in directive_lines(text):
        try:
            parsed = parse_options(split_words(line[len(MARK) :]), options, until_word=False)
        except (UsageError, BadValueError) as error:
            raise BadValueError(f"Line {number} of the script, {line!r}: {error}") from None
        if parsed.rest:
            raise BadValueError(
                f"Line {number} of the script, {line!r}: {parsed.rest[0]!r} belongs to no option; "
                "a value with blanks needs quotes, a comment begins with #"
            )
        for option, values in parsed.given.items():
            given.setdefault(option, []).extend(values)
    return Parsed(given, [])


def split_words(text: str) -> list[str]:
    """Return the words of a directive; quotes group, a ``#`` behind a blank begins a comment.

    Raises:
        BadValueError: A quote is not closed.
    """
    words: list[str] = []
    word = ""
    inside = False
    place = 0
    while place < len(text):
        mark = text[place]
        if mark in _BLANKS:
            if inside:
                words.append(word)
            word, inside = "", False
        elif mark == "#" and not inside:
            break
        elif mark in "'\"":
            part, place = _quoted(text, place)
            word, inside = word + part, True
        elif mark == "\\" and place + 1 < len(text):
            place += 1
            word, inside = word + text[place], True
        else:
            word, inside = word + mark, True
        place += 1
    if inside:
        words.append(word)
    return words


def _quoted(text: str, start: int) -> tuple[str, int]:
    """Return what stands between quotes, and the place of the closing one."""
    mark = text[start]
    part = ""
    place = start + 1
    while place < len(text):
        if text[place] == mark:
            return part, place
        if text[place] == "\\" and mark == '"' and text[place + 1 : place + 2] in {'"', "\\"}:
            place += 1
        part += text[place]
        place += 1
    raise BadValueError(f"the quote {mark} is not closed")


def unify_line_ends(text: str) -> tuple[str, bool]:
    """Return a script with LF line ends, and whether it had CRLF ones throughout.

    A text that mixes both is left alone: its carriage returns may be meant. A byte order mark,
    which some editors put in front, goes.
    """
    text = text.removeprefix("\ufeff")
    ends = text.count("\n")
    if ends and text.count("\r\n") == ends:
        return text.replace("\r\n", "\n"), True
    return text, False
