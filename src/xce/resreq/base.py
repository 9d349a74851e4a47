"""The requirement of an application profile under a job's own: what it says binds, a job adds.

``select`` and ``same`` of both hold; ``order`` keys of the profile come after the job's; ``rusage``
of the profile holds for the resources that the job does not name; of ``span``, ``cu`` and
``affinity`` a job may say only what the profile leaves open. The parts of a compound request get
the profile's ``select``.
"""

from itertools import product

from msgspec.structs import replace

from xce.resreq import ast
from xce.resreq.errors import ResreqError


def with_base(tree: ast.Requirement, base: ast.Requirement) -> ast.Requirement:
    """Return a job's settled requirement with the profile's settled one under it.

    Raises:
        ResreqError: They contradict each other.
    """
    if base == ast.Simple():
        return tree
    if not isinstance(base, ast.Simple):
        if tree != ast.Simple():
            raise ResreqError(
                "the application profile has a compound or alternative requirement, which stands "
                "alone: leave -R out",
                column=1,
            )
        return base
    match tree:
        case ast.Simple():
            return _joined(tree, base)
        case ast.Compound():
            return _selected(tree, base)
        case ast.Alternatives(choices):
            return ast.Alternatives(
                tuple(
                    replace(
                        choice,
                        requirement=_joined(choice.requirement, base)
                        if isinstance(choice.requirement, ast.Simple)
                        else _selected(choice.requirement, base),
                    )
                    for choice in choices
                )
            )


def _joined(own: ast.Simple, base: ast.Simple) -> ast.Simple:
    for name in ("span", "cu", "affinity"):
        mine, theirs = getattr(own, name), getattr(base, name)
        if mine is not None and theirs is not None and mine != theirs:
            raise ResreqError(
                f"{name}[] of the application profile binds: leave it out of -R", word=name
            )
    return ast.Simple(
        select=_both(own.select, base.select),
        order=(*own.order, *(key for key in base.order if key not in own.order)),
        rusage=_rusage(own.rusage, base.rusage),
        span=own.span or base.span,
        same=tuple(dict.fromkeys((*own.same, *base.same))),
        cu=own.cu or base.cu,
        affinity=own.affinity or base.affinity,
    )


def _selected(own: ast.Compound, base: ast.Simple) -> ast.Compound:
    parts = tuple(
        replace(part, simple=replace(part.simple, select=_both(part.simple.select, base.select)))
        for part in own.parts
    )
    return replace(own, parts=parts)


def _both(own: ast.Expression | None, base: ast.Expression | None) -> ast.Expression | None:
    if own is None or base is None:
        return own or base
    parts: list[ast.Expression] = []
    for one in (own, base):
        parts += one.parts if isinstance(one, ast.And) else (one,)
    return ast.And(tuple(parts))


def _rusage(own: ast.Rusage | None, base: ast.Rusage | None) -> ast.Rusage | None:
    """Return the job's amounts, and the profile's of resources that it does not name."""
    if own is None or base is None:
        return own or base
    groups = []
    for mine, theirs in product(own.groups, base.groups):
        named = {item.name for part in mine for item in part.items}
        rest = tuple(
            replace(part, items=items)
            for part in theirs
            if (items := tuple(item for item in part.items if item.name not in named))
        )
        groups.append((*mine, *rest))
    return ast.Rusage(tuple(dict.fromkeys(groups)))
