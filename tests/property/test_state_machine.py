"""Random commands and reports: the state keeps its invariants and is what its entries make."""

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from pending_times import check_pending_times

from xce.control.part import as_it_is, wishes_of
from xce.model.command import (
    ApplyConfig,
    DeclareHostsLost,
    KillJobs,
    Modification,
    ModifyJobs,
    ProposePlan,
    RequeueJobs,
    ResumeJobs,
    Selection,
    SetHostsOpen,
    SetQueues,
    SignalJobs,
    StartTrace,
    StopJobs,
    StopTrace,
    SubmitJobs,
    SwitchJobs,
    Tick,
)
from xce.model.config import QueueConfig
from xce.model.ids import SECOND_US
from xce.model.observation import (
    AttemptEnded,
    AttemptSeen,
    AttemptStarted,
    HostDisconnected,
    HostJoined,
    ReignBegan,
    Reported,
    SuspensionSeen,
)
from xce.model.plan import BulkStart, GangStart, Plan
from xce.model.trace import TraceKind
from xce.resreq.dependency import Verdict, evaluate, subjects_of
from xce.state.apply import apply
from xce.state.check import check_not_over_committed, check_state
from xce.state.snapshot import digest, dump, load
from xce.state.view import probe
from xce.testing.builders import ALICE, BOB, cluster, config, replayed
from xce.testing.strategies import conditions, submissions

HOSTS = ("h1", "h2", "h3")
SETTINGS = {
    "hosts": {"h1": 4, "h2": 2, "h3": 4},
    "counters": ("lic",),
    "pools": {"tokens": 4},
    "clean_period_us": 20 * SECOND_US,
    "key_window_us": 20 * SECOND_US,
    "orphan_grace_us": 5 * SECOND_US,
    "host_grace_us": 30 * SECOND_US,
    "losses_max": 2,
    "queues": (QueueConfig(name="normal", default=True), QueueConfig(name="night", tasks_max=2)),
}
hosts = st.sampled_from(HOSTS)
small = st.integers(1, 12)


class Cluster(RuleBasedStateMachine):
    """One controller under whatever may come."""

    def __init__(self):
        super().__init__()
        self.controller = cluster(**SETTINGS)
        self.boots = dict.fromkeys(HOSTS, 1)
        self.shrunk = False
        self.never = []
        """Conditions that were found to be false for ever."""

    @property
    def state(self):
        return self.controller.state

    def live(self):
        return [
            (job, position, attempt)
            for job in self.state.jobs.values()
            for position, attempt in (job.live or {}).items()
        ]

    def selection(self, data):
        if data.draw(st.booleans()):
            names = st.sampled_from(("", "a", "a*"))
            return Selection(
                all=True,
                name=data.draw(names),
                host=data.draw(st.sampled_from(("", "", "h1"))),
                newest=data.draw(st.booleans()),
            )
        jobs = []
        for job in data.draw(st.lists(small, min_size=1, max_size=3)):
            runs = data.draw(st.lists(st.tuples(st.integers(0, 12), st.integers(0, 6)), max_size=2))
            jobs.append((job, tuple((first, first + more) for first, more in runs)))
        return Selection(jobs=tuple(jobs))

    @rule(data=st.data(), owner=st.sampled_from((ALICE, BOB)), key=st.sampled_from(("", "k1")))
    def submit(self, data, owner, key):
        given = submissions(
            now_us=self.controller.now_us,
            jobs=min(12, self.state.next_job - 1),
            hosts=HOSTS,
            resources=("lic", "tokens"),
        )
        jobs = tuple(data.draw(st.lists(given, min_size=1, max_size=3)))
        line = data.draw(st.integers(0, 2)) if key else 0
        self.controller.tell(SubmitJobs(owner, jobs, key=key, line=line))

    @rule(data=st.data(), admin=st.booleans(), force=st.booleans())
    def kill(self, data, admin, force):
        self.controller.tell(KillJobs("alice", admin, self.selection(data), force))

    @rule(data=st.data(), admin=st.booleans())
    def stop(self, data, admin):
        self.controller.tell(StopJobs("alice", admin, self.selection(data)))

    @rule(name=st.sampled_from(("normal", "nosuch")), is_open=st.booleans(), both=st.booleans())
    def switch(self, name, is_open, both):
        command = SetQueues("root", (name,), is_open=True if both else is_open, comment="c")
        self.controller.tell(msgspec.structs.replace(command, is_active=is_open if both else None))

    @rule(data=st.data(), admin=st.booleans(), queue=st.sampled_from(("normal", "night", "nosuch")))
    def switch_jobs(self, data, admin, queue):
        self.controller.tell(SwitchJobs("alice", admin, self.selection(data), queue))
        self.never.clear()

    @rule(data=st.data(), job=small, admin=st.booleans())
    def modify_elements(self, data, job, admin):
        """Some elements become another thing, apart from the rest."""
        found = self.state.jobs.get(job)
        if found is None or found.array is None:
            return
        first = data.draw(st.integers(0, found.size - 1))
        last = data.draw(st.integers(first, found.size - 1))
        request = data.draw(
            submissions(
                now_us=self.controller.now_us, jobs=12, hosts=HOSTS, resources=("lic", "tokens")
            )
        ).request
        changed = data.draw(st.sampled_from(("resreq", "priority", "command", "run_limit_s")))
        items = []
        for wish in wishes_of(found, ((found.index(first), found.index(last)),)):
            wanted = as_it_is(self.state, found, wish.form)
            match changed:
                case "resreq":
                    wanted = msgspec.structs.replace(wanted, request=request)
                case "priority":
                    wanted = msgspec.structs.replace(wanted, priority=first)
                case "command":
                    spec = msgspec.structs.replace(wanted.spec, command=f"run {first}")
                    wanted = msgspec.structs.replace(wanted, spec=spec)
                case _:
                    wanted = msgspec.structs.replace(wanted, run_limit_us=first * SECOND_US)
            items.append(wish.modification(found, wanted, found.array.limit))
        self.controller.tell(ModifyJobs("alice", admin, tuple(items), (changed,), changed))
        self.never.clear()

    @rule(data=st.data(), job=small, admin=st.booleans(), late=st.booleans())
    def modify(self, data, job, admin, late):
        """A job becomes what another submission says; what has started, in its limits only."""
        found = self.state.jobs.get(job)
        if found is None:
            return
        given = data.draw(
            submissions(
                now_us=self.controller.now_us, jobs=12, hosts=HOSTS, resources=("lic", "tokens")
            )
        )
        queue = data.draw(st.sampled_from(("normal", "night")))
        wanted = msgspec.structs.replace(given, queue=queue, array=found.array)
        everything = ("resreq", "dependency", "begin_at", "queue", "name", "run_limit_s")
        some = ("run_limit_s", "rerunnable", "estimate_s")
        changed = data.draw(st.sampled_from((everything, some, ("queue",))))
        if "resreq" not in changed:
            before = as_it_is(self.state, found)
            wanted = msgspec.structs.replace(
                before, queue=queue, run_limit_us=given.run_limit_us, rerunnable=given.rerunnable
            )
        item = Modification(job, found.spec_id + late, found.cls, wanted)
        self.controller.tell(ModifyJobs("alice", admin, (item,), changed, "changed"))
        self.never.clear()

    @rule(data=st.data(), admin=st.booleans())
    def resume(self, data, admin):
        self.controller.tell(ResumeJobs("alice", admin, self.selection(data)))

    @rule(admin=st.booleans(), kind=st.sampled_from(TraceKind), job=small, seconds=small)
    def trace(self, admin, kind, job, seconds):
        name = "" if kind is TraceKind.JOB else "normal"
        span_us, sessions = seconds * SECOND_US, seconds - 1
        self.controller.tell(StartTrace("alice", admin, kind, span_us, job, name, sessions))

    @rule(admin=st.booleans(), rules=st.lists(small, max_size=2).map(tuple))
    def trace_no_more(self, admin, rules):
        self.controller.tell(StopTrace("bob", admin, rules))

    @rule(data=st.data(), signal=st.sampled_from((10, 15)))
    def signal(self, data, signal):
        self.controller.tell(SignalJobs("alice", False, self.selection(data), signal))

    @rule(data=st.data())
    def place(self, data):
        """Any plan, sensible or not: the controller takes what holds."""
        bulk, gangs = [], []
        for job in list(self.state.jobs.values())[:8]:
            if not data.draw(st.booleans()):
                continue
            some = data.draw(st.lists(st.integers(0, 2), min_size=1, max_size=3))
            position = data.draw(st.integers(0, job.size - 1))
            cls, _ = job.form_at(position)
            request, index = self.state.classes[cls].key.request, job.index(position)
            if request.is_serial:
                counts = [data.draw(st.integers(1, 5)) for _ in some]
                bulk.append(BulkStart(cls, [job.id], [job.index(0)], [max(index, 0)], some, counts))
            else:
                tasks = [data.draw(st.integers(1, 3)) for _ in some]
                gangs.append(GangStart(cls, job.id, index, some, tasks))
        version = self.state.config_version - data.draw(st.sampled_from((0, 0, 0, 1)))
        plan = Plan(self.state.seq, version, self.state.now_us, tuple(bulk), tuple(gangs))
        self.controller.tell(ProposePlan(plan))

    @rule(data=st.data(), start=st.booleans(), end=st.booleans(), suspended=st.booleans())
    def report(self, data, start, end, suspended):
        live = self.live()
        if not live:
            return
        number = st.integers(0, len(live) - 1)
        chosen = [live[i] for i in data.draw(st.lists(number, min_size=1, max_size=4))]
        items = {"started": [], "ended": [], "suspended": []}
        host = self.state.hosts.names[chosen[0][2].hosts[0]]
        for job, position, attempt in chosen:
            index, late = job.index(position), data.draw(st.sampled_from((0, 0, 0, 1)))
            place = (job.id, index, attempt.number - late)
            if start:
                items["started"].append(AttemptStarted(*place, pid=9, age_us=50))
            if end:
                items["ended"].append(
                    AttemptEnded(
                        *place,
                        exit_code=data.draw(st.sampled_from((0, 0, 1))),
                        host_fault=data.draw(st.sampled_from((False, False, False, True))),
                        detail=data.draw(st.sampled_from(("", "why"))),
                    )
                )
            else:
                items["suspended"].append(SuspensionSeen(*place, suspended))
        columns = {name: tuple(found) for name, found in items.items()}
        self.controller.tell(Reported(host, 1, **columns))

    @rule(data=st.data(), admin=st.booleans(), hold=st.booleans())
    def requeue(self, data, admin, hold):
        word = st.sampled_from(("RUN", "USUSP", "DONE", "EXIT", "PEND"))
        states = tuple(data.draw(st.lists(word, min_size=1, unique=True)))
        selection = self.selection(data)
        self.controller.tell(RequeueJobs("alice", admin, selection, states, hold))
        # What was final for a job that ended is not for one that was opened again.
        self.never.clear()

    @rule(host=hosts, silent=st.booleans())
    def leave(self, host, silent):
        self.controller.tell(HostDisconnected(host, silent))

    @rule(host=hosts)
    def declare_lost(self, host):
        self.controller.tell(DeclareHostsLost("root", (host,), is_admin=True))

    @rule(is_jump=st.booleans())
    def reign(self, is_jump):
        self.controller.tell(ReignBegan(is_jump))

    @rule(host=hosts)
    def rid_of_what_is_stale(self, host):
        stale = tuple(self.state.hosts.stale.get(self.state.hosts.number[host], ()))
        self.controller.tell(Reported(host, 1, gone=stale[:1]))

    @rule(data=st.data(), host=hosts, reboot=st.sampled_from((0, 0, 1)))
    def join(self, data, host, reboot):
        self.boots[host] += reboot
        number = self.state.hosts.number[host]
        known, unreported = [], []
        for job, position, attempt in self.live():
            if attempt.hosts[0] != number or reboot:
                continue
            place = (job.id, job.index(position), attempt.number)
            match data.draw(st.integers(0, 3)):
                case 0 | 1:
                    known.append(AttemptSeen(*place, running=True))
                case 2:
                    unreported.append(place)
                case _:
                    pass
        if self.state.jobs and not reboot:
            # Something that was given up, perhaps, or placed anew since.
            job = self.state.jobs[data.draw(st.sampled_from(sorted(self.state.jobs)))]
            index = job.index(data.draw(st.integers(0, job.size - 1)))
            if all(item[:2] != (job.id, index) for item in unreported) and all(
                (item.job, item.index) != (job.id, index) for item in known
            ):
                known.append(AttemptSeen(job.id, index, data.draw(st.integers(1, 2)), running=True))
        self.controller.tell(
            HostJoined(host, f"b{self.boots[host]}", 4, 8192, tuple(known), tuple(unreported))
        )

    @rule(host=hosts, is_open=st.booleans())
    def open_or_close(self, host, is_open):
        self.controller.tell(SetHostsOpen("root", (host, "nobody"), is_open, is_admin=True))

    @rule(seconds=st.sampled_from((1, 10, 40)), behind=st.sampled_from((0, 5)))
    def tick(self, seconds, behind):
        self.controller.tell(Tick(max(0, self.state.seq - behind)), after_us=seconds * SECOND_US)

    @rule(
        with_h3=st.booleans(),
        counters=st.sampled_from((("lic",), (), ("a", "lic"), ("tokens",))),
        pools=st.sampled_from(({"tokens": 4}, {}, {"lic": 1})),
        closed=st.booleans(),
    )
    def configure(self, with_h3, counters, pools, closed):
        self.shrunk = True
        given = config(**{**SETTINGS, "counters": counters, "pools": pools})
        found = [
            msgspec.structs.replace(
                host, counters=dict.fromkeys(counters, 3), closed=closed and host.name == "h2"
            )
            for host in given.hosts
            if with_h3 or host.name != "h3"
        ]
        self.controller.tell(
            ApplyConfig("root", msgspec.structs.replace(given, hosts=tuple(found)), is_admin=True)
        )

    def verdict(self, tree):
        """Return what a condition is now, or None when a job that it names has left."""
        if not all(job in self.state.jobs for job in subjects_of(tree)):
            return None

        def ask(condition, job, index):
            return probe(self.state, condition, job, index)

        return evaluate(tree, ask)

    @rule(tree=conditions(6))
    def judge(self, tree):
        if self.verdict(tree) is Verdict.NEVER:
            self.never.append(tree)

    @invariant()
    def what_can_never_hold_never_does(self):
        assert all(self.verdict(tree) in (Verdict.NEVER, None) for tree in self.never)

    @invariant()
    def it_holds_together(self):
        check_state(self.state)
        if not self.shrunk:
            check_not_over_committed(self.state)

    @invariant()
    def a_snapshot_is_the_state(self):
        parts = dump(self.state)
        loaded = load(parts)
        check_state(loaded)
        assert dump(loaded) == parts
        assert loaded.hosts.total.tolist() == self.state.hosts.total.tolist()
        for cls, found in self.state.classes.items():
            assert loaded.classes[cls].eligible() == found.eligible()

    def teardown(self):
        assert digest(replayed(self.controller.entries)) == digest(self.state)
        entries = self.controller.entries
        middle = load(dump(replayed(entries[: len(entries) // 2])))
        for entry in entries[len(entries) // 2 :]:
            apply(middle, entry)
        assert digest(middle) == digest(self.state)
        check_state(middle)
        check_pending_times(entries)


Cluster.TestCase.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=list(HealthCheck),
)
TestCluster = Cluster.TestCase
