"""``queues.yaml``: the queues, which one is the default, and whether their limits make sense."""

from typing import Any

import msgspec

from xce.config.document import Place, each_item, read_mapping
from xce.config.report import render_allowed
from xce.config.schema import LIMITS, QUEUE
from xce.model.config import HostConfig, QueueConfig
from xce.model.load import SIZES
from xce.model.process_limits import ProcessLimits

QUEUES_MAX = 1_000


def read_queues(place: Place | None, hosts: dict[str, HostConfig]) -> dict[str, QueueConfig] | None:
    """Return the queues by name; None when the file is not there and the built-in one holds."""
    if place is None:
        return None
    queues: dict[str, QueueConfig] = {}
    items = list(each_item(place, "queues"))
    if len(items) > QUEUES_MAX:
        place.problem(f"more than {QUEUES_MAX} queues")
        return queues
    default = ""
    places: list[tuple[Place, QueueConfig]] = []
    for item in items:
        fields = read_mapping(item, QUEUE)
        _check_hosts(item, fields, hosts)
        name = fields.get("name")
        if name is None:
            continue
        queue = msgspec.convert(take_limits(fields), QueueConfig)
        if name in queues:
            item.problem(f"queue {name!r} is defined twice")
        if queue.default and default:
            item.problem(f"queue {name!r} is a second default; {default!r} is one already")
        default = name if queue.default else default
        _check_limits(item, queue)
        queues[name] = queue
        places.append((item, queue))
    for item, queue in places:
        _check_preempt(item, queue, queues)
    if len(queues) == 1 and not default:
        (only,) = queues.values()
        return {only.name: msgspec.structs.replace(only, default=True)}
    if len(queues) > 1 and not default:
        place.problem("no queue is the default: give one of them 'default: true'")
    return queues or None


def take_limits(fields: dict[str, Any]) -> dict[str, Any]:
    """Return fields of a queue or profile with its process limits as one of them."""
    members = {key.field for key in LIMITS.values()}
    rest = {name: value for name, value in fields.items() if name not in members}
    limits = {name: fields[name] for name in members if name in fields}
    return {**rest, "limits": ProcessLimits(**limits)} if limits else rest


def _check_hosts(item: Place, fields: dict[str, Any], hosts: dict[str, HostConfig]) -> None:
    """Report hosts that are not defined."""
    for name in fields.get("hosts", ()):
        if name not in hosts:
            item.inner("hosts", item.node).problem(
                f"host {name!r} is not defined in hosts.yaml; {render_allowed(name, hosts)}"
            )


def _check_preempt(item: Place, mine: QueueConfig, queues: dict[str, QueueConfig]) -> None:
    """Report queues that cannot give way: only those of lower priority do, so nobody goes round."""
    for name in mine.preempt:
        other = queues.get(name)
        if other is None:
            item.problem(f"preempt: queue {name!r} is not defined; {render_allowed(name, queues)}")
        elif other.priority >= mine.priority:
            item.problem(
                f"preempt: the priority of queue {name!r}, {other.priority}, is not below "
                f"{mine.priority}, that of {mine.name!r}"
            )


def check_load(place: Place | None, interval: Place | None) -> None:
    """Report thresholds of load, as ``load_interval_s`` is 0: they would do nothing.

    Args:
        place: The queues; nothing else is wrong with them.
        interval: ``xce.yaml``.
    """
    if place is None or interval is None:
        return
    where = interval.at("load_interval_s")
    # What is not reserved of a size is known without a measurement.
    for key, without in (("load_sched", SIZES), ("load_stop", ())):
        for item in each_item(place, "queues"):
            found = item.at(key)
            if found.node is item.node or all(
                name.value in without for name, _ in found.node.value
            ):
                continue
            found.problem(
                "does nothing where no load is recorded: remove it, or let load_interval_s in "
                f"{where.file}:{where.line} be more than 0, as in 15s"
            )


def _check_limits(item: Place, queue: QueueConfig) -> None:
    """Report limits that contradict each other."""
    if queue.run_limit_us and queue.default_run_limit_us > queue.run_limit_us:
        item.problem(f"queue {queue.name!r}: default_run_limit is above run_limit")
    if queue.overrun_us and queue.underrun_us > queue.overrun_us:
        item.problem(f"queue {queue.name!r}: underrun is above overrun")
    if queue.limits.cpu_us and queue.default_cpu_limit_us > queue.limits.cpu_us:
        item.problem(f"queue {queue.name!r}: default_cpu_limit is above cpu_limit")
    if queue.tasks_max and queue.tasks_min > queue.tasks_max:
        item.problem(f"queue {queue.name!r}: tasks_min is above tasks_max")
