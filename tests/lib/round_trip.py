"""A submission to a job, the job to a jobspec, and the jobspec to a job again."""

from typing import NamedTuple

import msgspec

from xce.apiserver.identity import Caller
from xce.apiserver.submission import SubmissionCompiler
from xce.apiserver.submission_body import SubmissionBody
from xce.cli.xcecli.render import render_yaml
from xce.jobspec.render import Standing, render_spec
from xce.model.config import AppConfig, HostConfig, QueueConfig, ShareConfig
from xce.model.job import ArraySpec, JobSpec
from xce.model.request import ClassKey
from xce.testing.builders import ALICE, RecordedController, cluster, submit

HOSTS = [
    HostConfig(name=f"h{at}", slots=8, mem_mib=64_000, labels={"switch": f"s{at}", "block": "b1"})
    for at in (1, 2)
]
SHARES = (ShareConfig(name="alice"),)
QUEUES = [
    QueueConfig(name="normal", default=True, exclusive=True, default_run_limit_us=7_200_000_000),
    QueueConfig(name="night", priority=50, exclusive=True, rerunnable=True),
    QueueConfig(name="shared", fairshare=(ShareConfig(name="dev", members=SHARES),)),
]
APPS = (
    AppConfig(name="fluent", resreq="select[mem > 100] rusage[mem=1G]", run_limit_us=3_600_000_000),
)
SURROUNDINGS = {"cwd": "/home/alice", "home": "/home/alice", "from_host": "login", "env": ["A=1"]}
"""What comes from the shell in which a job is submitted."""


class Stored(NamedTuple):
    """What the cluster keeps of a job that was submitted."""

    spec: JobSpec
    key: ClassKey
    array: ArraySpec | None
    is_held: bool
    begin_at_us: int
    dependency: object


class Bench:
    """A cluster that takes submissions as REST has them."""

    def __init__(self, **settings: object) -> None:
        self.controller: RecordedController = cluster(
            HOSTS, queues=QUEUES, levels=("switch", "block"), applications=APPS, **settings
        )
        # Who has not told which machine it is may be that of any file.
        self.controller.state.hosts.boot_ids[0] = ""
        self._compiler = SubmissionCompiler(host="login")
        self._blobs: dict[str, bytes] = {}

    def submit(self, body: dict[str, object]) -> int:
        """Submit a body and return the job's number."""
        typed = msgspec.convert({**SURROUNDINGS, **body}, SubmissionBody)
        config = self.controller.state.config
        compiled = self._compiler.compile(typed, Caller(ALICE, is_admin=False), config)
        self._blobs.update(compiled.blobs)
        return submit(self.controller, compiled.submission)

    def stored(self, job_id: int) -> Stored:
        """Return what is kept of a job."""
        state = self.controller.state
        job = state.jobs[job_id]
        return Stored(
            state.spec(job), state.key(job), job.array, bool(job.held), job.begin_at_us,
            job.dependency,
        )  # fmt: skip

    def shown(self, job_id: int) -> str:
        """Return a job's jobspec as ``xcecli info --spec`` prints it."""
        found = self.stored(job_id)
        standing = Standing(
            array_limit=found.array.limit if found.array else 0,
            hold=found.is_held,
            begin_at_us=found.begin_at_us,
            queue_reruns=self.controller.state.queues[found.key.queue].rerunnable,
        )
        script = self._blobs[found.spec.script].decode()
        return render_yaml(render_spec(found.spec, found.key, script=script, standing=standing))

    def again(self, body: dict[str, object]) -> tuple[Stored, Stored, str]:
        """Return what is kept of a submission, and of its jobspec submitted anew, and that."""
        first = self.submit(body)
        text = self.shown(first)
        second = self.submit({"spec": text})
        assert self.shown(second) == text
        return self.stored(first), self.stored(second), text
