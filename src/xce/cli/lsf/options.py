"""Options as LSF's commands take them: one hyphen, several letters, values in the next word.

LSF's own rules, which no parser of the standard library knows:

* The whole word is looked up first (``-oo``, ``-noheader``).
* A value may follow in the same word (``-uall``, ``"-o stat"``); where a command allows it, single
  letters may be run together (``-aw``, ``-aJ name``).
* An option that LSF has and XCE has not is refused by name, with what to use instead.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

FLAG = 0
VALUE = 1
MANY = 2
"""How an option stands: alone, with a value, with a value and any number of times."""


class UsageError(Exception):
    """The words are no command line of this command; the text says which word and why."""


class Options:
    """The options of one command."""

    __slots__ = ("bundled", "known", "refused", "sticky", "usage_status")

    def __init__(
        self,
        known: dict[str, int],
        refused: dict[str, str],
        *,
        bundled: bool,
        sticky: frozenset[str] = frozenset(),
        usage_status: int = 255,
    ) -> None:
        """Keep the table.

        Args:
            known: Option with its hyphen -> FLAG, VALUE or MANY.
            refused: Option of LSF that XCE has not -> what to use instead, or an empty text.
            bundled: Whether letters may be run together and any value may stand in the same word.
            sticky: Without ``bundled``, the options whose value may follow without a blank when it
                begins with a digit or holds a bracket.
            usage_status: The exit status for words that are no command line of this command.
        """
        self.known = {**known, "-h": FLAG, "-help": FLAG, "-V": FLAG, "--wait-daemon": VALUE}
        self.refused = refused
        self.bundled = bundled
        self.sticky = sticky
        self.usage_status = usage_status


class Parsed:
    """What a command line says."""

    __slots__ = ("given", "rest")

    def __init__(self, given: dict[str, list[str]], rest: list[str]) -> None:
        """Args: option -> its values in order (a flag has empty ones); the other words."""
        self.given = given
        self.rest = rest

    def has(self, option: str) -> bool:
        """Return whether the option was given."""
        return option in self.given

    def value(self, option: str, default: str = "") -> str:
        """Return the last value of the option."""
        values = self.given.get(option)
        return values[-1] if values else default


def parse_options(words: Sequence[str], options: Options, *, until_word: bool) -> Parsed:
    """Return what ``words`` say.

    With ``until_word`` options end at the first word that is none, as for ``bsub``.

    Raises:
        UsageError: An option is unknown, is refused, or lacks its value.
    """
    given: dict[str, list[str]] = {}
    rest: list[str] = []
    place = 0
    while place < len(words):
        word = words[place]
        place += 1
        if word == "--":
            rest.extend(words[place:])
            break
        if len(word) < 2 or not word.startswith("-"):
            rest.append(word)
            if until_word:
                rest.extend(words[place:])
                break
            continue
        for option, value in _split(word, options):
            if value is None and options.known[option] != FLAG:
                if place >= len(words):
                    raise UsageError(f"{option}: a value is missing")
                value = words[place]
                place += 1
            given.setdefault(option, []).append(value or "")
    return Parsed(given, rest)


def _split(word: str, options: Options) -> list[tuple[str, str | None]]:
    """Return the options that one word holds, each with its value where that is in the word."""
    if word in options.known:
        return [(word, None)]
    if word in options.refused:
        raise UsageError(_refusal(word, options.refused[word]))
    name, equals, value = word.partition("=")
    if equals and name.startswith("--") and name in options.known:
        return [(name, value)]
    head, blank, tail = word.partition(" ")
    if blank and options.known.get(head, FLAG) != FLAG:
        return [(head, tail.strip())]
    if blank and head in options.refused:
        raise UsageError(_refusal(head, options.refused[head]))
    return _split_bundle(word, options) if options.bundled else _split_sticky(word, options)


def _split_sticky(word: str, options: Options) -> list[tuple[str, str | None]]:
    """Return an option with its value behind it without a blank: ``-n4``, ``-R"span[hosts=1]"``."""
    for length in (3, 2):
        option, value = word[:length], word[length:]
        if option in options.sticky and value and (value[0].isdecimal() or "[" in value):
            return [(option, value)]
    hint = ""
    if options.known.get(word[:2], FLAG) != FLAG:
        hint = f"; a value stands in a word of its own: {word[:2]} {word[2:]}"
    raise UsageError(f"{word}: there is no such option{hint}")


def _split_bundle(word: str, options: Options) -> list[tuple[str, str | None]]:
    """Return the options of letters that were run together; a value ends the word."""
    found: list[tuple[str, str | None]] = []
    for place in range(1, len(word)):
        option = f"-{word[place]}"
        kind = options.known.get(option)
        if kind is None:
            if option in options.refused and place == 1 and len(word) == 2:
                raise UsageError(_refusal(option, options.refused[option]))
            raise UsageError(f"{word}: there is no such option")
        if kind == FLAG:
            found.append((option, None))
            continue
        tail = word[place + 1 :].strip()
        found.append((option, tail or None))
        break
    return found


def _refusal(option: str, instead: str) -> str:
    text = f"{option}: this option of LSF is not in XCE"
    return f"{text}; {instead}" if instead else text
