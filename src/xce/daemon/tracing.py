"""What the scheduler traces: the rules of its state, into the cluster's directory of traces."""

import logging
from pathlib import Path

from xce.journal.trace_recorder import RuleCounter
from xce.journal.trace_store import TraceStoreError, TraceWriter
from xce.model.ids import Micros
from xce.model.trace import TraceRule
from xce.sched.traced import Trace
from xce.state.cluster import ClusterState


class Tracing:
    """Traces sessions by the rules of the state; without a rule it does nothing."""

    def __init__(self, directory: Path, log: logging.Logger) -> None:
        self._log = log
        self._writer = TraceWriter(directory)
        self._counter = RuleCounter()
        self._rules: list[TraceRule] = []
        self._trouble = ""

    def open(self, state: ClusterState, now_us: Micros) -> Trace | None:
        """Return what to trace of the next session, or None: nothing."""
        if not state.traces:
            return None
        self._rules = self._counter.due(state.traces.values(), now_us)
        return Trace(self._rules) if self._rules else None

    def keep(self, trace: Trace) -> tuple[int, ...]:
        """Write what a session told; return the numbers of rules that are over with it.

        What cannot be written is lost: no session fails for its trace.
        """
        if trace.session is not None:
            try:
                self._writer.write(trace.session)
                self._trouble = ""
            except TraceStoreError as error:
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    self._log.warning("trace-not-written", extra={"why": self._trouble})
        return self._counter.note(self._rules)
