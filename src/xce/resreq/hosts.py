"""The host list of ``-m``: names with preferences."""

import re
from collections.abc import Iterator
from itertools import product
from typing import Final, NamedTuple, NoReturn

from xce.model.request import HostChoice
from xce.resreq.errors import HostListError

TEXT_MAX: Final = 16 * 1024
NAMES_MAX: Final = 20_000
"""Most names that the ranges of one text may stand for."""
_ITEM: Final = re.compile(
    r"(?P<name>[A-Za-z0-9_.\-]+(?:\[[0-9,\-]*\][A-Za-z0-9_.\-]*)*)(?:(?P<plus>\+(?P<level>[0-9]{0,9}))|(?P<first>!))?"
)
_RANGE: Final = re.compile(r"(?P<low>[0-9]{1,9})(?:-(?P<high>[0-9]{1,9}))?")
_BRACKETS: Final = re.compile(r"\[([^\]]*)\]")
_HOST_TEXT: Final = "Bad host name, host group name or cluster name"


class AskedHosts(NamedTuple):
    """What ``-m`` says."""

    choices: tuple[HostChoice, ...] = ()
    """The hosts that are named, best first."""
    others: bool = False
    """Whether any other may be used too."""
    others_preference: int = -1
    """Of those others."""
    excluded: tuple[str, ...] = ()
    """Hosts that may not be used. Sorted."""
    first: tuple[str, ...] = ()
    """Those of ``choices`` of which one is the first host, and no other is used. Sorted."""

    @property
    def names(self) -> tuple[str, ...]:
        """All hosts that are named, to be used or not."""
        return (*(choice.host for choice in self.choices), *self.excluded)


def parse_hosts(text: str) -> AskedHosts:
    """Return the hosts of a ``-m`` text.

    ``all`` alone means any host, as if nothing had been said; beside other names the hosts that
    are not named. Whether the hosts exist is for the caller to find out.

    Raises:
        HostListError: The text is no host list.
    """
    if len(text) > TEXT_MAX:
        raise HostListError(f"a host list may have {TEXT_MAX} characters", column=TEXT_MAX + 1)
    return _Reader(text).result()


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.levels: dict[str, int] = {}
        self.rest: dict[str, int] = {}
        """The preferences of ``all`` and ``others``."""
        self.excluded: dict[str, int] = {}
        """The names behind a tilde, and where they stand."""
        self.is_first: dict[str, bool] = {}
        """By name: whether it has a ``!``."""
        for word in re.finditer(r"\S+", text):
            self._read(word.group(), word.start() + 1)

    def result(self) -> AskedHosts:
        if len(self.rest) == 2:
            self._fail("all and others both mean the hosts that are not named", "others")
        if self.excluded and "all" not in self.rest:
            name, column = next(iter(self.excluded.items()))
            raise HostListError(
                f"~{name} goes only with all, as in all ~{name}", text=self.text, column=column
            )
        for name, column in self.excluded.items():
            if name in self.levels:
                raise HostListError(
                    f"{name} is asked for and left out", text=self.text, column=column
                )
        if not self.levels and not self.rest:
            raise HostListError(
                "no host is named", text=self.text, column=1, expected="a host name"
            )
        if not self.levels and "others" in self.rest:
            raise HostListError(
                "others needs a host beside it", text=self.text, column=1, expected="a host name"
            )
        best_first = sorted(self.levels.items(), key=lambda item: -item[1])
        choices = tuple(HostChoice(name, level) for name, level in best_first)
        excluded = tuple(sorted(self.excluded))
        first = tuple(sorted(name for name, is_first in self.is_first.items() if is_first))
        if not choices or not self.rest:
            return AskedHosts(choices, excluded=excluded, first=first)
        ((_, level),) = self.rest.items()
        return AskedHosts(choices, True, level, excluded, first)

    def _read(self, word: str, column: int) -> None:
        is_out = word.startswith("~")
        match = _ITEM.fullmatch(word[1:] if is_out else word)
        if match is None:
            self._refuse(word, column)
        name, has_plus = match["name"], match["plus"] is not None
        is_first = match["first"] is not None
        if is_first and name in ("all", "others"):
            raise HostListError(
                f"{name}! is no first host: name the hosts of which one shall be the first",
                text=self.text,
                column=column,
                expected="a host name",
                lsf=f'"{name}" specified as first execution host',
            )
        if is_out and (has_plus or is_first or name in ("all", "others")):
            raise HostListError(
                f"{word!r}: what is left out is a host, without a preference",
                text=self.text,
                column=column,
                expected="a host name",
            )
        level = int(match["level"] or has_plus)
        if name in ("all", "others"):
            self.rest[name] = level if has_plus or name == "all" else -1
            return
        for one in self._names(name, column):
            if is_out:
                self.excluded[one] = column
            else:
                if self.is_first.setdefault(one, is_first) != is_first:
                    raise HostListError(
                        f"{one} stands with ! and without: as a first host it is no other",
                        text=self.text,
                        column=column,
                    )
                self.levels[one] = max(level, self.levels.get(one, 0))
            if len(self.levels) + len(self.excluded) > NAMES_MAX:
                raise HostListError(f"a host list may name {NAMES_MAX} hosts", column=column)

    def _names(self, name: str, column: int) -> Iterator[str]:
        """Yield the names that one with ranges in brackets stands for."""
        fixed = _BRACKETS.split(name)[::2]
        choices = [self._numbers(one, name, column) for one in _BRACKETS.findall(name)]
        size = 1
        for numbers in choices:
            size *= len(numbers)
        if size > NAMES_MAX:
            raise HostListError(
                f"{name} names {size} hosts: {NAMES_MAX} may be named", column=column
            )
        for chosen in product(*choices):
            yield fixed[0] + "".join(map("".join, zip(chosen, fixed[1:], strict=True)))

    def _numbers(self, text: str, name: str, column: int) -> list[str]:
        found: list[str] = []
        for item in text.split(","):
            match = _RANGE.fullmatch(item)
            low, high = (match["low"], match["high"] or match["low"]) if match else ("1", "0")
            if int(high) < int(low) or int(high) - int(low) >= NAMES_MAX:
                raise HostListError(
                    f"{name}: {item!r} is no range of numbers: expected as in h[1-3,7]",
                    text=self.text,
                    column=column,
                    expected="a range of numbers",
                )
            found += [str(number).zfill(len(low)) for number in range(int(low), int(high) + 1)]
        return found

    def _refuse(self, word: str, column: int) -> NoReturn:
        why = f"{word!r} is no host: expected a name, perhaps with +n or !"
        if "!" in word and "+" in word:
            why = f"{word!r}: a first host takes no preference, so ! and + do not go together"
        if "@" in word:
            why = f"{word!r}: there is one cluster, so no host is named with another"
        raise HostListError(
            why, text=self.text, column=column, expected="a host name", lsf=_HOST_TEXT
        )

    def _fail(self, why: str, word: str) -> NoReturn:
        raise HostListError(why, text=self.text, column=self.text.index(word) + 1)
