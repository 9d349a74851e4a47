"""Instants as LSF's job report prints them."""

import time

from xce.model.ids import SECOND_US, Micros


def render_date(at_us: Micros) -> str:
    """Return an instant in this machine's own zone, as ``date`` prints it."""
    return time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(at_us / SECOND_US))
