"""What the shepherd is told to have a checkpoint written, or a warning command run. Pure."""

import posixpath

from xce.worker.accounts import Accounts
from xce.worker.action import Checkpoint, Warn
from xce.worker.environ import (
    Account,
    HostFiles,
    base_environment,
    element_environment,
    launch_environment,
)
from xce.worker.order import CheckpointOrder, CheckpointShared, WarningOrder, WarningShared
from xce.worker.streams import working_directory


def checkpoint_order(action: Checkpoint, host: str, accounts: Accounts) -> CheckpointOrder:
    """Return the order for a checkpoint.

    The program finds no variables of who submitted the job, but those that tell of the job.
    """
    launch, index = action.launch, action.index
    owner, spec = launch.owner, launch.spec
    account = accounts.known(owner) or Account(
        owner.user, owner.uid, owner.gid, (), spec.home, "/bin/sh"
    )
    cwd, _ = working_directory(launch, index, host)
    files = HostFiles("", "")
    told = launch_environment(launch, cwd=cwd, script="", files=files, submit_cwd=spec.cwd)
    env = base_environment(b"", account, host) | {name: text for name, text in told.items() if text}
    env |= element_environment(launch, index, action.attempt)
    env["LS_EXEC_T"] = "CHKPNT"
    program = posixpath.join(launch.checkpoint_programs, f"echkpnt.{env['LSB_ECHKPNT_METHOD']}")
    flags = ["-f"] * action.forced + ["-k"] * action.ends
    shared = CheckpointShared(
        argv=[program, *flags, "-d", env["LSB_CHKPNT_DIR"]],
        env=env,
        cwd=cwd,
        umask=spec.umask,
        ends=action.ends,
        limit_us=launch.hook_limit_us,
    )
    return CheckpointOrder(action.job, index, action.attempt, action.count, shared)


def warning_order(action: Warn, host: str) -> WarningOrder:
    """Return the order for a warning command; the shepherd knows the job's environment."""
    launch, spec = action.launch, action.launch.spec
    cwd, _ = working_directory(launch, action.index, host)
    shared = WarningShared(
        command=spec.warning_command, cwd=cwd, umask=spec.umask, limit_us=launch.hook_limit_us
    )
    return WarningOrder(action.job, action.index, action.attempt, action.limit_us, shared)
