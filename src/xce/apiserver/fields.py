"""Job rows to JSON: only the members that were asked for, each as cheaply as it can be had."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, Final

import msgspec

from xce.apiserver.problems import refused
from xce.apiserver.rows import Element
from xce.apiserver.shared_half import SHARED_PATHS, Common, Shared
from xce.model.job import JobSpec
from xce.model.refusal import RefusalCode
from xce.model.request import ClassKey

_ENCODER: Final = msgspec.json.Encoder()
_ALWAYS: Final = ("jobid", "index")
_RUN: Final = ("count", "step")
_SHARED_TYPES: Final = {f.name: f.type for f in msgspec.structs.fields(Shared)}
_ELEMENT_TYPES: Final = {
    f.name: f.type for f in msgspec.structs.fields(Element) if f.name not in _RUN
}
MEMBERS: Final = (*_ELEMENT_TYPES, *_RUN, *_SHARED_TYPES)
"""Every member of a row."""

Row = msgspec.defstruct(
    "Row",
    [*_ELEMENT_TYPES.items(), ("count", int, 1), ("step", int, 1), *_SHARED_TYPES.items()],
    kw_only=True,
    namespace={"__doc__": "A job, an element, or a run of elements that are alike."},
)
"""A whole row; this and `JobsAnswer` describe the interface, where bytes are put together."""
_TEXTS: Any = list[str]
_ROWS: Any = list[Row]  # type: ignore[valid-type]
JobsAnswer = msgspec.defstruct(
    "JobsAnswer",
    [("seq", int), ("now", float), ("jobs", _ROWS), ("missing", _TEXTS), ("next", str | None)],
    namespace={"__doc__": "Jobs in order of id and index; what was named and does not exist."},
)


def parse_fields(text: str) -> tuple[str, ...]:
    """Return the members that ``fields=a,b`` asks for; empty: all.

    Raises:
        ProblemError: There is no such member.
    """
    names = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
    unknown = [name for name in names if name not in MEMBERS]
    if unknown:
        raise refused(
            RefusalCode.BAD_REQUEST,
            f"no member of a job row is called {unknown[0]!r}; there are: {', '.join(MEMBERS)}",
        )
    return names


class RowWriter:
    """Renders rows with one choice of members.

    Args:
        names: The members; empty: all.
    """

    def __init__(self, names: Sequence[str] = ()) -> None:
        wanted = set(names)
        own = [n for n in _ELEMENT_TYPES if n in _ALWAYS or not wanted or n in wanted]
        shared = [n for n in _SHARED_TYPES if not wanted or n in wanted]
        self.has_reason = "reason" in own
        self.has_usage = not {"usage", "exceptions"}.isdisjoint(own)
        self.has_spans = "ineligible_s" in own
        paths = {name: name for name in (*_ELEMENT_TYPES, *_RUN)}
        self._one = _selection(own, _ELEMENT_TYPES, paths)
        self._many = _selection([*own, *_RUN], {**_ELEMENT_TYPES, "count": int, "step": int}, paths)
        self._shared = _selection(shared, _SHARED_TYPES, SHARED_PATHS) if shared else None

    def shared(self, spec: JobSpec, key: ClassKey, resreq: str) -> bytes:
        """Return the rendered half that all rows of this spec and class have alike."""
        if self._shared is None:
            return b"}"
        return b"," + _ENCODER.encode(self._shared(Common(spec, key, resreq)))[1:]

    def render(self, elements: Iterable[Element], shared: bytes) -> list[bytes]:
        """Return each row as JSON; ``shared`` is what `shared` gave."""
        one, many, encode = self._one, self._many, _ENCODER.encode
        return [
            encode(one(item) if item.count == 1 else many(item))[:-1] + shared for item in elements
        ]


def _selection(
    names: Sequence[str], types: dict[str, Any], paths: dict[str, str]
) -> Callable[[Any], msgspec.Struct]:
    """Return a function that makes a struct of the members ``names``, read along ``paths``."""
    kind = msgspec.defstruct("Row", [(name, types[name]) for name in names], gc=False)
    if len(names) == 1:
        single = attrgetter(paths[names[0]])
        return lambda item: kind(single(item))
    several = attrgetter(*(paths[name] for name in names))
    return lambda item: kind(*several(item))
