"""Configuration files to one checked `ClusterConfig`. Pure: the caller reads the files.

All files are read before anything is refused, so that one run tells every problem.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from xce.config.api import read_api
from xce.config.applications import check_default, check_requirements, read_applications
from xce.config.document import Key, Place, Table, open_document, read_mapping
from xce.config.grace import check_grace
from xce.config.hosts import declare_sizes, read_hosts
from xce.config.mail import make_mail
from xce.config.queues import check_load, read_queues
from xce.config.report import Problem, Report, render_allowed
from xce.config.resources import read_pools, read_resources
from xce.config.roles import read_roles
from xce.config.schema import CLUSTER, FILES, FILES_NOT_BUILT, LSF, MAIL, TOPOLOGY
from xce.config.site import FILE, SITE_KEYS, SiteConfig, parse_site
from xce.config.topology import check_nesting, check_topology, lay_hosts, read_lay
from xce.model.config import LEVELS, ClusterConfig


def parse_config(files: Mapping[str, str]) -> ClusterConfig:
    """Return what the files say. Every file is optional; with none of them the defaults hold.

    Args:
        files: Text by file name, e.g. ``{"hosts.yaml": "- {names: h1}"}``.

    Raises:
        ConfigError: Something is wrong; each line of the message names file, line and key, what
            was found and what is allowed.
    """
    report = Report()
    _check_names(files, report)
    tops = {
        name: open_document(name, files[name], report) if name in files else None for name in FILES
    }
    return read_config(tops, report)


def read_config(tops: Mapping[str, Place | None], report: Report) -> ClusterConfig:
    """Return what opened files say together.

    Args:
        tops: By file name, for each of `FILES`: the top of its content; None: it is not there.
        report: Where all of them tell their problems, perhaps some already.

    Raises:
        ConfigError: As `parse_config`.
    """
    resources = read_resources(tops["resources.yaml"])
    topology = tops["topology.yaml"]
    domains = read_mapping(topology, TOPOLOGY) if topology is not None else {}
    check_topology(topology, domains)
    levels = domains.get("levels", LEVELS)
    for key in ("domains", "gpus"):
        domains.pop(key, None)
    hosts = read_hosts(tops["hosts.yaml"], resources, levels)
    hosts = lay_hosts(topology, hosts, read_lay(topology, levels))
    check_nesting(tops["hosts.yaml"] or topology, hosts, levels)
    pools = read_pools(tops["supply.yaml"], resources, tops["resources.yaml"])
    resources = declare_sizes(hosts.values(), resources)
    queues = read_queues(tops["queues.yaml"], hosts)
    names = queues or [queue.name for queue in ClusterConfig().queues]
    roles = read_roles(tops["roles.yaml"], names)
    profiles = read_applications(tops["applications.yaml"])
    is_fenced = any(app.self_fence for app, _ in profiles.values())
    fields = _read_cluster(tops["xce.yaml"], is_fenced=is_fenced)
    check_default(tops["xce.yaml"], fields.get("default_application", ""), profiles)
    report.raise_if_any()
    fields |= domains
    fields |= roles
    fields["hosts"] = tuple(hosts[name] for name in sorted(hosts))
    fields["resources"] = tuple(resources[name] for name in sorted(resources))
    fields["pools"] = tuple(pools[name] for name in sorted(pools))
    if queues is not None:
        fields["queues"] = tuple(queues[name] for name in sorted(queues))
    fields["applications"] = tuple(profiles[name][0] for name in sorted(profiles))
    config = msgspec.convert(fields, ClusterConfig)
    check_requirements(profiles, config)
    if not config.load_interval_us:
        check_load(tops["queues.yaml"], tops["xce.yaml"])
    report.raise_if_any()
    return config


def _check_names(files: Mapping[str, str], report: Report) -> None:
    """Report files that nobody would read."""
    for name in sorted(files):
        if name in FILES_NOT_BUILT:
            report.add(Problem(name, 0, "", "is not built yet in this release; remove the file"))
        elif name not in FILES:
            report.add(
                Problem(name, 0, "", f"is no configuration file; {render_allowed(name, FILES)}")
            )


def _read_cluster(place: Place | None, *, is_fenced: bool) -> dict[str, Any]:
    """Return the fields that ``xce.yaml`` gives."""
    if place is None:
        return {}
    fields = read_mapping(place, _cluster_table())
    for name in SITE_KEYS:
        fields.pop(name, None)
    check_grace(place, fields, is_fenced=is_fenced)
    lsf = fields.pop("lsf", {})
    if "mail" in fields:
        fields["mail"] = make_mail(place, fields["mail"])
    return {**fields, **lsf}


def parse_site_config(files: Mapping[str, str]) -> SiteConfig:
    """Return what ``xce.yaml`` says to the daemons alone.

    Raises:
        ConfigError: Something in that file is wrong.
    """
    return parse_site(files.get(FILE), _cluster_table())


def _cluster_table() -> Table:
    """Return all keys of ``xce.yaml``."""
    lsf = Key("lsf", lambda place: read_mapping(place, LSF))
    mail = Key("mail", lambda place: read_mapping(place, MAIL))
    keys = {**CLUSTER.keys, **SITE_KEYS, "lsf": lsf, "mail": mail, "api": Key("api", read_api)}
    return Table(CLUSTER.noun, keys, CLUSTER.required, CLUSTER.not_built)
