"""Steps of any shape on hosts that do anything: books that know no phases check every action."""

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st
from steps import PROBE, SECOND, wait

from xce.step import core as c
from xce.step.plan import Plan, RolePlan, TaskPlan, decode_plan, encode_plan

HOSTS = 3


def draw_plan(rng: Random) -> Plan:
    """Return roles that wait for earlier ones only, with sidecars among them."""
    count = rng.randrange(1, 6)
    roles: list[RolePlan] = []
    groups = list(range(count))
    for number in range(count):
        tasks = tuple(TaskPlan(rng.randrange(HOSTS)) for _ in range(rng.randrange(1, 4)))
        roles.append(
            RolePlan(
                f"r{number}", "x", tasks,
                waits=draw_waits(rng, number, roles),
                probe=rng.choice((None, PROBE)),
                restart=rng.choice(("never", "never", "on-failure", "always")),
                restarts_max=rng.randrange(3), back_off_us=SECOND,
                is_fatal=rng.random() < 0.6, group=groups[number],
                launch=rng.choice(("tasks", "tasks", "torch")),
            )
        )  # fmt: skip
    for number in range(count - 1):
        later = [one for one in range(number + 1, count) if not roles[one].parents]
        if (
            rng.random() < 0.25
            and later
            and not any(
                w.role == number and w.until in ("succeeded", "ended")
                for r in roles
                for w in r.waits
            )
        ):
            parent = rng.choice(later)
            roles[number] = roles[number]._replace(parents=(parent,), waits=())
            more = (*roles[parent].waits, wait(number, "beside"))
            roles[parent] = roles[parent]._replace(waits=more)
    return Plan(tuple(f"h{n}" for n in range(HOSTS)), tuple(roles), SECOND)


def draw_waits(rng, number, roles):
    return tuple(
        wait(other, rng.choice(("succeeded", "ended", "ready")), rng.choice((0, 5)))
        for other in range(number)
        if rng.random() < 0.3 and not roles[other].parents
    )


class Books:
    """What really runs, and what that says about each action."""

    def __init__(self, made: Plan, rng: Random) -> None:
        self.plan, self.rng = made, rng
        self.step = c.Step(made)
        self.now_us = 0
        self.live: dict[tuple[int, int], tuple[int, bool]] = {}
        """Runs by task, and whether it was told that they began."""
        self.runs: dict[tuple[int, int], int] = {}
        self.probes: list[c.Probe] = []
        self.ended: dict[tuple[int, int], int] = {}
        self.ready: set[tuple[int, int]] = set()
        self.hosts: set[int] = set()
        self.unchecked: set[int] = set()
        self.lost: set[int] = set()
        self.killed: set[tuple[int, int]] = set()
        self.end: c.Finish | None = None
        self.failed = self.asked = self.unfit = False

    def carry_out(self, actions: list[c.Action]) -> None:
        for action in actions:
            assert self.end is None, "nothing comes behind the end"
            match action:
                case c.OpenHost(host):
                    self.hosts.add(host)
                case c.CheckHost(host):
                    assert not self.hosts, "no host is looked at before all have answered"
                    self.unchecked.add(host)
                case c.Start(role, task, run):
                    self.check_start(role, task, run)
                    self.live[role, task] = (run, False)
                    self.runs[role, task] = run
                case c.Probe(role, task, run):
                    assert self.live[role, task] == (run, True)
                    self.probes.append(action)
                case c.Signal(role, task, run, number):
                    assert self.live.get((role, task), (0,))[0] == run
                    if number == c.KILL or self.rng.random() < 0.5:
                        self.killed.add((role, task))
                case c.Finish():
                    assert not self.live, "everything is over at the end"
                    self.end = action

    def check_start(self, role: int, task: int, run: int) -> None:
        key, found = (role, task), self.plan.roles[role]
        assert key not in self.live, "one run at a time"
        assert not self.hosts, "no task begins before all hosts have answered"
        assert not self.unchecked, "nor before those of roles that meet have been looked at"
        assert run == self.runs.get(key, 0) + 1 <= 1 + found.restarts_max
        assert found.tasks[task].host not in self.lost
        assert not self.asked
        assert not self.unfit
        if run > 1:
            assert found.restart != "never"
            assert found.restart == "always" or self.ended[key]
            return
        for one in found.waits:
            others = [(one.role, n) for n in range(len(self.plan.roles[one.role].tasks))]
            if one.until == "succeeded":
                assert all(self.ended.get(other) == 0 for other in others)
            if one.until == "ended":
                assert all(other in self.ended and other not in self.live for other in others)
            if one.until == "ready":
                assert all(other in self.ready for other in others)
            if one.until == "beside":
                assert all(other in self.runs for other in others if other not in self.ended)

    def next_event(self) -> c.Event | None:
        rng = self.rng
        choices: list[c.Event] = [c.HostReady(host) for host in self.hosts]
        choices += [c.HostChecked(host, rng.choice(("", "", "no way"))) for host in self.unchecked]
        for (role, task), (run, began) in self.live.items():
            code = rng.choice((0, 0, 0, 1, 137))
            if (role, task) in self.killed:
                code = 137
            if not began:
                choices.append(c.Started(role, task, run))
                choices.append(c.Failed(role, task, run, "no program"))
            if began or rng.random() < 0.3:
                choices.append(c.Exited(role, task, run, code, 9 if code == 137 else 0))
        choices += [c.Probed(*probe, rng.random() < 0.6, "no") for probe in self.probes]
        if rng.random() < 0.02:
            choices.append(c.HostLost(rng.randrange(HOSTS), "gone"))
        if rng.random() < 0.02:
            choices.append(c.EndAsked(15))
        return rng.choice(choices) if choices else None

    def note(self, event: c.Event) -> None:
        match event:
            case c.HostReady(host):
                self.hosts.discard(host)
            case c.HostChecked(host, why):
                self.unchecked.discard(host)
                self.unfit = self.unfit or bool(why)
            case c.Started(role, task, run):
                self.live[role, task] = (run, True)
                if self.plan.roles[role].probe is None:
                    self.ready.add((role, task))
            case c.Failed(role, task):
                self.note_end(role, task, 1)
            case c.Exited(role, task, _, code):
                self.note_end(role, task, code)
            case c.Probed(role, task, run, is_ready):
                self.probes.remove(c.Probe(role, task, run))
                if is_ready and self.live.get((role, task)) == (run, True):
                    self.ready.add((role, task))
            case c.HostLost(host):
                self.hosts.discard(host)
                self.lost.add(host)
                for number, index in self.plan.tasks():
                    if self.plan.roles[number].tasks[index].host == host:
                        self.note_end(number, index, 1)
            case c.EndAsked():
                self.asked = True

    def note_end(self, role: int, task: int, code: int) -> None:
        self.live.pop((role, task), None)
        self.killed.discard((role, task))
        self.ended[role, task] = code
        if code:
            self.ready.discard((role, task))

    def run_out(self) -> None:
        self.carry_out(self.step.begin(0))
        for _ in range(3000):
            if self.end is not None:
                return
            event = self.next_event() if self.rng.random() < 0.7 else None
            if event is not None:
                self.note(event)
                self.carry_out(self.step.take(event, self.now_us))
                continue
            due_us = self.step.next_due_us()
            if due_us is not None:
                self.now_us = max(self.now_us, due_us)
                self.carry_out(self.step.tick(self.now_us))
        raise AssertionError("it never ends")


@settings(max_examples=400, deadline=None)
@given(st.integers(0, 2**32))
def test_every_step_keeps_to_its_relations_and_ends(seed):
    rng = Random(seed)
    made = draw_plan(rng)
    books = Books(made, rng)
    books.run_out()
    assert books.end is not None
    if books.end.code == 0:
        assert not books.asked
        assert not books.unfit
        assert not books.end.detail
    else:
        assert books.asked or books.end.detail


@given(st.integers(0, 2**32))
def test_a_plan_travels_as_text(seed):
    made = draw_plan(Random(seed))
    assert decode_plan(encode_plan(made)) == made
