"""What the `xce` command sees of a cluster on this machine: its daemons, and what it answers."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from xce.client.rest import Api, ProblemError, UnreachableError
from xce.daemon.components import find_daemons
from xce.daemon.config_directory import load_site
from xce.daemon.paths import Layout
from xce.daemon.processes import ProcessId
from xce.model.errors import XceError

NODE_MANAGER = "node-manager"


class DaemonState(NamedTuple):
    """A daemon as the node manager's file tells."""

    name: str
    pid: int | None
    running: bool
    failures: int
    restarts: int
    last_exit: str
    since_at: float


class ClusterFace(NamedTuple):
    """What a cluster that can be asked says of itself."""

    name: str
    hosts: list[dict[str, Any]]
    """Rows of ``GET /hosts``."""
    mode: str = "production"
    trouble: str = ""
    """Why nothing can be written now; empty: it can."""


def open_api(layout: Layout, *, wait_s: float = 0.0) -> Api:
    """Return the REST interface of this very cluster, whatever the environment says."""
    return Api(str(layout.api_socket), wait_s=wait_s)


def ask_ready(layout: Layout) -> ClusterFace | None:
    """Return what the cluster says, or None while it cannot answer."""
    api = open_api(layout)
    try:
        ready = api.call("GET", "/ready")
        cluster = api.call("GET", "/cluster")
        hosts = api.call("GET", "/hosts")["hosts"]
    except (UnreachableError, ProblemError):
        return None
    finally:
        api.close()
    return ClusterFace(
        str(cluster["cluster"]),
        hosts,
        str(cluster.get("mode", "production")),
        str(ready.get("trouble") or ""),
    )


def render_mode(mode: str) -> list[str]:
    """Return what is said about a mode that a cluster for work must not have."""
    if mode == "production":
        return []
    return [
        f"mode:       {mode.upper()}: test tools may submit past the apiserver, and this",
        "            machine may speak without TLS. Not for work: xce.yaml says `mode: test`",
    ]


def load_places(layout: Layout) -> dict[str, str]:
    """Return where journal and history are, as the configuration says now; it holds no secret."""
    try:
        site = load_site(layout.config)
    except XceError:
        return {}
    return {
        "journal": site.journal.postgres or str(layout.journal),
        "history": site.history.postgres or str(layout.history),
    }


def render_places(places: Mapping[str, Any]) -> list[str]:
    """Return what is said about journal and history that are not in the state directory."""
    found = [(name, str(places.get(name, "/"))) for name in ("journal", "history")]
    return [f"{name}:    {place}" for name, place in found if not place.startswith("/")]


def count_running(layout: Layout) -> int | None:
    """Return how many jobs and elements run, or None when the cluster cannot be asked."""
    api = open_api(layout)
    query = [("user", "all"), ("state", "run,susp"), ("fields", "jobid,index,count")]
    count = 0
    try:
        while True:
            answer = api.call("GET", "/jobs", query)
            count += sum(int(row.get("count", 1)) for row in answer["jobs"])
            if not answer.get("next"):
                return count
            query = [*query[:3], ("cursor", str(answer["next"]))]
    except (UnreachableError, ProblemError):
        return None
    finally:
        api.close()


def load_daemons(layout: Layout) -> list[DaemonState]:
    """Return the daemons as the running node manager last wrote them down, else nothing."""
    try:
        content = json.loads(layout.node_manager_file.read_text())
    except (OSError, ValueError):
        return []
    manager = running_daemons(layout).get(NODE_MANAGER)
    if manager is None or manager.pid != content.get("pid"):
        return []  # what an earlier one has left
    return [
        DaemonState(**{name: item.get(name) for name in DaemonState._fields})
        for item in content.get("components", [])
    ]


def running_daemons(layout: Layout) -> dict[str, ProcessId]:
    """Return every daemon of this cluster that runs here, the node manager included."""
    return find_daemons(layout.root)


def joined_hosts(face: ClusterFace | None, wanted: Iterable[str]) -> list[str]:
    """Return which of the wanted hosts have joined."""
    if face is None:
        return []
    up = {row["name"] for row in face.hosts if row.get("status") not in ("unavail", "unreach")}
    return [name for name in wanted if name in up]


def render_log_tail(layout: Layout, component: str, *, lines: int = 12) -> str:
    """Return the end of a daemon's log, indented, or a word about its absence."""
    path = layout.log_file(component)
    try:
        with path.open("rb") as file:
            file.seek(0, 2)
            file.seek(max(0, file.tell() - 16_384))
            tail = file.read().decode("utf-8", "replace").splitlines()[-lines:]
    except OSError:
        tail = []
    if not tail:
        return f"    ({path} is empty)"
    return "\n".join(f"    {line[:400]}" for line in tail)
