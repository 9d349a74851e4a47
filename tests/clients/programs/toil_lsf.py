"""toil: a workflow of a parent and children, each a batch job."""

import sys

from toil.common import Toil
from toil.job import Job


def child(job: Job, number: int) -> int:
    return number * 10


def parent(job: Job) -> list[object]:
    return [job.addChildJobFn(child, n, memory="60M", cores=1, disk="1M").rv() for n in (1, 2)]


def main() -> None:
    options = Job.Runner.getDefaultOptions("./store")
    options.batchSystem = "lsf"
    options.statePollingWait = 1
    options.clean = "always"
    options.disableCaching = True
    options.logLevel = "INFO"
    options.disableProgress = True
    first = Job.wrapJobFn(parent, memory="60M", cores=1, disk="1M")
    with Toil(options) as toil:
        print("tens", toil.start(first))


if __name__ == "__main__":
    sys.exit(main())
