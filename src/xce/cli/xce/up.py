"""`xce up`: start the cluster of this machine, or go on with one, and wait until it is ready."""

import os
import shlex
import subprocess
import sys
import time
from typing import NamedTuple

from xce.cli.xce.cluster import (
    NODE_MANAGER,
    ClusterFace,
    ask_ready,
    joined_hosts,
    load_daemons,
    load_places,
    render_log_tail,
    render_mode,
    render_places,
    running_daemons,
)
from xce.cli.xce.environment import render_how_to_go_on
from xce.cli.xce.progress import Progress
from xce.daemon.components import (
    command_line,
    local_hosts,
    node_manager_arguments,
    plan_components,
)
from xce.daemon.config_directory import load_config
from xce.daemon.fresh_config import HostsWanted, write_fresh_config
from xce.daemon.paths import Layout, StateDirectoryError, open_layout
from xce.daemon.processes import end_processes
from xce.daemon.settings import Settings
from xce.model.errors import ConfigError

FAILURES_MAX = 4
"""So many failed starts in a row of one daemon, and the start as a whole has failed."""
STEADY_S = 1.0
"""After so long a daemon that answers no user counts as started."""
_LOOK_S = 0.05
_SLOW_S = 10.0
"""Off a terminal, of a start that takes no longer than that nothing is told before its end."""


class UpOptions(NamedTuple):
    """What the command line says."""

    hosts: HostsWanted
    is_foreground: bool
    timeout_s: float
    cluster_name: str = "xce"
    only: tuple[str, ...] = ()
    """Names or kinds of the daemons that run on this machine; empty: all."""


def run_up(settings: Settings, options: UpOptions) -> int:
    """Start or continue the cluster; return the exit status."""
    try:
        layout = open_layout(settings.state_dir)
        runs = NODE_MANAGER in running_daemons(layout)
        if runs and options.hosts.is_given:
            print(
                "xce up: the cluster is up already; to change its hosts: xce down, then xce up "
                "with these options",
                file=sys.stderr,
            )
            return 1
        write_fresh_config(layout.config, options.hosts, cluster_name=options.cluster_name)
        config = load_config(layout.config)
        components = plan_components(layout.root, local_hosts(config), options.only)
    except (StateDirectoryError, ConfigError, OSError) as error:
        print(f"xce up: {error}", file=sys.stderr)
        return 1
    if options.is_foreground and not runs:
        return _run_foreground(layout, options.only)
    if not runs:
        _start_node_manager(layout, options.only)
    names = [one.name for one in components]
    if "apiserver" not in names:
        return _wait_for_daemons(layout, names, options, is_new=not runs)
    here = [name.removeprefix("worker-") for name in names if name.startswith("worker-")]
    return _wait(settings, layout, here, options, is_new=not runs)


def _wait_for_daemons(layout: Layout, names: list[str], options: UpOptions, *, is_new: bool) -> int:
    """Wait until daemons run that answer no user; return the exit status."""
    deadline_s = time.monotonic() + options.timeout_s
    while time.monotonic() < deadline_s:
        trouble = _find_trouble(layout, grace_over=deadline_s - time.monotonic() < 5)
        if trouble is not None:
            return _give_up(layout, trouble, is_new=is_new)
        steady = [
            one.name
            for one in load_daemons(layout)
            if one.running and time.time() - one.since_at > STEADY_S
        ]
        if set(names) <= set(steady):
            print(f"running here: {', '.join(names)}\nstate:        {layout.root}")
            return 0
        time.sleep(_LOOK_S)
    print(f"xce up: not steady after {options.timeout_s:.0f} s; see `xce logs`", file=sys.stderr)
    return 1


def _run_foreground(layout: Layout, only: tuple[str, ...]) -> int:
    """Become the node manager."""
    print("running in the foreground: Ctrl-C ends the daemons, jobs go on", flush=True)
    words = command_line(node_manager_arguments(layout.root, only))
    os.execv(words[0], words)


def _start_node_manager(layout: Layout, only: tuple[str, ...]) -> None:
    """Start the node manager in a session of its own."""
    mode = 0o644 if os.geteuid() == 0 else 0o600
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    log = os.open(layout.log_file(NODE_MANAGER), flags, mode)
    try:
        subprocess.Popen(
            command_line(node_manager_arguments(layout.root, only)),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            cwd="/",
        )
    finally:
        os.close(log)


def _wait(
    settings: Settings, layout: Layout, hosts: list[str], options: UpOptions, *, is_new: bool
) -> int:
    """Wait until all is ready, telling how far it is; return the exit status."""
    progress = Progress(sys.stderr, every_s=_SLOW_S)
    deadline_s = time.monotonic() + options.timeout_s
    face: ClusterFace | None = None
    try:
        while time.monotonic() < deadline_s:
            trouble = _find_trouble(layout, grace_over=deadline_s - time.monotonic() < 5)
            if trouble is not None:
                progress.close()
                return _give_up(layout, trouble, is_new=is_new)
            face = ask_ready(layout)
            joined = joined_hosts(face, hosts)
            if face is not None and len(joined) == len(hosts):
                progress.close()
                print(_render_ready(settings, layout, face, is_new=is_new))
                return 0
            progress.show(_render_state(layout, face, len(joined), len(hosts)))
            time.sleep(_LOOK_S)
    except KeyboardInterrupt:
        progress.close()
        down = (
            "xce down" if settings.is_default else f"xce down --dir {shlex.quote(str(layout.root))}"
        )
        print(f"xce up: interrupted; the daemons go on starting; end them:  {down}")
        return 130
    progress.close()
    missing = sorted(set(hosts) - set(joined_hosts(face, hosts)))
    what = f"hosts that have not joined: {', '.join(missing[:8])}" if face else "it does not answer"
    print(f"xce up: not ready after {options.timeout_s:.0f} s ({what})", file=sys.stderr)
    print("the daemons go on starting; see `xce status` and `xce logs`", file=sys.stderr)
    return 1


def _find_trouble(layout: Layout, *, grace_over: bool) -> str | None:
    """Return the component that cannot be started, or None."""
    for daemon in load_daemons(layout):
        if daemon.failures >= FAILURES_MAX or (grace_over and daemon.failures >= 2):
            return daemon.name
    if NODE_MANAGER in running_daemons(layout):
        return None
    time.sleep(0.5)  # it may not have been seen yet
    return None if NODE_MANAGER in running_daemons(layout) else NODE_MANAGER


def _give_up(layout: Layout, component: str, *, is_new: bool) -> int:
    """Tell which daemon does not start and why; leave nothing half started."""
    states = {daemon.name: daemon for daemon in load_daemons(layout)}
    last_exit = states[component].last_exit if component in states else "ended"
    print(f"xce up: {component} does not start ({last_exit}); its log ends:", file=sys.stderr)
    print(render_log_tail(layout, component), file=sys.stderr)
    print(f"whole log: {layout.log_file(component)}", file=sys.stderr)
    if is_new and (manager := running_daemons(layout).get(NODE_MANAGER)) is not None:
        end_processes([manager], grace_s=60)
        print("the other daemons were ended again", file=sys.stderr)
    return 1


def _render_state(layout: Layout, face: ClusterFace | None, joined: int, wanted: int) -> str:
    """Return one line about how far the start is."""
    daemons = load_daemons(layout)
    if face is not None:
        return f"controller answers; {joined} of {wanted} hosts joined"
    running = sum(daemon.running for daemon in daemons)
    return f"starting: {running} of {len(daemons) or '?'} daemons run"


def _render_ready(settings: Settings, layout: Layout, face: ClusterFace, *, is_new: bool) -> str:
    """Return what a person wants to know of a cluster that is up."""
    joined = [row for row in face.hosts if row.get("status") != "unavail"]
    names = ", ".join(row["name"] for row in joined[:8]) or "no host yet"
    slots = sum(int(row.get("slots_max") or 0) for row in joined)
    more = f", ... ({len(joined)} in all)" if len(joined) > 8 else ""
    up = f"cluster {face.name} is {'up' if is_new else 'up already'}"
    lines = [
        f"{up}: {names}{more}; {slots} slots"
        if face.hosts
        else f"{up}, but has no host: name some in {layout.config / 'hosts.yaml'} (or remove that "
        "file to have it written anew), then xce down and xce up",
        f"state:      {layout.root}",
    ]
    missing = len(face.hosts) - len(joined)
    if missing:
        lines.append(f"to come:    {missing} hosts of other machines have not joined")
    for text in sorted({str(row.get("isolation") or "") for row in face.hosts} - {""}):
        lines.append(f"isolation:  {text}")
    lines += [*render_places(load_places(layout)), *render_mode(face.mode)]
    return "\n".join([*lines, *render_how_to_go_on(settings)])
