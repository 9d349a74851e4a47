"""What operators make of queues beside the configuration: switches, kept until it says anew."""

from xce.model.config import ClusterConfig
from xce.model.queue_record import QueuesSwitched
from xce.state.cluster import ClusterState, Switch
from xce.state.ineligible import settle_queues


def keep_switches(state: ClusterState, config: ClusterConfig) -> None:
    """Forget what administrators made of queues that are gone or that say something new."""
    was = {queue.name: queue for queue in state.config.queues}
    now = {queue.name: queue for queue in config.queues}
    for name, switch in list(state.switches.items()):
        if name not in now:
            del state.switches[name]
            continue
        if now[name].open != was[name].open:
            switch.is_open = None
        if now[name].active != was[name].active:
            switch.is_active = None
        if switch.is_open is None and switch.is_active is None:
            del state.switches[name]


def apply_queues_switched(state: ClusterState, record: QueuesSwitched) -> None:
    """Open, close, activate or inactivate queues."""
    for name in record.queues:
        switch = state.switches.setdefault(name, Switch())
        switch.comment = record.comment
        if record.is_open is not None:
            switch.is_open = record.is_open
        if record.is_active is not None:
            switch.is_active = record.is_active
    state.set_queues()
    settle_queues(state)
