"""How the command of a job becomes its tasks, by the launch type. Pure; standard library only."""

import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from xce.client.ranks import Rank, hosts_of
from xce.step.environment import Meeting, task_arguments
from xce.step.plan import MPI, TORCH, Plan, TaskPlan

EXEC: Final = "exec"
"""The way of a script whose first line names its program."""
_CHUNK: Final = 96 * 1024
"""The kernel takes 128 KiB a word."""
_AS_FILE: Final = (
    'f="$XCE_JOB_HOST_DIR/script.$$"; n=$1; shift; while [ $n -gt 0 ]; do printf %s "$1"; shift; '
    'n=$((n - 1)); done > "$f" && chmod 700 "$f" && {run} "$f" "$@"'
)
"""Makes a file of the first words, whose number stands before them, and runs it with the others."""
_START_MPI: Final = 'exec "$XCE_LAUNCH_PYTHON" -IS "$XCE_LAUNCH_START" mpi "$@"'
_MEMBER: Final = (
    "set -f; n=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-$PMI_RANK}}; "
    'eval "own=\\$XCE_MPI_OWN_$n"; export "XCE_ROLE_INDEX=$n" $own; exec "$@"'
)
"""Gives a process that an MPI has started the variables of the member that it is."""
_RANK: Final = (
    "set -f; n=${OMPI_COMM_WORLD_RANK:-${PMIX_RANK:-$PMI_RANK}}; "
    "at=${OMPI_COMM_WORLD_LOCAL_RANK:-${MPI_LOCALRANKID:-$XCE_HOST_TASK_INDEX}}; "
    'eval "own=\\$XCE_MPI_OWN_$n"; '
    'export "XCE_RANK=$n" "XCE_HOST_TASK_INDEX=$at" ${own:-XCE_ROLE_INDEX=$n}; exec "$@"'
)
"""The same for one of the ranks of a whole job."""
_DIGITS: Final = re.compile(r"[0-9]+")


class LaunchError(Exception):
    """The job cannot be launched so."""


def script_argv(content: bytes, way: str, arguments: Sequence[str]) -> list[str]:
    """Return the command line that runs a script on a host that has no copy of it.

    Raises:
        LaunchError: It is no text.
    """
    if b"\0" in content:
        raise LaunchError("the script is no text")
    text = os.fsdecode(content)
    chunks = [text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK)]
    run = _AS_FILE.format(run="exec" if way == EXEC else "exec /bin/sh")
    return ["/bin/sh", "-c", run, "xce-launch", str(len(chunks)), *chunks, *arguments]


def torch_environment(
    rank: Rank, ranks: Sequence[Rank], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return what a process of ``torch.distributed`` finds, and a ``torchrun`` that is the task."""
    hosts = hosts_of(ranks)
    mates = sum(one.host == rank.host for one in ranks)
    address, port = environ.get("MASTER_ADDR", hosts[0]), environ.get("MASTER_PORT", "")
    node = str(hosts.index(rank.host))
    return {
        "MASTER_ADDR": address, "MASTER_PORT": port,
        "WORLD_SIZE": str(len(ranks)), "RANK": str(rank.rank),
        "LOCAL_WORLD_SIZE": str(mates), "LOCAL_RANK": str(rank.place),
        "NODE_RANK": node, "GROUP_RANK": node, "GROUP_WORLD_SIZE": str(len(hosts)),
        "PET_NNODES": str(len(hosts)), "PET_NODE_RANK": node, "PET_NPROC_PER_NODE": str(mates),
        "PET_MASTER_ADDR": address, "PET_MASTER_PORT": port,
    }  # fmt: skip


def role_ranks(plan: Plan, number: int) -> list[Rank]:
    """Return the tasks of a role as if they were all of a job."""
    role = plan.roles[number]
    on_host: dict[int, int] = {}
    found = []
    for place, task in enumerate(role.members):
        mates = on_host[task.host] = on_host.get(task.host, 0) + 1
        found.append(Rank(place, plan.hosts[task.host], mates - 1, role.name, place))
    return found


def role_environment(
    plan: Plan, number: int, place: int, meeting: Meeting, directory: str
) -> dict[str, str]:
    """Return what the launch type of a role tells a task of the others of its role.

    Args:
        plan: Of the step.
        number: The role's.
        place: The task's in its role.
        meeting: Where the tasks of the step are.
        directory: The job's on its first host.
    """
    role = plan.roles[number]
    if not role.meets:
        return {}
    where = {
        "MASTER_ADDR": meeting.addresses[role.tasks[0].host],
        "MASTER_PORT": str(meeting.doors.get(number, "")),
    }
    ranks = role_ranks(plan, number)
    if role.launch == TORCH:
        return torch_environment(ranks[place], ranks, where)
    owns = {
        f"XCE_MPI_OWN_{place}": " ".join(f"{name}={value}" for name, value in _own_of(task))
        for place, task in enumerate(role.members)
    }
    return where | owns | {"XCE_RANKFILE": f"{directory}/{rankfile_name(role.name)}"}


def _own_of(member: TaskPlan) -> list[tuple[str, str]]:
    rank = [("XCE_RANK", str(member.rank))] if member.rank >= 0 else []
    return [*rank, *member.env]


def rankfile_name(role: str) -> str:
    """Return how the file is called that says where the members of a role are."""
    return f"ranks-{role}"


def role_arguments(plan: Plan, number: int) -> list[str]:
    """Return what is executed for a task of a role."""
    role = plan.roles[number]
    argv = task_arguments(role)
    if role.launch != MPI:
        return argv
    return ["/bin/sh", "-c", _START_MPI, "mpi", "/bin/sh", "-c", _MEMBER, role.name, *argv]


def mpi_hostfile(ranks: Sequence[Rank], program: str) -> str:
    """Return a host file as an MPI's starter reads it."""
    slots = {host: sum(rank.host == host for rank in ranks) for host in hosts_of(ranks)}
    form = "{}:{}\n" if program == "hydra" else "{} slots={}\n"
    return "".join(form.format(host, count) for host, count in slots.items())


def mpi_program(version: str) -> str:
    """Return which MPI a starter belongs to, by what it says of its version.

    Raises:
        LaunchError: It is none that is known.
    """
    if "Open MPI" in version or "OpenRTE" in version:
        return "openmpi"
    if "HYDRA" in version or "Intel(R) MPI" in version:
        return "hydra"
    raise LaunchError(f"mpirun is of no MPI that is known here: {version.strip()[:200]!r}")


def mpi_environment(agent: str, *, is_root: bool, is_one_machine: bool) -> dict[str, str]:
    """Return the variables by which MPI's starters use our agent.

    Args:
        agent: Its command line.
        is_root: Whether the job is root's, which Open MPI has to be told.
        is_one_machine: Whether the job's hosts are parts of one machine. Open MPI takes two daemons
            on one machine for one host and mixes up their shared memory; ranks talk by TCP then.
    """
    found = {
        "OMPI_MCA_plm_rsh_agent": agent,
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "OMPI_MCA_orte_leave_session_attached": "1",
        "PRTE_MCA_plm_ssh_agent": agent,
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "HYDRA_LAUNCHER": "rsh",
        "HYDRA_LAUNCHER_EXEC": agent,
        "I_MPI_HYDRA_BOOTSTRAP": "rsh",
        "I_MPI_HYDRA_BOOTSTRAP_EXEC": agent,
    }
    if is_one_machine:
        found |= {
            "OMPI_MCA_btl": "tcp,self", "OMPI_MCA_pml": "ob1", "OMPI_MCA_btl_tcp_if_include": "lo",
            "OMPI_MCA_oob_tcp_if_include": "lo",
        }  # fmt: skip
    if is_root:
        found |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return found


def rank_arguments(argv: Sequence[str]) -> list[str]:
    """Return what a MPI executes for each rank of a whole job."""
    return ["/bin/sh", "-c", _RANK, "rank", *argv]


def rank_owns(ranks: Sequence[Rank]) -> dict[str, str]:
    """Return the variables that tell each process of an MPI, which counts host by host, its rank.

    None are needed where ranks are counted so, too, and all are of one role.
    """
    order = {host: place for place, host in enumerate(hosts_of(ranks))}
    by_host = sorted(ranks, key=lambda rank: order[rank.host])
    if by_host == list(ranks) and len({rank.role for rank in ranks}) < 2:
        return {}
    return {
        f"XCE_MPI_OWN_{place}": f"XCE_RANK={rank.rank} XCE_HOST_TASK_INDEX={rank.place}"
        + (f" XCE_ROLE={rank.role} XCE_ROLE_INDEX={rank.number}" if rank.role else "")
        for place, rank in enumerate(by_host)
    }


def mpi_argv(program: str, ranks: Sequence[Rank], hostfile: str) -> list[str]:
    """Return the beginning of the command line that starts all ranks."""
    option = "-f" if program == "hydra" else "--hostfile"
    return ["mpirun", option, hostfile, "-n", str(len(ranks))]


def check_ranks(ranks: Sequence[Rank], environ: Mapping[str, str]) -> str:
    """Return what is wrong with the ranks of a job; empty: nothing."""
    seen: dict[int, Rank] = {}
    for rank in ranks:
        other = seen.setdefault(rank.rank, rank)
        if other is not rank:
            return f"rank {rank.rank} is there twice: on host {other.host} and on host {rank.host}"
    if sorted(seen) != list(range(len(ranks))):
        return f"the ranks are not 0 to {len(ranks) - 1}"
    count = environ.get("XCE_NTASKS", "")
    if count and count != str(len(ranks)):
        return f"there are {len(ranks)} ranks for {count} tasks"
    return ""


def check_devices(environ: Mapping[str, str], has_device: Callable[[int], bool]) -> str:
    """Return what is wrong with the GPUs that a task is to use; empty: nothing.

    Args:
        environ: Of a task on the host in question.
        has_device: Whether there is a device of that number.
    """
    count = environ.get("XCE_GPU_COUNT")
    if count is None:
        return ""
    visible = environ.get("XCE_GPUS", "")
    names = [name for name in visible.split(",") if name]
    if len(names) != len(set(names)):
        return f"a GPU is there twice: {visible}"
    if str(len(names)) != count:
        return f"{count} GPUs were given, and {len(names)} are visible: {visible or 'none'}"
    missing = [name for name in names if _DIGITS.fullmatch(name) and not has_device(int(name))]
    return f"GPU {missing[0]} is not there" if missing else ""
