"""Which resources a request asks for in ``rusage[]``."""

from xce.model.request import Request
from xce.resreq import ast
from xce.resreq.tree import tree_of


def resources_used(request: Request) -> tuple[tuple[str, ...], ...]:
    """Return the resources that ``rusage[]`` names, one tuple for each alternative.

    Of a compound request they are those of all parts together. Empty: nothing is asked for.
    """
    tree = tree_of(request)
    if isinstance(tree, ast.Alternatives):
        found = [_names(choice.requirement) for choice in tree.choices]
    else:
        found = [_names(tree)]
    return tuple(found) if any(found) else ()


def _names(tree: ast.Simple | ast.Compound) -> tuple[str, ...]:
    simples = [tree] if isinstance(tree, ast.Simple) else [part.simple for part in tree.parts]
    names: dict[str, None] = {}
    for simple in simples:
        for group in simple.rusage.groups if simple.rusage is not None else ():
            for part in group:
                names.update(dict.fromkeys(item.name for item in part.items))
    return tuple(names)
