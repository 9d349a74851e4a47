"""parsl: a block of one whole node (`-nnodes 1`), or of tasks, runs Python functions."""

import sys

import parsl
from parsl.config import Config
from parsl.executors import HighThroughputExecutor
from parsl.launchers import SimpleLauncher
from parsl.providers import LSFProvider


@parsl.python_app
def double(number: int) -> int:
    return 2 * number


def main(by_nodes: bool) -> None:
    provider = LSFProvider(
        queue="normal",
        project="science",
        walltime="00:10:00",
        init_blocks=1,
        max_blocks=1,
        nodes_per_block=1,
        request_by_nodes=by_nodes,
        cores_per_block=None if by_nodes else 1,
        cores_per_node=None if by_nodes else 1,
        launcher=SimpleLauncher(),
        cmd_timeout=60,
    )
    executor = HighThroughputExecutor(
        label="htex", address="127.0.0.1", max_workers_per_node=1, provider=provider,
        encrypted=False,
    )  # fmt: skip
    with parsl.load(Config(executors=[executor], strategy="none", run_dir="runs")):
        print("doubles", [one.result(timeout=180) for one in [double(n) for n in range(5)]])
        statuses = executor.provider.status(list(executor.blocks_to_job_id.values()))
        print("states", [one.state.name for one in statuses])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] == "nodes"))
