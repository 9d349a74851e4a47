"""Which resources a request asks for in ``rusage[]``."""

from xce.model.request import Request
from xce.resreq.gpu import rusage_part


def resources_used(request: Request) -> tuple[tuple[str, ...], ...]:
    """Return the resources that ``rusage[]`` names, one tuple for each alternative.

    Of a compound request they are those of all parts together. Empty: nothing is asked for.
    """
    wholes = [one.request for one in request.alternatives] or [request]
    found = tuple([tuple(dict.fromkeys(_names(whole))) for whole in wholes])
    return found if any(found) else ()


def _names(request: Request) -> list[str]:
    names = [amount.resource for amount in request.amounts]
    names += [threshold.resource for threshold in request.thresholds]
    if request.gpu is not None:
        names += [item.name for item in rusage_part(request.gpu).items]
    for part in request.parts:
        names += _names(part.request)
    return names
