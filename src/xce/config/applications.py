"""``applications.yaml``: the application profiles, and whether their limits make sense."""

import msgspec

from xce.config.document import Place, each_item, read_mapping
from xce.config.queues import take_limits
from xce.config.report import render_allowed
from xce.config.schema import APPLICATION
from xce.model.config import AppConfig, ClusterConfig
from xce.model.errors import TextError
from xce.resreq.compile import compile_request

APPLICATIONS_MAX = 1_000


Profiles = dict[str, tuple[AppConfig, Place]]
"""By name: a profile and where it stands."""


def read_applications(place: Place | None) -> Profiles:
    """Return the application profiles."""
    found: Profiles = {}
    if place is None:
        return found
    items = list(each_item(place, "applications"))
    if len(items) > APPLICATIONS_MAX:
        place.problem(f"more than {APPLICATIONS_MAX} application profiles")
        return found
    for item in items:
        fields = read_mapping(item, APPLICATION)
        name = fields.get("name")
        if name is None:
            continue
        if name in found:
            item.problem(f"application profile {name!r} is defined twice")
        app = msgspec.convert(take_limits(fields), AppConfig)
        if app.tasks_max and app.tasks_min > app.tasks_max:
            item.problem(f"application profile {name!r}: tasks_min is above tasks_max")
        found[name] = (app, item)
    return found


def check_default(xce: Place | None, default: str, profiles: Profiles) -> None:
    """Report a default profile that is not there."""
    if default and default not in profiles and xce is not None:
        allowed = render_allowed(default, profiles)
        xce.problem(f"default_application: {default!r} is not defined; {allowed}")


def check_requirements(profiles: Profiles, config: ClusterConfig) -> None:
    """Report requirements that cannot be read, now that it is known which resources there are."""
    for app, item in profiles.values():
        try:
            if app.resreq:
                compile_request((app.resreq,), config=config, unit=config.lsf_unit_for_limits)
        except TextError as error:
            item.problem(f"resreq: {error.message}")
