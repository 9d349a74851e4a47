"""Commands of LSF that XCE has not: each is there, and says what to use instead.

A script that calls one gets a sentence and exit status 255 in place of "command not found".
"""

from __future__ import annotations

import sys

from xce.cli.lsf.front import FAILED, Context, run_main
from xce.cli.lsf.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

_NO_RESERVATIONS = "queues hold reservations for blocked jobs by 'backfill' in queues.yaml"
ABSENT = {
    "battr": "attributes of hosts stand in hosts.yaml",
    "bclusters": "there is one cluster: use lsclusters",
    "bconf": "configuration is in files: use 'xceadmin check'",
    "bdata": "there is no data manager",
    "bentags": "there is no energy accounting",
    "bjdepinfo": "use 'xcecli why ID', which names what a job waits for",
    "bladmin": "there is no licence scheduler: declare pools in supply.yaml",
    "blimits": "use 'bqueues -l' for limits, 'bhosts -s' for what is reserved",
    "blstat": "there is no licence scheduler: use 'bhosts -s'",
    "bmig": "use bchkpnt -k, and brestart -m",
    "bresize": "submit another job",
    "brlainfo": "use lshosts -l",
    "brsvadd": _NO_RESERVATIONS,
    "brsvdel": _NO_RESERVATIONS,
    "brsvmod": _NO_RESERVATIONS,
    "brsvs": _NO_RESERVATIONS,
    "bsla": "there are no service classes: use priority and shares of queues",
    "bslots": "use 'bhosts' for free slots, 'xcecli why ID' for when a job can start",
    "bstage": "there is no data manager",
    "btrain": "estimate with bsub -We",
    "ch": "use 'bsub -m HOST'",
    "lsgrun": "use bsub -m",
    "lslogin": "use ssh",
    "lsmon": "use 'watch lsload'",
    "lsplace": "use 'bhosts -R'",
    "lsrcp": "use scp",
    "lsrun": "use 'bsub -K'",
    "lsreghost": "hosts are named in hosts.yaml",
    "lsrtasks": "there are no task lists",
    "lsltasks": "there are no task lists",
    "lseligible": "use 'bhosts -R'",
    "lstcsh": "use a shell in a job",
    "lsacct": "use bacct",
    "lsacctmrg": "use bacct",
    "lsmake": "run make in a job",
}
"""Command -> what to use instead."""


def execute_named(name: str, context: Context) -> int:
    """Say that a command is not there."""
    context.err(f"{name}: this command of LSF is not in XCE; {ABSENT[name]}.")
    return FAILED


def main(name: str = "") -> NoReturn:
    """Refuse the command by whose name this was started."""
    name = name or sys.argv[0].rpartition("/")[2]
    options = Options({}, {}, bundled=False)
    usage = f"Usage: {name}\n  not in XCE: {ABSENT[name]}\n"
    sys.argv[1:] = [word for word in sys.argv[1:2] if word in {"-h", "-help", "-V"}]
    run_main(options, usage, lambda context: execute_named(name, context))
