"""A built cluster with a scheduler beside it, for tests of sessions."""

from xce.model.command import ProposePlan
from xce.model.ids import HostNumber, Index, JobId
from xce.model.plan import Plan
from xce.model.reason import HostCode, Reason
from xce.model.record import SessionRan
from xce.model.trace import EVERYTHING
from xce.sched.counts import Counts
from xce.sched.session import run_session
from xce.sched.traced import Trace
from xce.sched.waiting import Memory
from xce.state.check import check_not_over_committed, check_state
from xce.testing.builders import RecordedController


class Scheduled:
    """Runs sessions on a controller as the scheduler does."""

    def __init__(self, controller: RecordedController) -> None:
        self.controller = controller
        self.memory = Memory()
        self.counts = Counts()
        """Of the last session."""
        self.trace = Trace([EVERYTHING])
        """Of the last session, run without memory."""
        self._heard = 0
        self._turns = 0

    def hear(self) -> None:
        """Let the memory hear of the entries since."""
        for entry in self.controller.entries[self._heard :]:
            self.memory.note(entry)
        self._heard = len(self.controller.entries)

    def plan(self) -> Plan:
        """Run a session and return its plan; one without memory and a traced one give the same."""
        self.hear()
        self.counts = Counts()
        state, now_us = self.controller.state, self.controller.now_us
        fresh = run_session(state, now_us=now_us)
        # Every other session that remembers is traced, as those of a cluster may be.
        self._turns += 1
        plan = run_session(
            state,
            now_us=now_us,
            memory=self.memory,
            counts=self.counts,
            trace=Trace([EVERYTHING]) if self._turns % 2 else None,
        )
        assert plan == fresh
        self.trace = Trace([EVERYTHING])
        assert plan == run_session(state, now_us=now_us, trace=self.trace)
        return plan

    def propose(self, plan: Plan) -> int:
        """Let the controller take a plan; return how many elements of it no longer held."""
        before = len(self.controller.entries)
        self.controller.tell(ProposePlan(plan), by="scheduler")
        self.hear()
        records = [r for entry in self.controller.entries[before:] for r in entry.records]
        return sum(record.stale for record in records if isinstance(record, SessionRan))

    def run(self) -> Plan:
        """Run a session and have its plan accepted, whole."""
        plan = self.plan()
        assert self.propose(plan) == 0
        check_state(self.controller.state)
        check_not_over_committed(self.controller.state)
        return plan

    def hosts(self, job: JobId, index: Index = 0) -> dict[str, int]:
        """Return the hosts of a live attempt in rank order with the tasks on each."""
        attempt = self.controller.attempt(job, index)
        names = [self.controller.state.hosts.names[number] for number in attempt.hosts]
        return dict(zip(names, attempt.tasks, strict=True))

    def is_live(self, job: JobId) -> bool:
        """Return whether any element of a job is live."""
        return bool(self.controller.job(job).live)

    def spread(self, job: JobId) -> list[int]:
        """Return how many elements of an array are on each host."""
        hosts: list[HostNumber] = [
            a.hosts[0] for a in (self.controller.job(job).live or {}).values()
        ]
        return [hosts.count(number) for number in range(self.controller.state.hosts.count)]

    def reason(self, job: JobId) -> Reason:
        """Return the reason in the state of the job's class."""
        return self.controller.state.classes[self.controller.job(job).cls].reason

    def host_codes(self, job: JobId) -> dict[HostCode, int]:
        """Return how many hosts each reason excludes."""
        return {item.code: item.hosts for item in self.reason(job).host_reasons}
