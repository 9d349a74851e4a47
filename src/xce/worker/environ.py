"""The environment of a job: the submitter's, the account's, LSF's variables and ours. Pure.

It is built in three layers, so that little is done for each element of an array: the base (of all
jobs of a user with the same submitted environment), the launch, the element.
"""

import posixpath
import re
from typing import Final, NamedTuple

from xce.model.effect import Launch
from xce.model.ids import Index
from xce.worker.bindings import binding_environment
from xce.worker.gpus import gpu_environment
from xce.worker.ranks import (
    HOSTS_MAX_BYTES,
    is_parallel,
    meeting_port,
    role_environment,
    slots_by_host,
)
from xce.worker.streams import expand_path, output_directory

DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
_NEVER: Final = re.compile(
    r"""HOME|PWD|OLDPWD|USER|LOGNAME|SHELL|LS_JOBPID|LSB_ACCT_MAP|LSB_EXIT_PRE_ABORT|LSB_EXIT_REQUEUE
    |LSB_EVENT_ATTRIB|LSB_HOSTS|LSB_INTERACTIVE\w*|LSB_JOBFILENAME|LSB_JOBGROUP|LSB_JOBID
    |LSB_JOBNAME|LSB_JOB_STARTER|LSB_QUEUE|LSB_RESTART|LSB_TRAPSIGS|LSB_XJOB_SSH|LSF_VERSION
    |VIRTUAL_HOSTNAME|LSB_SUB_\w*|TERM|TERMCAP|HOSTNAME|_
    |LSB_JOBINDEX\w*|LSB_BATCH_JID|LSB_DJOB_\w*|LSB_MCPU_HOSTS|LSB_OUTPUTFILE|LSB_ERRORFILE
    |LSB_INPUTFILE|LSB_EFFECTIVE_RSRCREQ|LSB_PROJECT_NAME|LSB_MAX_NUM_PROCESSORS|LSB_CLUSTER_NAME
    |(?:CUDA|ROCR|HIP)_VISIBLE_DEVICES\w*|CUDA_MPS_ACTIVE_THREAD_PERCENTAGE|NVIDIA_VISIBLE_DEVICES|LSB_GPU_\w*
    |LSB_CHKPNT_DIR|LSB_ECHKPNT_METHOD_DIR|LSB_OLD_JOBID|LSB_ERESTART_USRCMD
    |LS_EXEC_T|LS_SUBCWD|XCE_JOB\w*|XCE_ATTEMPT\w*|XCE_NTASKS|XCE_HOSTFILE|XCE_HOST_\w*|XCE_ROLE\w*
    |XCE_HOSTS_\w*|XCE_RANK\w*|XCE_LAUNCH_\w*|XCE_GPU\w*|XCE_BIND_\w*|LSB_BIND_\w*
    |LSB_AFFINITY_HOSTFILE|RM_CPU_TASK\d+
    |LSB_JOBEXIT_\w*|LSB_JOBPEND|LSB_JOBPIDS|LSB_JOBPGIDS
    |XCE_STEP_\w*|XCE_ENDPOINTS_\w*|XCE_PORT|XCE_HOST""",
    re.VERBOSE,
)
"""Never propagated by LSF, or set anew for each job: a job submitted from a job inherits none."""


MPS_DIRECTORIES: Final = ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY")
"""By which CUDA finds a daemon of MPS: of the site, or of a job."""


class HostFiles(NamedTuple):
    """Paths of the files that say which tasks are where."""

    grouped: str
    """A line for each slot, grouped by host."""
    ranked: str
    """A line for each slot in rank order."""
    ranks: str = ""
    """A line for each task, see `xce.worker.ranks.rankfile_text`; empty: there is but one."""


class Account(NamedTuple):
    """A user of the host."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str


def base_environment(blob: bytes, account: Account, host: str) -> dict[str, str]:
    """Return what the submitter's environment and the account say.

    Args:
        blob: ``NAME=value`` items, separated by NUL; bytes that are no UTF-8 are kept as they are.
        account: The job's user on this host.
        host: This host's name.
    """
    base = {"PATH": DEFAULT_PATH}
    # Of a job with a daemon of MPS, which is that job's alone.
    has_daemon = b"\0XCE_GPU_MPS=" in b"\0" + blob
    for item in blob.split(b"\0"):
        name, equals, value = item.partition(b"=")
        if not equals or not name:
            continue
        text = name.decode("utf-8", "surrogateescape")
        if _NEVER.fullmatch(text) is None and not (has_daemon and text in MPS_DIRECTORIES):
            base[text] = value.decode("utf-8", "surrogateescape")
    base["HOME"] = account.home
    base["USER"] = base["LOGNAME"] = account.name
    base["SHELL"] = account.shell
    base["HOSTNAME"] = host
    return base


def launch_environment(
    launch: Launch, *, cwd: str, script: str, files: HostFiles, submit_cwd: str
) -> dict[str, str]:
    """Return the variables that all elements of a launch share.

    Args:
        launch: What is started.
        cwd: The working directory.
        script: Path of the script on this host.
        files: Where the files lie that say which tasks are where.
        submit_cwd: The submission directory.
    """
    by_host = slots_by_host(launch)
    slots = sum(by_host.values())
    found = {
        "PWD": cwd,
        "LS_SUBCWD": submit_cwd,
        "LS_EXEC_T": "START",
        "LSB_JOBID": str(launch.job),
        "LSB_QUEUE": launch.queue,
        "LSB_PROJECT_NAME": launch.project,
        "LSB_JOBGROUP": launch.group or "/",
        "LSB_CLUSTER_NAME": launch.cluster,
        "LSB_SUB_HOST": launch.spec.from_host,
        "LSB_SUB_USER": launch.owner.user,
        "LSB_JOB_EXECUSER": launch.owner.user,
        "LSB_MCPU_HOSTS": " ".join(f"{host} {count}" for host, count in by_host.items()),
        "LSB_DJOB_HOSTFILE": files.grouped,
        "LSB_DJOB_RANKFILE": files.ranked,
        "LSB_DJOB_NUMPROC": str(slots),
        "LSB_MAX_NUM_PROCESSORS": str(max(launch.tasks_max, slots)),
        "LSB_JOBFILENAME": script,
        "LSB_EFFECTIVE_RSRCREQ": launch.resreq,
        "LSB_EXIT_PRE_ABORT": "99",
        "XCE_JOBID": str(launch.job),
        "XCE_NTASKS": str(slots),
        "XCE_HOST_NTASKS": str(next(iter(by_host.values()), slots)),
        "XCE_HOSTFILE": files.grouped,
    }
    names = " ".join(" ".join([host] * count) for host, count in by_host.items())
    if len(names) <= HOSTS_MAX_BYTES:
        found["LSB_HOSTS"] = names  # a longer one is left out, as LSF does
    if files.ranks:
        found["XCE_RANKFILE"] = files.ranks
        found |= role_environment(launch)
    terminal = launch.spec.terminal
    if terminal is not None:
        found["LSB_INTERACTIVE"] = "Y"
        if terminal.kind:
            found["TERM"] = terminal.kind
    if launch.array_end:
        found["LSB_JOBINDEX_STEP"] = str(launch.array_step)
        found["LSB_JOBINDEX_END"] = str(launch.array_end)
    return found


def element_environment(launch: Launch, index: Index, attempt: int) -> dict[str, str]:
    """Return the variables of one element; files without a pattern are the same for all."""
    job, spec = launch.job, launch.spec
    name = spec.name or spec.command
    found = {
        "LSB_JOBINDEX": str(index),
        "LSB_BATCH_JID": f"{job}[{index}]" if index else str(job),
        "LSB_JOBNAME": f"{name}[{index}]" if index else name,
        "XCE_JOBINDEX": str(index),
        "XCE_ATTEMPT": str(attempt),
    }
    found |= gpu_environment(launch, index)
    found |= binding_environment(launch, index)
    if is_parallel(launch):
        found["MASTER_ADDR"] = launch.hosts[0][0]
        found["MASTER_PORT"] = str(meeting_port(launch, index, attempt))
    if index in launch.restarted:
        found["LSB_RESTART"] = "Y"
    found |= checkpoint_environment(launch, index)
    files = spec.files
    directory = output_directory(launch, index, launch.hosts[0][0])
    for variable, path, above in (
        ("LSB_OUTPUTFILE", files.output, directory),
        ("LSB_ERRORFILE", files.error, directory),
        ("LSB_INPUTFILE", files.input, ""),
    ):
        if path:
            found[variable] = posixpath.join(above, expand_path(path, job=job, index=index))
    return found


def checkpoint_environment(launch: Launch, index: Index) -> dict[str, str]:
    """Return the variables that say where an element's checkpoints are and who writes them."""
    wanted = launch.spec.checkpoints
    if wanted is None:
        return {}
    name = f"{launch.job}[{index}]" if index else str(launch.job)
    return {
        "LSB_CHKPNT_DIR": posixpath.join(wanted.directory, name),
        "LSB_ECHKPNT_METHOD": wanted.method,
        "LSB_ECHKPNT_METHOD_DIR": launch.checkpoint_programs,
    }
