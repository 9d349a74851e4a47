"""Reaching everything that an attempt has started: to count, signal, stop or miss it.

With a control group nothing escapes. Without one (an ordinary user's cluster) a process is found by
its session, by its ancestors, or by the attempt's mark in the environment that it was started with;
the shepherd is the subreaper of its jobs, so whatever loses its parent becomes the shepherd's child
and is seen. **What can escape then**: a process that has left the session (`setsid`), was started
with an environment without the mark, and lost its parent, all before any look at the processes saw
it below the job shell (a look is taken every two seconds, at each signal, and when a shell ends).
After the shepherd itself was killed, orphans are not its children any more; the other ways remain.
"""

import contextlib
import os
import resource
import signal
from collections.abc import Collection, Iterable
from typing import Any, Final

from xce.worker.shepherd import proc
from xce.worker.shepherd.attempts import CPU_AT, ENDED, RUNNING, Attempt, Now, Seen
from xce.worker.shepherd.cgroups import Groups
from xce.worker.shepherd.spawn import CAUGHT

_SAMPLE_US: Final = 2_000_000
_SAMPLE_LIMITED_US: Final = 500_000
"""Between two looks at memory, where a job has a limit that the kernel does not hold."""
_SAMPLE_AGE_US: Final = 1_000_000
"""Younger attempts are not looked at: most are over before."""
_RETRY_US: Final = 20_000
_RETRY_MAX_US: Final = 5_000_000
_PASSES_MAX: Final = 5
"""How often processes are looked for again at once, while new ones keep appearing."""
_PIDS_MAX: Final = 256
"""So many processes of an attempt are named."""
_PIDS_ALL_MAX: Final = 100_000
"""So many of all attempts together."""
_USES_MAX: Final = 10_000
"""Of so many attempts it is told what they use."""
_SHELL_TAKES: Final = frozenset({*CAUGHT, signal.SIGKILL, signal.SIGSTOP, signal.SIGCONT})


class Reach:
    """Finds and signals the processes of attempts."""

    def __init__(self, groups: Groups | None) -> None:
        self.groups = groups
        self._own_pid = os.getpid()
        self._families = proc.Families()
        self._shells: dict[int, Attempt] = {}
        self._marks: dict[str, Attempt] = {}
        self._orphans: dict[int, str] = {}
        """Children of ours that no attempt's shell is, with the mark of whose they are."""
        self._counts_orphans = proc.load_children(self._own_pid) is not None
        self._look: dict[str, list[int]] | None = None
        self._processes: dict[int, proc.Process] = {}

    def add(self, attempt: Attempt) -> None:
        """Know an attempt whose shell runs or ran."""
        self._marks[attempt.mark] = attempt
        if attempt.pid:
            self._shells[attempt.pid] = attempt

    def drop(self, attempt: Attempt) -> None:
        """Forget an attempt of which nothing is left."""
        self._marks.pop(attempt.mark, None)
        if self._shells.get(attempt.pid) is attempt:
            del self._shells[attempt.pid]

    def add_leader(self, pid: int, attempt: Attempt) -> None:
        """Know the leader of another session of an attempt."""
        self._shells[pid] = attempt

    def drop_leader(self, pid: int) -> None:
        """Forget it: who has its pid later is somebody else."""
        self._shells.pop(pid, None)

    def shell_of(self, pid: int) -> Attempt | None:
        """Return the attempt whose job shell a pid is."""
        return self._shells.get(pid)

    def reap_orphan(self, pid: int) -> Attempt | None:
        """Note that a child of ours that is no shell has ended; return whose it was."""
        return self._marks.get(self._orphans.pop(pid, ""))

    def begin(self) -> None:
        """Forget the last look at the processes: time has passed."""
        self._look = None

    def pids(self, attempt: Attempt) -> list[int]:
        """Return the processes of an attempt, those known at the last look since `begin`."""
        if attempt.grouped and self.groups is not None:
            return self.groups.pids(attempt.name)
        if self._look is None:
            self._processes = proc.load_processes()
            # A shell that has ended leads no session: who has its pid now is somebody else.
            sessions = {
                pid: one.mark
                for pid, one in self._shells.items()
                if one.state == RUNNING or pid not in self._processes
            }
            self._look = self._families.sort(
                self._processes, sessions=sessions, is_current=self._marks.__contains__
            )
        return self._look.get(attempt.mark, [])

    def process(self, pid: int) -> proc.Process | None:
        """Return what /proc says of a process, as of the last look where there was one."""
        if self._look is not None and pid in self._processes:
            return self._processes[pid]
        return proc.load_process(pid)

    def send(self, attempt: Attempt, number: int, spared: Collection[int] = ()) -> None:
        """Send a signal to everything of an attempt but to what is in the ``spared`` sessions.

        A signal that the job shell does not catch goes past it, so that it can note the status of
        what died of it.
        """
        pids = self.pids(attempt)
        if spared:
            found = ((pid, self.process(pid)) for pid in pids)
            pids = [pid for pid, one in found if one is not None and one.session not in spared]
        if number not in _SHELL_TAKES and len(pids) > 1:
            pids = [pid for pid in pids if pid != attempt.pid]
        _send(pids, number)

    def kill(self, attempt: Attempt) -> None:
        """Kill everything of an attempt, also what it starts meanwhile."""
        if attempt.grouped and self.groups is not None:
            if self.groups.kill(attempt.name):
                return
            self.groups.freeze(attempt.name, frozen=True)
            _send(self.groups.pids(attempt.name), signal.SIGKILL)
            self.groups.freeze(attempt.name, frozen=False)
            return
        done: set[int] = set()
        for _ in range(_PASSES_MAX):
            fresh = set(self.pids(attempt)) - done
            if not fresh:
                return
            # The shell first, or it would note its script's death and end by itself.
            _send(sorted(fresh, key=lambda pid: pid != attempt.pid), signal.SIGKILL)
            done |= fresh
            self.begin()

    def kill_again(self, attempt: Attempt, now_us: int) -> None:
        """Kill what is left of an attempt, now and then and ever more seldom."""
        if attempt.retry_us <= now_us:
            self.kill(attempt)
            attempt.kills += 1
            attempt.retry_us = now_us + min(_RETRY_US << min(attempt.kills, 10), _RETRY_MAX_US)

    def stop(self, attempt: Attempt) -> None:
        """Stop everything of an attempt."""
        if attempt.grouped and self.groups is not None:
            self.groups.freeze(attempt.name, frozen=True)
            return
        done: set[int] = set()
        for _ in range(_PASSES_MAX):
            fresh = set(self.pids(attempt)) - done
            if not fresh:
                return
            _send(fresh, signal.SIGSTOP)
            done |= fresh
            self.begin()

    def go_on(self, attempt: Attempt) -> None:
        """Let everything of an attempt go on."""
        if attempt.grouped and self.groups is not None:
            self.groups.freeze(attempt.name, frozen=False)
        _send(self.pids(attempt), signal.SIGCONT)

    def is_gone(self, attempt: Attempt) -> bool:
        """Whether nothing of an attempt is left, now that its shell has ended."""
        if attempt.grouped and self.groups is not None:
            if not self.groups.remove(attempt.name):
                return False
            if attempt.limit_kib:
                self.groups.remove_memory(attempt.name)
        elif attempt.is_child and self._counts_orphans:
            if attempt.mark in self._orphans.values():
                return False
        elif self.pids(attempt):
            return False
        return True

    def look_for_orphans(self) -> None:
        """See which children have come to us, and whose they are.

        Costs one small file, and two more for each new orphan.
        """
        children = proc.load_children(self._own_pid) or []
        shells, orphans = self._shells, self._orphans
        for pid in children:
            if pid in shells or pid in orphans:
                continue
            process = proc.load_process(pid)
            if process is None or process.state in "ZX":
                continue
            leader = shells.get(process.session)
            mark = leader.mark if leader else self._families.recall(pid, process.started)
            orphans[pid] = mark or proc.load_mark(pid)

    def uses(self, attempts: Iterable[Attempt]) -> list[list[Any]]:
        """Return what attempts use now."""
        self.begin()
        running = [one for one in attempts if one.state == RUNNING][:_USES_MAX]
        self.measure(running, with_swap=True)
        told, left = [], _PIDS_ALL_MAX
        for attempt in running:
            pids = sorted(self.pids(attempt))[: min(_PIDS_MAX, left)]
            left -= len(pids)
            told.append(attempt.use(pids))
        return told

    def measure(self, attempts: Iterable[Attempt], *, with_swap: bool = False) -> None:
        """Note how much attempts use now; grouped ones cost a file for each process, and swap
        another one.
        """
        for attempt in attempts:
            memory = swap = processes = threads = user = system = waited = 0
            for pid in self.pids(attempt):
                process = self.process(pid)
                if process is not None and attempt.state != ENDED:
                    memory += process.rss_kib
                    processes += 1
                    threads += process.threads
                    user += process.user_us
                    system += process.system_us
                    waited += process.waited_us
                    swap += proc.load_swap_kib(pid) if attempt.is_counted or with_swap else 0
            attempt.max_mem_kib = max(attempt.max_mem_kib, memory)
            attempt.max_processes = max(attempt.max_processes, processes)
            attempt.max_threads = max(attempt.max_threads, threads)
            own = 0 if attempt.is_part else 1  # the job shell, which is ours
            cpu_us = self._cpu_us(attempt, user + system + waited)
            attempt.now = Now(0, cpu_us, memory + swap, processes - own, threads - own)
            before = attempt.seen
            attempt.seen = Seen(memory, swap, before.sum_kib + memory, before.looks + 1)
            if not attempt.is_child:
                # Nobody will tell us what it used in all, so the last look counts.
                attempt.user_us = max(attempt.user_us, user)
                attempt.system_us = max(attempt.system_us, system)
            if attempt.grouped and attempt.limit_kib and self.groups is not None:
                attempt.oom = self.groups.ooms(attempt.name) > 0

    def _cpu_us(self, attempt: Attempt, seen_us: int) -> int:
        """Return the CPU time of everything that an attempt had; ``seen_us``: of what lives."""
        if attempt.grouped and self.groups is not None:
            return sum(self.groups.cpu_us(attempt.name))
        # Orphans of it that we have reaped are counted already, and in nobody else's time.
        reaped_us = attempt.user_us + attempt.system_us if attempt.is_child else 0
        return seen_us + reaped_us

    def find_greedy(self, attempts: list[Attempt]) -> list[Attempt]:
        """Measure attempts, and return those that use more memory than they may, or are measured
        for other limits.
        """
        if not attempts:
            return []
        self.begin()
        self.measure(attempts)
        # Where the kernel holds the limit, what it counts is right: pages are shared.
        limits = self.groups is not None and self.groups.limits_memory
        for one in attempts:
            if 0 < one.limit_kib < one.max_mem_kib and not (limits and one.is_held):
                one.now = one.now._replace(greedy_kib=one.max_mem_kib)
        return [one for one in attempts if one.oom or one.now.greedy_kib or one.is_counted]

    def limit_cpu(self, attempt: Attempt) -> None:
        """Hold each process of an attempt to its present limit of CPU time."""
        if not attempt.is_counted or len(attempt.limits) <= CPU_AT:
            return
        seconds = -(-attempt.limits[CPU_AT] // 1_000_000)
        self.begin()
        for pid in self.pids(attempt):
            if pid == attempt.pid:
                continue  # the job shell notes the status
            with contextlib.suppress(OSError, ValueError):
                _, hard = resource.prlimit(pid, resource.RLIMIT_CPU)
                soft = seconds if hard == resource.RLIM_INFINITY else min(seconds, hard)
                resource.prlimit(pid, resource.RLIMIT_CPU, (soft if seconds else hard, hard))

    def note_group(self, attempt: Attempt) -> None:
        """Take from the control group what only it knows, before it is removed."""
        if not attempt.grouped or self.groups is None:
            return
        if attempt.limit_kib:
            attempt.oom = attempt.oom or self.groups.ooms(attempt.name) > 0
            if attempt.oom:
                peak_kib = self.groups.peak_kib(attempt.name)
                attempt.max_mem_kib = max(attempt.max_mem_kib, peak_kib)
        if not attempt.is_child or attempt.is_counted:
            user_us, system_us = self.groups.cpu_us(attempt.name)
            attempt.user_us = max(attempt.user_us, user_us)
            attempt.system_us = max(attempt.system_us, system_us)


def to_measure(attempts: Iterable[Attempt], now_us: int) -> tuple[list[Attempt], int]:
    """Return the attempts that are to be measured now, and in what time it is to be done again."""
    running = [one for one in attempts if one.state == RUNNING]
    limited = any(one.limit_kib or one.is_counted for one in running)
    old = [one for one in running if now_us - one.started_us >= _SAMPLE_AGE_US]
    return old, _SAMPLE_LIMITED_US if limited else _SAMPLE_US


def _send(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        # It is gone, or is no longer the job's; or the number is no signal's.
        with contextlib.suppress(OSError, OverflowError):
            os.kill(pid, number)
