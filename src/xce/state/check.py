"""Every invariant of the state in one function per structure. Slow: for tests and start-up."""

from collections import Counter

import numpy as np

from xce.model.ids import HostNumber
from xce.model.job import EndCause, Phase
from xce.model.ranges import contains, count, from_runs, intersect, subtract, unite
from xce.state.cluster import ClusterState
from xce.state.hosts import Column
from xce.state.ineligible import spans
from xce.state.job import Attempt, Job
from xce.state.needs import of_pools, on_hosts


def check_state(state: ClusterState) -> None:
    """Check everything.

    Raises:
        AssertionError: An invariant does not hold; the message names the thing.
    """
    for job in state.jobs.values():
        check_job(state, job)
    check_usage(state)
    check_classes(state)
    check_indexes(state)
    check_specs(state)
    check_reservations(state)
    check_shares(state)
    check_holds(state)
    check_hosts(state)


def check_hosts(state: ClusterState) -> None:
    """A host is up, away or given up, and takes nothing while something stale runs there."""
    table = state.hosts
    for number, name in enumerate(table.names):
        is_up, is_lost = bool(table.is_up[number]), table.is_lost[number]
        is_away = number in table.away
        assert not (is_up and (is_lost or is_away)), f"host {name} is up, and is not"
        assert not (is_lost and is_away), f"host {name} is given up, and is waited for"
        assert is_away or number not in table.unasked, f"host {name} is to be asked, and is there"
        assert not is_away or table.down_at_us[number], f"host {name}: since when is it away?"
        assert bool(table.is_fencing[number]) == (number in table.stale), f"host {name}: fencing"
        assert not (is_lost and state.on_host.get(number)), f"lost host {name} has attempts"
        for job_id, index, attempt in table.stale.get(number, ()):
            live = state.attempt_of(job_id, index)
            is_stale = live is None or live.number != attempt
            assert is_stale, f"host {name}: {job_id}[{index}] is said to be stale, and lives"
        _check_strangers(state, number)
    check_traces(state)


def _check_strangers(state: ClusterState, number: HostNumber) -> None:
    """What lives is no stranger; only strangers are asked for, or refused, and not both."""
    table = state.hosts
    name, strange = table.names[number], table.strange.get(number, {})
    wanted, refused = table.adopting.get(number, {}), table.unadopted.get(number, {})
    assert wanted.keys() | refused.keys() <= strange.keys(), f"host {name}: adopts what it has not"
    assert not wanted.keys() & refused.keys(), f"host {name}: something is wanted and refused"
    for job_id, index, attempt in strange:
        live = state.attempt_of(job_id, index)
        is_ours = live is not None and live.number == attempt and number in live.hosts
        assert not is_ours, f"host {name}: {job_id}[{index}] is a stranger, and lives"


def check_job(state: ClusterState, job: Job) -> None:
    """Every element is in exactly one place, and the job is finished when none is left."""
    gone = count(tuple(sorted(run for item in job.withdrawn for run in item.ranges)))
    ended = sum(chunk.count for chunk in (job.chunks or {}).values()) + (job.ended is not None)
    total = count(job.pending) + count(job.held) + gone + ended + job.live_count
    assert total == job.size, f"job {job.id}: {total} elements in places, has {job.size}"
    assert not intersect(job.pending, job.held), f"job {job.id}: elements pend and are held"
    waits = unite(job.pending, job.held)
    assert not subtract(job.awaiting, waits), f"job {job.id}: elements await others and are over"
    doomed = from_runs(run for _, runs in job.dooms for run in runs)
    assert not subtract(doomed, job.awaiting), f"job {job.id}: elements are doomed and wait not"
    assert job.done + job.exited == gone + ended, f"job {job.id}: outcomes do not add up"
    for at, one in enumerate(job.variants):
        for other in job.variants[:at]:
            apart = not intersect(one.ranges, other.ranges)
            assert apart, f"job {job.id}: an element is in two variants"
    whole_us = max(0, state.now_us - job.submit_at_us)
    for *_, total_us in spans(state, job, ((0, job.size - 1),), state.now_us) or ():
        assert 0 < total_us <= whole_us, f"job {job.id}: ineligible for {total_us} us of {whole_us}"
    alive = bool(job.pending or job.held or job.live)
    assert job.is_finished != alive, f"job {job.id}: finished is wrong"


def check_traces(state: ClusterState) -> None:
    """Rules of what is traced have numbers of their own that were given."""
    for number, rule in state.traces.items():
        assert rule.number == number < state.next_trace, f"trace rule {number} is out of place"


def check_usage(state: ClusterState) -> None:
    """What hosts and pools say is used is the sum of what live attempts hold."""
    found = find_usage_differences(state)
    assert not found, found[0]


def find_usage_differences(state: ClusterState) -> list[str]:
    """Return where what is given out is not the sum of what live attempts hold, in words."""
    table = state.hosts
    used = np.zeros_like(table.used)
    attempts, exclusive = np.zeros_like(table.attempts), np.zeros_like(table.exclusive)
    pools = dict.fromkeys(state.pools.used, 0)
    for places in state.on_host.values():
        for job_id, position in places:
            attempt = state.attempt(job_id, position)
            if attempt is not None:
                _add_use(state, attempt, used, (attempts, exclusive), pools)
    found: list[str] = []
    for row, host in zip(*np.nonzero(used != table.used), strict=True):
        what = f"{table.resource_of(row)} on host {table.names[host]}"
        found.append(
            f"{what}: {table.used[row, host]} are given out, attempts hold {used[row, host]}"
        )
    for name, real, said in (
        ("attempts", attempts, table.attempts),
        ("exclusive attempts", exclusive, table.exclusive),
    ):
        found.extend(
            f"{name} on host {table.names[host]}: {said[host]} are counted, {real[host]} live"
            for host in np.nonzero(real != said)[0]
        )
    found.extend(
        f"pool {name}: {said} are given out, attempts hold {pools.get(name, 0)}"
        for name, said in state.pools.used.items()
        if pools.get(name, 0) != said
    )
    return found


def _add_use(
    state: ClusterState,
    attempt: Attempt,
    used: Column,
    counted: tuple[Column, Column],
    pools: dict[str, int],
) -> None:
    """Add what an attempt holds."""
    found = state.classes[attempt.cls]
    needs = found.forms[attempt.alternative].stages[attempt.returned]
    amounts = on_hosts(
        needs, attempt.hosts, attempt.tasks, attempt.parts, attempt.devices, attempt.processors,
        attempt.headless,
    )  # fmt: skip
    for host, each in amounts.items():
        used[:, host] += each
        counted[0][host] += 1
        counted[1][host] += found.key.request.exclusive
    if not found.key.request.exclusive:
        counted[1][attempt.alone] += 1
    if attempt.gave_slots:
        for host, tasks in zip(attempt.hosts, attempt.tasks, strict=True):
            used[0, host] -= tasks
    for name, value in of_pools(needs, attempt.tasks, attempt.parts).items():
        pools[name] = pools.get(name, 0) + value


def check_not_over_committed(state: ClusterState) -> None:
    """Nothing is given out beyond what there is (holds while configurations do not shrink)."""
    table = state.hosts
    beyond = (table.used > table.total) & table.is_configured
    assert not np.count_nonzero(beyond), "a host is over-committed"
    if np.count_nonzero(table.exclusive):
        assert (table.exclusive <= 1).all(), "two jobs have one host for themselves"
        alone = table.exclusive == 1
        assert (table.attempts[alone] <= 1).all(), "an exclusive host is shared"
    for name, used in state.pools.used.items():
        assert used <= state.pools.total.get(name, used), f"pool {name} is over-committed"


def what_is_given_out(state: ClusterState) -> tuple[object, ...]:
    """Return all that `check_not_over_committed` asks for."""
    table = state.hosts
    columns = table.used, table.total, table.attempts, table.exclusive, table.is_configured
    pools = dict(state.pools.used), dict(state.pools.total)
    return (*(column.tobytes() for column in columns), *pools)


def check_classes(state: ClusterState) -> None:
    """The classes' counts and waiting lists are those of their jobs."""
    expected: dict[int, list[int]] = {cls: [0, 0, 0, 0, 0] for cls in state.classes}
    for job in state.jobs.values():
        for cls, _ in job.own_forms():
            expected[cls][0] += 1
        for at, ranges in ((1, job.pending), (2, job.held)):
            for cls, _, part in job.forms(ranges):
                expected[cls][at] += count(part)
        for attempt in (job.live or {}).values():
            expected[attempt.cls][3] += 1
            expected[attempt.cls][4] += attempt.suspended
        may_start = not job.waits and state.room(job) > 0
        for cls in job.classes():
            waits = bool(job.of_class(cls, job.ready)) and may_start
            found = state.classes[cls]
            is_waiting = job.id in (found.moved if job.offset else found.waiting)
            assert waits == is_waiting, f"job {job.id}: waiting in class {cls} is {is_waiting}"
    for cls, found in state.classes.items():
        real = [found.jobs, found.pending, found.held, found.live, found.suspended]
        assert real == expected[cls], f"class {cls}: counts {real}, expected {expected[cls]}"
        assert found.jobs > 0 or found.live > 0, f"class {cls} has no jobs"
        assert (found.jobs == 0) == (cls in state.left_classes), f"class {cls}: left is wrong"
        is_waiting = state.waiting.get(cls) is found
        assert found.has_waiting == is_waiting, f"class {cls}: waiting is {is_waiting}"
    assert state.waiting.keys() <= state.classes.keys(), "a class that is gone waits"


def check_holds(state: ClusterState) -> None:
    """Room is held for elements that wait, and it adds up."""
    held = np.zeros_like(state.hosts.held)
    pools = dict.fromkeys(state.pools.held, 0)
    for (job_id, index), hold in state.holds.items():
        job = state.jobs[job_id]
        position = job.position(index)
        assert position is not None, f"room is held for element {index} of job {job_id}"
        assert contains(job.pending, position, position), f"job {job_id} pends not, room is held"
        assert job.waiting_since_us, f"job {job_id} waits not, room is held"
        needs = state.classes[hold.cls].forms[hold.alternative].needs
        each = on_hosts(needs, hold.hosts, hold.tasks, hold.parts, hold.devices)
        for host, amounts in each.items():
            held[:, host] += amounts
        for name, value in of_pools(needs, hold.tasks, hold.parts).items():
            pools[name] += value
    assert (held == state.hosts.held).all(), "hosts: held is not the sum of holds"
    assert pools == state.pools.held, "pools: held is not the sum of holds"


def check_shares(state: ClusterState) -> None:
    """Accounts hold what live attempts hold."""
    slots: dict[tuple[str, str], int] = dict.fromkeys(state.shares, 0)
    running, started = dict(slots), dict(slots)
    for job in state.jobs.values():
        for attempt in (job.live or {}).values():
            key = state.classes[attempt.cls].key
            size = sum(attempt.tasks)
            slots[key.queue, key.user] += size
            if attempt.started_at_us:
                running[key.queue, key.user] += size
                started[key.queue, key.user] += size * attempt.started_at_us
    for name, account in state.shares.items():
        real = account.slots, account.running, account.started
        expected = slots[name], running[name], started[name]
        assert real == expected, f"account {name}: holds {real}, expected {expected}"


def check_specs(state: ClusterState) -> None:
    """Each spec is there as long as it is used, and its uses are counted."""
    uses = Counter(
        spec for job in state.jobs.values() for spec in (job.spec_id, *job.other_specs())
    )
    assert uses.keys() == state.specs.keys(), "specs are kept that nobody uses, or missing"
    counted = {spec: count for spec, count in uses.items() if count > 1}
    assert counted == state.spec_uses, f"specs: uses {counted}, counted are {state.spec_uses}"


def check_reservations(state: ClusterState) -> None:
    """Only elements that wait hold a reservation, and who waits knows since when."""
    for job_id, kept in state.reservations.items():
        job = state.jobs[job_id]
        assert kept, f"job {job_id} is among the reservations and has none"
        assert job.waiting_since_us, f"job {job_id} holds a reservation and does not wait"
        for index, item in kept.items():
            assert (item.job, item.index) == (job_id, index), f"{item} is kept under another name"
            position = job.position(index)
            pends = position is not None and contains(job.pending, position, position)
            assert pends, f"element {index} of job {job_id} holds a reservation and does not pend"
    for job in state.jobs.values():
        classes = [state.classes[cls] for cls in job.classes()]
        is_waiting = any(job.id in found.waiting or job.id in found.moved for found in classes)
        assert bool(job.waiting_since_us) == is_waiting, f"job {job.id}: since when is wrong"


def check_indexes(state: ClusterState) -> None:
    """The indexes name what they should and nothing else."""
    for user, jobs in state.unfinished.items():
        for job_id in jobs:
            job = state.jobs[job_id]
            assert job.owner.user == user, f"job {job_id} is indexed under {user}"
            assert not job.is_finished, f"job {job_id} is finished and indexed as unfinished"
    total = sum(len(jobs) for jobs in state.unfinished.values())
    assert total + len(state.finished) == len(state.jobs), "jobs are missing in the indexes"
    for job in state.jobs.values():
        for position, attempt in (job.live or {}).items():
            place = (job.id, position)
            assert place in state.on_host[attempt.hosts[0]], f"{place} is not on its host"
            owes = (
                attempt.phase == Phase.STARTING
                or attempt.end_cause != EndCause.NONE
                or attempt.suspended != attempt.shall_stop
            )
            is_owed = place in state.owed.get(attempt.hosts[0], {})
            assert owes == is_owed, f"{place}: owed is {is_owed}"
    avoiders = {
        (host, job.id) for job in state.jobs.values() if not job.is_finished for host in job.retried
    }
    indexed = {(host, job_id) for host, jobs in state.avoiders.items() for job_id in jobs}
    assert indexed == avoiders, "the index of avoided hosts is wrong"
    stopped = {
        (job.id, position)
        for job in state.jobs.values()
        for position, attempt in (job.live or {}).items()
        if attempt.stops
    }
    assert state.stopped.keys() == stopped, "the index of stopped attempts is wrong"
    live = sum(job.live_count for job in state.jobs.values())
    assert sum(map(len, state.on_host.values())) == live, "ended attempts are still on hosts"
