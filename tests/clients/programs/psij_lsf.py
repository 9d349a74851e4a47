"""PSI/J: jobs that end well, that fail, on whole nodes, with an environment of their own."""

import sys
from datetime import timedelta
from pathlib import Path

from psij import Job, JobAttributes, JobExecutor, JobSpec, ResourceSpecV1


def run(executor: JobExecutor, spec: JobSpec) -> None:
    job = Job(spec)
    executor.submit(job)
    status = job.wait(timeout=timedelta(seconds=120))
    assert status is not None
    print(spec.name, status.state.name, status.exit_code)


def main() -> None:
    executor = JobExecutor.get_instance("lsf")
    executor.config.queue_polling_interval = 1
    executor.config.initial_queue_polling_delay = 1
    attributes = JobAttributes(
        queue_name="normal", project_name="science", duration=timedelta(minutes=10)
    )
    for name, words, resources in (
        ("good", ["/bin/sh", "-c", 'echo "$GREETING"'], None),
        ("bad", ["/bin/sh", "-c", "exit 7"], None),
        ("wide", ["/bin/sh", "-c", "echo wide $LSB_MCPU_HOSTS"],
         ResourceSpecV1(node_count=2, processes_per_node=1, exclusive_node_use=False)),
    ):  # fmt: skip
        spec = JobSpec(
            executable=words[0],
            arguments=words[1:],
            name=name,
            directory=Path.cwd(),
            stdout_path=Path.cwd() / f"{name}.out",
            stderr_path=Path.cwd() / f"{name}.err",
            environment={"GREETING": "hello-psij"},
            attributes=attributes,
            resources=resources,
        )
        spec.inherit_environment = True
        run(executor, spec)


if __name__ == "__main__":
    sys.exit(main())
