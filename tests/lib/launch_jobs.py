"""Jobs with launch types, and a real MPI program for them."""

import shutil
import subprocess
import textwrap
from pathlib import Path

from live import Live

HAS_MPI = bool(shutil.which("mpirun") and shutil.which("mpicc"))
SPEC = """\
version: 1
command: |
{command}
roles: [{{name: main, count: {count}, launch: {launch}, resreq: "span[ptile={per_host}]"}}]
"""
HELLO = """\
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
  int rank, size, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  printf("rank %d of %d on %s: sum %d\\n", rank, size, getenv("HOSTNAME"), sum);
  MPI_Finalize();
  return rank == 1 ? 7 : 0;
}
"""

BESIDE_MPI = """\
version: 1
roles:
  - {{name: watch, command: sleep 300}}
  - name: solve
    count: 3
    launch: mpi
    resreq: "rusage[gpu={gpu}]"
    command: |
      echo "index $XCE_ROLE_INDEX on $HOSTNAME rank $XCE_RANK gpu $CUDA_VISIBLE_DEVICES"
      exec ./hello
relations: [{{kind: sidecar-of, from: watch, to: solve}}]
"""


def submit_launch(
    live: Live, launch: str, command: str, *, count: int = 4, per_host: int = 2, **members: object
) -> int:
    """Submit a job of this launch type that finds the cluster's commands."""
    text = SPEC.format(
        launch=launch, command=textwrap.indent(command, "  "), count=count, per_host=per_host
    )
    body = {
        "spec": text, "cwd": str(live.home), "env": [f"PATH={live.environ['PATH']}"],
        "umask": 0o022, **members,
    }  # fmt: skip
    return live.submit_all([body])[0]


def build_hello(place: Path, program: Path) -> None:
    """Compile an MPI program whose ranks add up their numbers, and of which rank 1 ends with 7."""
    (place / "hello.c").write_text(HELLO)
    subprocess.run(["mpicc", str(place / "hello.c"), "-o", str(program)], check=True, timeout=120)
