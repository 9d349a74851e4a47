"""What a scheduler remembers changes nothing (decision X-23), and it knows when to look.

A cluster lives a random life. At every step a session with an old memory, one with none and one on
a state loaded from a snapshot give the same plan; the plan holds whole; and when the memory says
that no session is due, a fresh one starts nothing.
"""

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from xce.model.command import ApplyConfig, MoveJobs, ProposePlan, SetGroup, SetHostsOpen
from xce.model.config import ClusterConfig, HostConfig, QueueConfig
from xce.model.constraint import Colocate, Constraint, Exclusive, Near, Spread
from xce.model.ids import SECOND_US
from xce.model.load import INDICES, UNKNOWN
from xce.model.observation import LoadSeen, SuspensionSeen
from xce.model.plan import Plan
from xce.model.reason import ReasonCode
from xce.model.record import SessionRan
from xce.model.request import Amount, HostChoice, Part, Request
from xce.sched.session import run_session
from xce.sched.waiting import Memory
from xce.state.check import check_not_over_committed, check_state
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import (
    ALICE,
    BOB,
    RecordedController,
    chosen,
    cluster,
    join_host,
    kill,
    leave_host,
    modify,
    report,
    report_ended,
    report_started,
    request,
    resume,
    stop,
    submission,
    switch,
    tick,
    try_submit,
)

QUEUES = (
    QueueConfig(name="normal", priority=30, default=True, exclusive=True),
    QueueConfig(name="night", priority=10, hosts=("h1", "h3"), load_sched={"r1m": 3_000}),
    QueueConfig(name="urgent", priority=50, exclusive=True),
)
HOSTS = ("h1", "h2", "h3")


def related(tasks: int, *constraints: Constraint) -> Request:
    part = Part("a", tasks, Request(tasks, tasks))
    return Request(tasks, tasks, parts=(part,), constraints=constraints)


ASKS: tuple[Request, ...] = (
    request(),
    request(mem_mib=3),
    request(mem_mib=7),
    request(2, mem_mib=2),
    request((2, 6)),
    request(4, ptile=2),
    request(3, one_host=True),
    request((1, 4), one_host=True, mem_mib=1),
    request(1, exclusive=True),
    request(1, amounts=[Amount("seats", 2)]),
    request(2, amounts=[Amount("seats", 1), Amount("mem", 3, "job")]),
    request(40),
    request(mem_mib=100),
    replace(request(), select="mem > 5"),
    replace(request(2), select="hname != 'h2'", order="-slots"),
    replace(request(), select="r1m < 2"),
    replace(request(3), select="!defined(ut) || mem > 2", order="r1m:-mem"),
    replace(request(), hosts=(HostChoice("h2", 1), HostChoice("h3", 0)), other_hosts=True),
    replace(request(), hosts=(HostChoice("h2", 0),)),
    related(2, Spread(0, ("a",), "host", 1)),
    related(2, Colocate(0, ("a",), ("host",)), Near(0, ("a",), "group:g", ("host",))),
    related(1, Near(0, ("a",), "group:g", ("host",), is_apart=True)),
    related(1, Exclusive(0, ("a",), "host")),
)

MEANWHILE = ("end", "kill", "submit", "host", "config", "modify", "switch")
numbers = st.integers(0, 99)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("submit"), numbers, numbers),
        st.tuples(st.just("submit"), numbers, numbers),
        st.tuples(
            st.sampled_from(
                ["session", "session", "session", "lose plan", "late plan", "start", "end", "end",
                 "fail", "kill", "stop", "resume", "host", "close", "config", "tick", "restart",
                 "move", "settle", "modify", "modify", "switch", "load", "load"]
            ),
            numbers,
            numbers,
        ),
    ),
    min_size=8,
    max_size=45,
)  # fmt: skip


@dataclass
class World:
    controller: RecordedController
    memory: Memory = field(default_factory=Memory)
    heard: int = 0

    def hear(self) -> None:
        for entry in self.controller.entries[self.heard :]:
            self.memory.note(entry)
        self.heard = len(self.controller.entries)

    def plan(self) -> Plan:
        """Return the plan on which every memory agrees."""
        self.hear()
        state, now_us = self.controller.state, self.controller.now_us
        is_due, before = self.memory.is_due, digest(state)
        is_due = is_due or 0 < self.memory.look_at_us <= now_us
        fresh = run_session(state, now_us=now_us)
        assert is_due or not (fresh.bulk or fresh.gangs), "something could start, nobody looked"
        plan = run_session(state, now_us=now_us, memory=self.memory)
        assert plan == fresh
        assert run_session(load(dump(state)), now_us=now_us) == fresh
        assert digest(state) == before
        return plan

    def propose(self, plan: Plan, *, is_current: bool = True) -> None:
        self.controller.tell(ProposePlan(plan), by="scheduler")
        for entry in self.controller.entries[self.heard :]:
            for record in entry.records:
                assert not (is_current and isinstance(record, SessionRan) and record.stale)
        self.hear()

    def live(self) -> list[tuple[int, int]]:
        return [
            (job.id, job.index(position))
            for job in self.controller.state.jobs.values()
            for position in (job.live or {})
        ]


def do_submit(controller: RecordedController, first: int, second: int) -> None:
    asks = ASKS[first % len(ASKS)]
    elements = ["", "", "1-3", "1-20:2,30-35"][second % 4]
    queue = ["", "", "urgent", "night"][second % 5 % 4]
    given = submission(
        asks=replace(asks, exclusive=False) if queue == "night" else asks,
        elements=elements,
        limit=second % 3 if elements else 0,
        queue=queue,
        hold=second % 11 == 0,
        priority=second % 2,
        run_limit_us=(0, 2, 3, 5, 9)[(first + second) % 5] * SECOND_US,
        begin_at_us=controller.now_us + SECOND_US * 2 if second % 7 == 0 else 0,
    )
    given = replace(given, group=("", "", "/g", "/g/h")[(first + second) % 4])
    try_submit(controller, *[given] * (1 + second % 3), owner=(ALICE, BOB)[first % 2])


def set_limit(controller: RecordedController, limit: int) -> None:
    controller.tell(SetGroup("root", True, "/g", limit, is_new=False), by="root")


def do_change(controller: RecordedController, what: str, job: int, second: int) -> None:
    if what == "switch":
        queue = ("normal", "night", "urgent")[second % 3]
        switch(controller, queue, job, by="root", is_admin=True)
        return
    asks = replace(ASKS[second % len(ASKS)], exclusive=False)
    changed: dict[str, object] = {"run_limit_us": second % 3 * SECOND_US}
    if second % 2:
        changed = {"request": asks}
    modify(controller, job, by="root", is_admin=True, **changed)  # type: ignore[arg-type]


def do(world: World, what: str, first: int, second: int) -> None:
    controller = world.controller
    live = world.live()
    unfinished = [job.id for job in controller.state.jobs.values() if not job.is_finished]
    match what:
        case "submit":
            do_submit(controller, first, second)
        case "session":
            world.propose(world.plan())
        case "lose plan":
            world.plan()
        case "late plan":
            plan = world.plan()
            do(
                world,
                ["end", "kill", "submit", "host", "config", "modify", "switch"][first % 7],
                second,
                first,
            )
            world.propose(plan, is_current=False)
        case "start" | "end" | "fail" if live:
            job, index = live[first % len(live)]
            if what == "start":
                report_started(controller, job, index)
            else:
                report_ended(
                    controller, job, index, host_fault=what == "fail", exit_code=second % 2
                )
        case "kill" | "stop" | "resume" if unfinished:
            act = {"kill": kill, "stop": stop, "resume": resume}[what]
            act(controller, unfinished[first % len(unfinished)])
        case "settle":
            for job, index in live:
                attempt = controller.attempt(job, index)
                if attempt.suspended != attempt.shall_stop and attempt.started_at_us:
                    host = controller.state.hosts.names[attempt.hosts[0]]
                    seen = SuspensionSeen(job, index, attempt.number, attempt.shall_stop)
                    report(controller, host, seen)
        case "move" if unfinished:
            selection = chosen(unfinished[first % len(unfinished)])
            top = second % 3 > 0
            command = MoveJobs("alice", second % 2 == 0, selection, top, 1 + second % 4)
            controller.tell(command, by="alice")
        case "modify" | "switch" if unfinished:
            do_change(controller, what, unfinished[first % len(unfinished)], second)
        case "host" | "load" | "close":
            change_host(controller, what, first, second)
        case "config":
            config = configured(controller.state.config, first, second)
            controller.tell(ApplyConfig("root", config, is_admin=True), by="root")
        case "tick":
            set_limit(controller, first % 4 - 1)
            tick(controller)
        case "restart":
            world.memory = Memory()
        case _:
            pass


def change_host(controller: RecordedController, what: str, first: int, second: int) -> None:
    host = HOSTS[first % 3]
    if what == "host":
        (leave_host if second % 2 else join_host)(controller, host)
        return
    if what == "close":
        closed = SetHostsOpen("root", (host,), second % 2 == 0, is_admin=True)
        controller.tell(closed, by="root")
        return
    seen = {"r1m": first % 5 * 1000, "mem": second % 7 * 1000}
    sample = tuple(seen.get(name, UNKNOWN) for name in INDICES)
    controller.tell(LoadSeen((host,), (sample,)))


def configured(config: ClusterConfig, first: int, second: int) -> ClusterConfig:
    hosts = [
        replace(host, slots=1 + (first + place) % 5) for place, host in enumerate(config.hosts)
    ]
    queues = [
        replace(queue, active=(second + place) % 4 > 0) for place, queue in enumerate(config.queues)
    ]
    return replace(config, hosts=tuple(hosts), queues=tuple(queues))


def base(**settings: object) -> RecordedController:
    hosts = [HostConfig(name=name, slots=4, mem_mib=8) for name in HOSTS]
    controller = cluster(hosts, pools={"seats": 3}, queues=QUEUES, **settings)
    for name, limit in (("/g", None), ("/g/h", 2)):
        controller.tell(SetGroup("root", True, name, limit), by="root")
    return controller


@settings(max_examples=200, derandomize=True, deadline=None)
@given(life=steps)
def test_a_session_with_memory_and_one_without_give_the_same_plan(
    life: list[tuple[str, int, int]],
) -> None:
    live(World(base()), life)


@settings(max_examples=150, derandomize=True, deadline=None)
@given(
    life=steps,
    kind=st.sampled_from(["none", "easy", "conservative"]),
    most=st.integers(0, 3),
    order=st.sampled_from(["fcfs", "sjf", "fairshare"]),
    yields=st.sampled_from(["", "suspend", "requeue", "kill"]),
)
def test_they_do_with_reservations_and_other_orders_too(
    life: list[tuple[str, int, int]], kind: str, most: int, order: str, yields: str
) -> None:
    settings = {"backfill": kind, "reservations": most, "policy": order, "fairshare_chunk": 2}
    world = World(base(preemption=yields or "suspend", **settings))
    if yields:
        config = world.controller.state.config
        queues = [
            replace(queue, preempt=("normal", "night")) if queue.name == "urgent" else queue
            for queue in config.queues
        ]
        config = replace(config, queues=tuple(queues))
        world.controller.tell(ApplyConfig("root", config, is_admin=True), by="root")
    live(world, life)


def live(world: World, life: list[tuple[str, int, int]]) -> None:
    for step in life:
        do(world, *step)
    for _ in range(4):
        world.propose(world.plan())
    state = world.controller.state
    check_state(state)
    if not any(step[0] in ("config", "late plan") for step in life):
        check_not_over_committed(state)
    for found in state.classes.values():
        if found.waiting and state.queues[found.key.queue].active:
            assert found.reason.code is not ReasonCode.NEW, "a class waits without a reason"
    assert world.plan().is_empty, "sessions do not come to rest"
    assert not world.memory.is_due
