"""Pre- and post-execution commands: the steps of an attempt around its job shell. No I/O.

An attempt with hooks is a course of steps, each a shell of its own in the same run directory: pre
hooks in order, the job, post hooks in order. A pre hook that fails, or that is killed, leads to the
post hooks; these run whichever way the job ended, and nothing that is decided meanwhile reaches
them, but for their time limit. How the job itself ended is kept here until they are over.

The first line of the attempt's intent says what the steps are; each that begins is noted behind it,
with what is known of those before, so that another shepherd goes on with the next one: a step whose
shell has not written its pid has done nothing and is begun again, one that was lost has failed.
"""

from typing import Any, Final, NamedTuple

PRE: Final = "pre"
MAIN: Final = "main"
POST: Final = "post"
TRANSFER: Final = "file transfer"
"""So begins the origin of a step that copies a file."""
CAUSE_PRE_EXEC: Final = 28
CAUSE_STATUS_LOST: Final = 100
CAUSE_OUTPUT: Final = 104
"""Numbers of `xce.model.job.EndCause`, which this program cannot import."""
POST_DONE: Final = 1
POST_FAILED: Final = 2
_TRANSFER_FAULTS: Final = {
    66: "what is to be copied is no file that can be read",
    68: "this host does not have the directory of the local file, and no worker of this cluster "
    "runs on the host of the submission: copy within a directory that both see",
    69: "the host of the submission could not be reached",
    73: "its copy cannot be written",
    74: "there is no room for its copy",
    75: "whether it was added is not known: a worker ended while it was",
    76: "it is too long to be carried between hosts",
    77: "nothing can run as the job's user on the host of the submission",
    78: "on the host of the submission its directory is another one than it was then",
}
"""By the exit status of the step (`xce.step.file_codes`)."""


class Step(NamedTuple):
    """One shell of an attempt."""

    kind: str
    command: str
    """Of a hook: what the user's shell runs."""
    origin: str
    """Who asks for it: ``queue``, ``application`` or ``job``; or a `TRANSFER`."""

    @property
    def is_transfer(self) -> bool:
        """Whether it copies a file."""
        return self.origin.startswith(TRANSFER)

    @property
    def name(self) -> str:
        """What it is called in reasons."""
        return f"the {self.kind}-execution command of the {self.origin}"


class Result(NamedTuple):
    """How a step ended."""

    code: int
    signal: int = 0
    cause: int = 0
    started_us: int = 0
    ended_us: int = 0
    detail: str = ""
    pid: int = 0
    """Its shell's; 0: it had none."""
    sent: int = 0
    """The last of the user's signals that it was sent; 0: none."""


_MAIN_STEP: Final = Step(MAIN, "", "job")


class Course:
    """The steps of one attempt, and how far it is.

    Args:
        plan: What the steps need: ``steps`` (rows of `Step`), ``limit_us``, and whatever starting
            them takes, which is not looked at here.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        rows = [Step(*row) for row in plan["steps"]]
        self.plan = plan
        self.steps = [
            *(row for row in rows if row.kind == PRE),
            _MAIN_STEP,
            *(row for row in rows if row.kind == POST),
        ]
        self.at = 0
        self.began_us = 0
        self.is_late = False
        """The step took too long and was killed."""
        self.is_recorded = False
        """The intent is written."""
        self.is_over = False
        self.main = Result(0)
        """How the job itself ended, once it has."""
        self.post = 0
        """`POST_DONE` or `POST_FAILED`; 0: no post hook has ended."""
        self.post_detail = ""

    @property
    def step(self) -> Step:
        """The present step."""
        return self.steps[self.at]

    @property
    def is_posting(self) -> bool:
        """Whether the job itself is over, and post hooks run."""
        return self.step.kind == POST and not self.is_over

    @property
    def due_us(self) -> int:
        """When the present step has taken too long; 0: never."""
        limit_us = int(self.plan["limit_us"])
        if self.step.kind == MAIN or self.is_over or self.is_late or not limit_us:
            return 0
        return self.began_us + limit_us

    def begin(self, now_us: int) -> None:
        """Note that the present step begins."""
        self.began_us, self.is_late = now_us, False

    def facts(self) -> list[Any]:
        """Return what is known of the steps before, to be noted."""
        return [self.at, self.began_us, list(self.main), self.post, self.post_detail]

    def recall(self, facts: list[Any]) -> None:
        """Take back what was noted."""
        self.at, self.began_us, main, self.post, self.post_detail = facts
        self.main = Result(*main)

    def take(self, result: Result, *, has_run: bool = True) -> None:
        """Note how the present step ended, and go to the next; ``is_over``: that was the last.

        A job that has not run has nothing to be copied.
        """
        step = self.step
        if step.kind == POST:
            self._take_post(step, result)
        elif step.kind == PRE and not result.code and not result.cause and not self.is_late:
            pass
        else:
            if step.kind == PRE:
                result, has_run = self._failed(step, result), False
            self.main = result
            place = self.steps.index(_MAIN_STEP) + 1
            while not has_run and place < len(self.steps) and self.steps[place].is_transfer:
                place += 1
            self._go_to(place)
            return
        self._go_to(self.at + 1)

    def _go_to(self, place: int) -> None:
        self.is_over = place >= len(self.steps)
        self.at = min(place, len(self.steps) - 1)

    def _failed(self, step: Step, result: Result) -> Result:
        """Return how a job ends whose pre hook failed or was ended: it has not run."""
        result = result._replace(started_us=0)
        if result.cause not in (0, CAUSE_STATUS_LOST):
            return result
        detail = self._failure(step, result)
        cause = CAUSE_OUTPUT if step.is_transfer else CAUSE_PRE_EXEC
        return result._replace(cause=cause, code=result.code or 1, detail=detail)

    def _take_post(self, step: Step, result: Result) -> None:
        if not result.code and not self.is_late:
            self.post = self.post or POST_DONE
            return
        failure = self._failure(step, result)
        self.post = POST_FAILED
        self.post_detail = "; ".join(filter(None, (self.post_detail, failure)))

    def _failure(self, step: Step, result: Result) -> str:
        late = f"took longer than {int(self.plan['limit_us']) // 1_000_000} s"
        if step.is_transfer:
            fault = _TRANSFER_FAULTS.get(result.code, f"exit status {result.code}")
            what = step.origin.removeprefix(TRANSFER).strip()
            return f"{TRANSFER} failed: {what}: {late if self.is_late else result.detail or fault}"
        if self.is_late:
            return f"{step.name} {late}"
        if result.detail:
            return f"{step.name} failed: {result.detail}"
        return f"{step.name} ended with exit status {result.code}"
