"""The host list of ``-m``: names with preferences."""

import re
from typing import Final

from xce.model.request import HostChoice
from xce.resreq.errors import HostListError, HostListNotBuiltError

TEXT_MAX: Final = 16 * 1024
_ITEM: Final = re.compile(r"(?P<name>[A-Za-z0-9_.\-]+)(?P<plus>\+(?P<level>[0-9]{0,9}))?")
_HOST_TEXT: Final = "Bad host name, host group name or cluster name"


def parse_hosts(text: str) -> tuple[tuple[HostChoice, ...], bool]:
    """Return the hosts of a ``-m`` text, best first, and whether any other may be used too.

    ``all`` alone means any host, as if nothing had been said. Whether the hosts exist is for the
    caller to find out.

    Raises:
        HostListError: The text is no host list.
        HostListNotBuiltError: It uses a form that is not honoured yet.
    """
    if len(text) > TEXT_MAX:
        raise HostListError(f"a host list may have {TEXT_MAX} characters", column=TEXT_MAX + 1)
    levels: dict[str, int] = {}
    has_others = False
    has_all = False
    for word in re.finditer(r"\S+", text):
        name, level, has_plus = _parse_item(word.group(), text, word.start() + 1)
        if name == "others":
            if has_plus:
                raise _not_built("a preference for others", text, word.start() + 1)
            has_others = True
        elif name == "all":
            has_all = True
            if has_plus:
                raise _not_built("a preference for all", text, word.start() + 1)
        else:
            levels[name] = max(level, levels.get(name, 0))
    if has_all and not levels and not has_others:
        return (), False
    if has_all:
        raise _not_built("all beside other names", text, text.index("all") + 1)
    if not levels:
        what = "others needs a host beside it" if has_others else "no host is named"
        raise HostListError(what, text=text, column=1, expected="a host name")
    best_first = sorted(levels.items(), key=lambda item: -item[1])
    return tuple(HostChoice(name, level) for name, level in best_first), has_others


def _parse_item(word: str, text: str, column: int) -> tuple[str, int, bool]:
    """Return name, preference and whether a plus was there."""
    match = _ITEM.fullmatch(word)
    if match is not None:
        has_plus = match["plus"] is not None
        return match["name"], int(match["level"] or has_plus), has_plus
    for mark, what in (
        ("!", "a first execution host, name!"),
        ("@", "a host of another cluster, name@cluster"),
        ("~", "an excluded host, ~name"),
        ("[", "a range of hosts, name[1-9]"),
    ):
        if mark in word:
            raise _not_built(what, text, column + word.index(mark))
    raise HostListError(
        f"{word!r} is no host: expected a name, perhaps with +n",
        text=text,
        column=column,
        expected="a host name",
        lsf=_HOST_TEXT,
    )


def _not_built(what: str, text: str, column: int) -> HostListNotBuiltError:
    return HostListNotBuiltError(f"{what} in -m is not built yet", text=text, column=column)
