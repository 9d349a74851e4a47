"""Lists of exit statuses as LSF writes them: ``1 5``, ``all ~3``, ``99 EXCLUDE(7)``.

Commands read them too, so nothing is imported that is slow to load.
"""

from xce.model.errors import TextError

MOST = 255
"""The largest exit status."""


def parse_exit_values(text: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the exit statuses that a text names, and those of them in ``EXCLUDE()``; both rising.

    Words count one after the other: ``all`` adds every status from 1 on, ``~3`` takes 3 away.

    Raises:
        TextError: It names none, or something else.
    """
    head, bracket, tail = text.partition("EXCLUDE(")
    codes: set[int] = set()
    for word in head.split():
        number = word.removeprefix("~")
        if word == "all":
            codes.update(range(1, MOST + 1))
        elif word == "~0":  # Scripts say `all ~0`; success is never in a list.
            continue
        elif word == number:
            codes.add(_number(text, word))
        else:
            codes.discard(_number(text, number))
    elsewhere: set[int] = set()
    if bracket:
        inner, closing, rest = tail.partition(")")
        if not closing or rest.strip() or not inner.replace(",", " ").split():
            raise TextError(f"{text!r}: EXCLUDE(code ...) stands last and names exit statuses")
        elsewhere = {_number(text, word) for word in inner.replace(",", " ").split()}
    if not codes and not elsewhere:
        raise TextError(f"{text!r} names no exit status")
    return tuple(sorted(codes | elsewhere)), tuple(sorted(elsewhere))


def render_exit_values(codes: tuple[int, ...], elsewhere: tuple[int, ...] = ()) -> str:
    """Return a list of exit statuses in the words that `parse_exit_values` reads."""
    plain = sorted(set(codes) - set(elsewhere))
    words = [str(code) for code in plain]
    if len(codes) > MOST // 2:
        missing = sorted(set(range(1, MOST + 1)) - set(codes))
        words = ["all", *(f"~{code}" for code in missing)]
    if elsewhere:
        words.append(f"EXCLUDE({' '.join(map(str, elsewhere))})")
    return " ".join(words)


def _number(text: str, word: str) -> int:
    if not (word.isascii() and word.isdigit()) or not 1 <= int(word[:4]) <= MOST:
        raise TextError(f"{text!r}: {word} is no exit status from 1 to {MOST}")
    return int(word)
