"""executorlib: functions become batch jobs by way of a pysqa folder of the type LSF."""

import sys
from pathlib import Path

from executorlib import SlurmClusterExecutor

QUEUES = """\
queue_type: LSF
queue_primary: queue
queues:
  queue: {cores_max: 100, cores_min: 1, run_time_max: 259200, memory_max: 4000, script: queue.sh}
"""
SCRIPT = """\
#!/bin/bash
#BSUB -q normal
#BSUB -J {{job_name}}
#BSUB -o time.out
#BSUB -n {{cores}}
#BSUB -cwd {{working_directory}}
#BSUB -e error.out
{{command}}
"""


def add(left: int, right: int) -> int:
    return left + right


def main() -> None:
    folder = Path("queues")
    folder.mkdir()
    (folder / "queue.yaml").write_text(QUEUES)
    (folder / "queue.sh").write_text(SCRIPT)
    with SlurmClusterExecutor(
        pysqa_config_directory=str(folder.resolve()),
        cache_directory=str(Path("cache").resolve()),
        resource_dict={"cores": 1},
        block_allocation=False,
    ) as executor:
        first = executor.submit(add, 1, right=2)
        second = executor.submit(add, 10, right=20)
        print("sums", first.result(timeout=120), second.result(timeout=120))


if __name__ == "__main__":
    sys.exit(main())
