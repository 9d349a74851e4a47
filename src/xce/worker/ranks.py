"""The ranks of a job: which task is on which host and of which role; what variables tell. Pure."""

import hashlib
from typing import Final, NamedTuple

from xce.model.effect import Launch
from xce.model.ids import Index, JobId

HOSTS_MAX_BYTES: Final = 100_000
"""A longer list of hosts is left out of the environment: the kernel takes 128 KiB a variable."""
PORT_FIRST: Final = 15_000
PORTS: Final = 17_000
"""Below 32768, from where on the kernel gives ports to whoever dials."""
NO_ROLE: Final = "-"
"""What the rank file says where a job has no roles."""


class Row(NamedTuple):
    """Tasks that stand side by side: neighbours in rank order, of one role and on one host."""

    role: str
    """Empty: the job has no roles."""
    host: str
    tasks: int


def rows_of(launch: Launch) -> list[Row]:
    """Return all tasks of a job in rank order."""
    if launch.rows:
        return [Row(*row) for row in launch.rows]
    return [Row("", host, tasks) for host, tasks in launch.hosts]


def slots_by_host(launch: Launch) -> dict[str, int]:
    """Return the slots on each host, in the order in which the hosts come first."""
    found: dict[str, int] = {}
    for host, slots in launch.hosts:
        found[host] = found.get(host, 0) + slots
    return found


def hostfile_text(launch: Launch, *, grouped: bool) -> str:
    """Return one host name a line for each slot, grouped by host or in rank order."""
    hosts = slots_by_host(launch).items() if grouped else launch.hosts
    return "".join(f"{host}\n" * count for host, count in hosts)


def rankfile_text(launch: Launch) -> str:
    """Return a line for each task: rank, host, place among its host's tasks, role, place in it."""
    lines: list[str] = []
    on_host: dict[str, int] = {}
    in_role: dict[str, int] = {}
    for role, host, tasks in rows_of(launch):
        for _ in range(tasks):
            place, number = on_host.get(host, 0), in_role.get(role, 0)
            lines.append(f"{len(lines)} {host} {place} {role or NO_ROLE} {number}\n")
            on_host[host], in_role[role] = place + 1, number + 1
    return "".join(lines)


def is_parallel(launch: Launch) -> bool:
    """Whether a job has more than one task, or tasks that are told apart by roles."""
    return bool(launch.rows) or len(launch.hosts) > 1 or any(slots > 1 for _, slots in launch.hosts)


def role_environment(launch: Launch) -> dict[str, str]:
    """Return the variables about roles, as the job's first task has them."""
    rows = rows_of(launch)
    found = {"XCE_RANK": "0"}
    if not rows or not rows[0].role:
        return found
    found["XCE_ROLE"], found["XCE_ROLE_INDEX"] = rows[0].role, "0"
    hosts: dict[str, list[str]] = {}
    for role, host, tasks in rows:
        hosts.setdefault(role, []).extend([host] * tasks)
    for role, names in hosts.items():
        text = " ".join(names)
        if len(text) <= HOSTS_MAX_BYTES:
            found[f"XCE_HOSTS_{role}"] = text
    return found


def meeting_port(launch: Launch, index: Index, attempt: int) -> int:
    """Return the port at which the tasks of one attempt may meet: always the same one."""
    return port_of(launch.cluster, launch.job, index, attempt)


def port_of(cluster: str, job: JobId, index: Index, attempt: int) -> int:
    """Return the port that follows from which attempt it is."""
    name = f"{cluster}/{job}.{index}.{attempt}"
    digest = hashlib.blake2b(name.encode(), digest_size=4).digest()
    return PORT_FIRST + int.from_bytes(digest, "big") % PORTS
