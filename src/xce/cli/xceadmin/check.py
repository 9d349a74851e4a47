"""`xceadmin check`: whether a directory of configuration files can be used, and what it says."""

import json
import sys
from pathlib import Path

from xce.daemon.config_directory import load_config
from xce.daemon.paths import find_layout
from xce.daemon.settings import Settings
from xce.model.config import ClusterConfig
from xce.model.errors import ConfigError


def run_check(settings: Settings, directory: str | None, *, as_json: bool) -> int:
    """Check the files and print every problem with file, line, key; return the exit status."""
    path = Path(directory) if directory else find_layout(settings.state_dir).config
    if not path.is_dir():
        fault = "is no directory" if path.exists() else "does not exist"
        print(f"xceadmin check: {path} {fault}; `xce up` makes a configuration", file=sys.stderr)
        return 1
    try:
        config = load_config(path)
    except ConfigError as error:
        problems = str(error).splitlines()
        if as_json:
            print(json.dumps({"ok": False, "directory": str(path), "problems": problems}))
        else:
            print("\n".join(problems), file=sys.stderr)
        count = len(problems)
        print(f"{path}: {count} problem{'' if count == 1 else 's'} found", file=sys.stderr)
        return 1
    if as_json:
        print(json.dumps({"ok": True, "directory": str(path), "problems": []}))
    else:
        print(f"{path}: no problems found\n{render_summary(config)}")
    return 0


def problems_in(root: str) -> list[str]:
    """Return what is wrong with the configuration files of a state directory."""
    try:
        load_config(find_layout(Path(root)).config)
    except ConfigError as error:
        return str(error).splitlines()
    return []


def summary_of(root: str) -> str:
    """Return what the configuration of a state directory means, in a few lines."""
    return render_summary(load_config(find_layout(Path(root)).config))


def render_summary(config: ClusterConfig) -> str:
    """Return what a configuration means, in a few lines."""
    default = next((queue.name for queue in config.queues if queue.default), "none")
    closed = sum(host.closed for host in config.hosts)
    pools = ", ".join(f"{pool.name} {pool.total}" for pool in config.pools)
    lines = [
        f"cluster  {config.cluster_name}",
        f"hosts    {len(config.hosts)}" + (f", {closed} of them closed" if closed else ""),
        f"queues   {', '.join(queue.name for queue in config.queues)} (default: {default})",
    ]
    lines += [f"pools    {pools}"] if pools else []
    for item in config.resources:
        unit = f" in {item.unit}" if item.unit else ""
        lines.append(f"resource {item.name} ({item.kind}{unit}) {item.description}".rstrip())
    return "\n".join(lines)
