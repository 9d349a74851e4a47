"""What goes wrong in a world, one function for each kind of `xce.sim.faults.COUNTED`."""

from collections.abc import Callable, Iterable
from random import Random
from typing import Final

from xce.journal.recover import recover
from xce.model.ids import HOUR_US, SECOND_US, Micros
from xce.sim import workload
from xce.sim.enrol import Enrolment
from xce.sim.ground import Ground
from xce.sim.leader import Leader
from xce.sim.loop import Doom, Process
from xce.sim.parts import Parts
from xce.sim.restoration import Restoration
from xce.state.apply import apply
from xce.state.cluster import ClusterState
from xce.state.snapshot import dump, load

_TASK_DOOMS: Final = 2
"""So many of those strike together: what starts tasks is a small part of what worlds do."""
ZOMBIE_US_MAX: Final = 3 * SECOND_US
"""So long a leader that was deposed goes on when nothing tells it."""


def happen(world: Parts, kind: str, dice: Random) -> None:
    """Let something go wrong."""
    _KINDS[kind](world, dice)


def _down_us(dice: Random) -> Micros:
    return dice.choice((1_000, 200_000, 3_000_000))


def _crash_controller(world: Parts, dice: Random) -> None:
    if world.leader is not None:
        world.check_equal(world.leader.state, "the controller's")
        world.leader.kill()
        world.leader = None
        world.loop.after(_down_us(dice), world.start_leader_again)


def _promote(world: Parts, dice: Random) -> None:
    """Let a standby take over from a leader that lives on for a while and does not know it."""
    old = world.leader
    if old is not None:
        world.start_leader()
        world.loop.after(dice.randrange(ZOMBIE_US_MAX), _end_deposed, old)


def _end_deposed(old: Leader) -> None:
    if old.is_alive:
        old.kill()


def _crash_scheduler(world: Parts, dice: Random) -> None:
    if world.planner is not None:
        world.check_equal(world.planner.state, "the scheduler's")
        world.planner.kill()
        world.planner = None
        world.loop.after(_down_us(dice), world.start_planner)


def _crash_worker(world: Parts, dice: Random) -> None:
    ground = dice.choice(world.grounds)
    if world.workers[ground.name] is not None:
        world.end_worker(ground)
        world.loop.after(_down_us(dice), world.restart_worker, ground, ground.boot)


def _crash_shepherd(world: Parts, dice: Random) -> None:
    ground = dice.choice(world.grounds)
    if ground.shepherd is not None:
        world.end_shepherd(ground)
        world.loop.after(_down_us(dice), world.restart_shepherd, ground, ground.boot)


def _crash_at_seam(world: Parts, dice: Random) -> None:
    """Let a process die at a place in its shell to which it comes soon."""
    for _ in range(_TASK_DOOMS if world.has_tasks else 0):
        _crash_at_task_seam(world, dice)
    ground = dice.choice(world.grounds)
    victims: tuple[tuple[Process | None, str], ...] = (
        (world.leader, "controller"),
        (world.planner, "scheduler"),
        (world.workers[ground.name], "worker"),
        (ground.shepherd, "shepherd"),
    )
    victim, process = dice.choice(victims)
    if victim is not None:
        victim.doom = Doom(dice.choice(SEAMS[process]), dice.choice((1, 1, 1, 2, 3, 5)))


def _crash_at_task_seam(world: Parts, dice: Random) -> None:
    """Let the process die that is the next to come to a place about remote tasks."""
    process, seam = dice.choice([(one, seam) for one, own in TASK_SEAMS.items() for seam in own])
    victims: dict[str, Iterable[Process | None]] = {
        "controller": (world.leader,),
        "worker": world.workers.values(),
        "shepherd": (ground.shepherd for ground in world.grounds),
    }
    doom = Doom(seam, dice.choice((1, 1, 1, 2, 3, 5)))
    for victim in victims[process]:
        if victim is not None:
            victim.doom = doom


def _reboot(world: Parts, dice: Random) -> None:
    ground = dice.choice(world.grounds)
    _stop_host(world, ground)
    _boot(world, ground, _down_us(dice))


def _stop_host(world: Parts, ground: Ground) -> None:
    world.end_worker(ground)
    if ground.shepherd is not None:
        ground.shepherd.kill()
    ground.reboot()
    world.truth.note_reboot(ground.name)


def _boot(world: Parts, ground: Ground, span_us: Micros) -> None:
    world.loop.after(span_us, world.restart_shepherd, ground, ground.boot)
    world.loop.after(span_us, world.restart_worker, ground, ground.boot)


def _cut_off(world: Parts, dice: Random) -> None:
    """Let a host be out of reach, for less or for more than its grace."""
    span_us = dice.randrange(2 * SECOND_US, 20 * SECOND_US)
    world.network.part(dice.choice(world.grounds).name, span_us)


def _lose_power(world: Parts, dice: Random) -> None:
    ground = dice.choice(world.grounds)
    _stop_host(world, ground)
    _boot(world, ground, dice.randrange(20 * SECOND_US))


def _declare_lost(world: Parts, dice: Random) -> None:
    table = world.truth.state.hosts
    away = [table.names[number] for number in table.away]
    if away:
        world.admin.declare_lost((dice.choice(away),))


def _cut(world: Parts, dice: Random) -> None:
    world.network.cut_one(dice)


def _names(world: Parts) -> list[str]:
    return [*(host.name for host in world.config.hosts), "scheduler", "alice"]


def _part(world: Parts, dice: Random) -> None:
    world.network.part(dice.choice(_names(world)), dice.randrange(5 * SECOND_US))


def _deafen(world: Parts, dice: Random) -> None:
    """Let a peer hear the controller and not be heard, or the other way round."""
    name = dice.choice(_names(world))
    longest_us = (12 if name in world.workers else 5) * SECOND_US
    span_us = dice.choice((SECOND_US // 2, 2 * SECOND_US, longest_us))
    world.network.deafen(name, span_us, side=dice.randrange(2), heals=dice.random() < 0.6)


def _fill_disk(world: Parts, dice: Random) -> None:
    world.disk.is_failing = True
    world.loop.after(dice.randrange(4 * SECOND_US), _free_disk, world)


def _free_disk(world: Parts) -> None:
    world.disk.is_failing = False


def _slow_disk(world: Parts, dice: Random) -> None:
    world.disk.slow_until_us = world.loop.now_us + dice.randrange(5 * SECOND_US)


def _jump(world: Parts, dice: Random) -> None:
    world.wall_shift_us += dice.choice((-HOUR_US, -HOUR_US, 30 * SECOND_US, -SECOND_US))


def _snapshot(world: Parts, dice: Random) -> None:
    del dice
    disk = world.disk
    state, seq, crc = recover(disk, restore=load, empty=ClusterState, apply_entry=apply)
    if seq:
        disk.store_snapshot(seq, crc, dump(state))


def _close_host(world: Parts, dice: Random) -> None:
    world.admin.open_hosts((dice.choice(world.grounds).name,), is_open=False)
    world.admin.switch_queues((dice.choice(world.config.queues).name,), is_active=False)
    host = dice.choice(world.config.hosts)
    world.admin.open_devices(host.name, (str(dice.randrange(len(host.gpus or ()))),), is_open=False)


def _grow(world: Parts, dice: Random) -> None:
    world.config = workload.grow(dice, world.config)
    world.keeper.configure(lambda: world.config)


# Trust.


def _revoke(world: Parts, dice: Random) -> None:
    ground = dice.choice(world.grounds)
    certificate = world.keyring.certificate(ground.name)
    world.keeper.revoke(world.keyring.key(ground.name))
    world.loop.after(dice.randrange(4 * SECOND_US), world.renew_key, ground.name)
    if dice.random() < 0.3:  # somebody finds it again, and does not know
        world.loop.after(
            dice.randrange(3 * SECOND_US), world.keeper.trust, certificate, ground.name
        )


def _expire(world: Parts, dice: Random) -> None:
    ground = dice.choice(world.grounds)
    for_us = dice.randrange(1, 3 * SECOND_US)
    world.keeper.trust(world.keyring.certificate(ground.name), ground.name, for_us=for_us)
    world.loop.after(dice.randrange(6 * SECOND_US), world.renew_key, ground.name)


def _repeat(world: Parts, dice: Random) -> None:
    del dice
    if world.leader is not None:
        world.eavesdropper.repeat(world.network.wires)


def _enrol(world: Parts, dice: Random) -> None:
    Enrolment(world, dice.choice(world.grounds).name, dice)


def _back_up(world: Parts, dice: Random) -> None:
    Restoration(world, dice)


_KINDS: Final[dict[str, Callable[[Parts, Random], None]]] = {
    "controller_crashes": _crash_controller,
    "scheduler_crashes": _crash_scheduler,
    "worker_crashes": _crash_worker,
    "shepherd_crashes": _crash_shepherd,
    "reboots": _reboot,
    "cuts": _cut,
    "partitions": _part,
    "disk_troubles": _fill_disk,
    "clock_jumps": _jump,
    "snapshots": _snapshot,
    "closures": _close_host,
    "growths": _grow,
    "cutoffs": _cut_off,
    "outages": _lose_power,
    "declarations": _declare_lost,
    "promotions": _promote,
    "seam_crashes": _crash_at_seam,
    "one_ways": _deafen,
    "slow_spells": _slow_disk,
    "revocations": _revoke,
    "expiries": _expire,
    "repeats": _repeat,
    "enrolments": _enrol,
    "restores": _back_up,
}
SEAMS: Final[dict[str, tuple[str, ...]]] = {
    "controller": (
        "turn", "decided", "written", "durable", "follower told", "joins told", "effects told",
        "answered", "accepted", "welcomed", "heard", "tick", "trouble told",
    ),
    "scheduler": ("welcomed", "batch came", "entry applied", "planned", "proposed", "answered"),
    "worker": (
        "shepherd found", "list taken", "news came", "news taken", "order given", "welcomed",
        "joined", "effects came", "effects taken", "reported", "reports taken", "beat",
    ),
    "shepherd": ("ordered", "started", "told", "signalled", "suspended", "forgotten"),
}  # fmt: skip
"""By process: the places between two acts of its shell."""
TASK_SEAMS: Final[dict[str, tuple[str, ...]]] = {
    "controller": ("task passed on",),
    "worker": ("part led", "part joined", "task answered", "part gone"),
    "shepherd": ("part noted", "task started", "saved"),
}
"""Those that are about remote tasks and checkpoints: only in worlds that have the former."""
