"""dask-jobqueue: two workers are batch jobs, compute, and are killed when the cluster closes."""

import sys

from dask.distributed import Client
from dask_jobqueue import LSFCluster


def square(number: int) -> int:
    return number * number


def main() -> None:
    cluster = LSFCluster(
        queue="normal",
        cores=1,
        memory="200MB",
        walltime="00:10",
        project="dask project",
        log_directory="logs",
        local_directory="scratch",
        interface="lo",
    )
    cluster.scale(2)
    with cluster, Client(cluster) as client:
        client.wait_for_workers(2, timeout=120)
        total = client.submit(sum, client.map(square, range(50))).result(timeout=60)
    print("sum", total)


if __name__ == "__main__":
    sys.exit(main())
