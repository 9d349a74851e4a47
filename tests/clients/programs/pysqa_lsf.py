"""pysqa: a folder that describes queues; submit, status, delete."""

import sys
import time
from pathlib import Path

from pysqa import QueueAdapter

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
#BSUB -W {{run_time_max}}
{{command}}
"""


def main() -> None:
    folder = Path("queues")
    folder.mkdir()
    (folder / "queue.yaml").write_text(QUEUES)
    (folder / "queue.sh").write_text(SCRIPT)
    adapter = QueueAdapter(directory=str(folder))
    work = Path.cwd() / "work"
    work.mkdir()
    number = adapter.submit_job(
        queue="queue", job_name="short", working_directory=str(work), cores=2, run_time_max=600,
        command="echo done on $LSB_MCPU_HOSTS",
    )  # fmt: skip
    until = time.monotonic() + 90
    while adapter.get_status_of_job(process_id=number) in ("running", "pending"):
        assert time.monotonic() < until
        time.sleep(0.5)
    print("first", adapter.get_status_of_job(process_id=number), (work / "time.out").exists())
    other = adapter.submit_job(
        queue="queue", job_name="long", working_directory=str(work), cores=1, run_time_max=600,
        command="sleep 300",
    )  # fmt: skip
    print("second", adapter.get_status_of_job(process_id=other))
    adapter.delete_job(process_id=other)
    # What is killed is listed until its processes are gone, as with LSF.
    until = time.monotonic() + 30
    while len(adapter.get_queue_status()) and time.monotonic() < until:
        time.sleep(0.5)
    print("left", len(adapter.get_queue_status()))


if __name__ == "__main__":
    sys.exit(main())
