"""What the cluster has, to tell names that do not exist."""

from collections.abc import Mapping
from typing import Final

import msgspec

from xce.client.cluster import open_api
from xce.client.rest import ProblemError, UnreachableError
from xce.model.config import ClusterConfig, PoolConfig, ResourceConfig

OFFLINE: Final = "queues, hosts and resources were not judged, since no cluster answered"


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """What is there; all empty where no cluster answered."""

    trouble: str = ""
    """Why there is nothing; empty: a cluster answered."""
    config: ClusterConfig = ClusterConfig()
    """Its resources; of the rest only what is asked for here."""
    queues: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    """Their names, and those of their groups: the domains of the topology."""
    default_queue: str = ""
    applications: frozenset[str] = frozenset()


class _About(msgspec.Struct):
    """``GET /cluster``."""

    default_queue: str = ""
    unit_for_limits: str = "MB"
    parse_script: bool = True
    max_array_size: int = ClusterConfig().max_array_size
    resources: tuple[ResourceConfig, ...] = ()
    pools: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()
    applications: tuple[str, ...] = ()


class _Named(msgspec.Struct):
    name: str


class _Group(_Named):
    kind: str


class _Groups(msgspec.Struct):
    groups: list[_Group] = []


class _Queues(msgspec.Struct):
    queues: list[_Named] = []


class _Hosts(msgspec.Struct):
    hosts: list[_Named] = []


def load_cluster(environ: Mapping[str, str], *, wait_s: float) -> Cluster:
    """Return what the cluster that the environment names has."""
    api = open_api(environ, wait_s=wait_s)
    try:
        about = msgspec.convert(api.call("GET", "/cluster"), _About)
        queues = msgspec.convert(api.call("GET", "/queues"), _Queues).queues
        hosts = msgspec.convert(api.call("GET", "/hosts"), _Hosts).hosts
        groups = msgspec.convert(api.call("GET", "/groups"), _Groups).groups
    except (UnreachableError, ProblemError, msgspec.ValidationError) as error:
        return Cluster(trouble=str(error))
    finally:
        api.close()
    return Cluster(
        config=ClusterConfig(
            resources=about.resources,
            pools=tuple(PoolConfig(name=name, total=0) for name in about.pools),
            lsf_unit_for_limits=about.unit_for_limits,
            lsf_parse_script=about.parse_script,
            max_array_size=about.max_array_size,
            levels=about.levels,
        ),
        queues=frozenset(queue.name for queue in queues),
        hosts=frozenset(
            [host.name for host in hosts] + [one.name for one in groups if one.kind != "users"]
        ),
        default_queue=about.default_queue,
        applications=frozenset(about.applications),
    )
