"""A configuration in LSF's words: the parameters of ``lsf.conf`` and ``lsb.params`` that it means.

What clients of LSF read (``bparams -a``, ``badmin showconf mbd``, the files below LSF_ENVDIR) is
this one list, so that they say the same. A parameter stands here only if XCE acts as it says.
"""

from typing import Final

import msgspec

from xce.model.config import ClusterConfig
from xce.model.ids import SECOND_US

LSF_CONF: Final = "lsf.conf"
LSB_PARAMS: Final = "lsb.params"
JOBID_MAX: Final = (1 << 63) - 1


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of LSF."""

    name: str
    value: str
    file: str
    """In which file LSF has it."""
    text: str
    """What it means, in a few words."""


def lsf_parameters(
    config: ClusterConfig, *, view_dir: str = "", version: str = ""
) -> tuple[Parameter, ...]:
    """Return the parameters that a configuration means.

    Args:
        config: The configuration.
        view_dir: Where `view_files` are; empty: nowhere.
        version: Of XCE.
    """
    return (*_of_the_cluster(config, view_dir, version), *_of_the_jobs(config))


def _of_the_cluster(config: ClusterConfig, view_dir: str, version: str) -> list[Parameter]:
    """Return those of ``lsf.conf``."""
    found = [
        ("LSF_VERSION", version, "version of XCE"),
        ("LSB_BSUB_PARSE_SCRIPT", _yes(config.lsf_parse_script), "#BSUB lines of a named script"),
        ("LSB_STDOUT_DIRECT", "Y", "output is written while a job runs, the report behind it"),
        ("LSF_STRICT_RESREQ", "Y", "requirement strings are read strictly"),
        ("LSB_JOB_MEMLIMIT", "Y", "-M is enforced for the whole job on a host"),
        ("LSB_BJOBS_CONSISTENT_EXIT_CODE", "N", "bjobs without jobs is no failure"),
    ]
    unit = config.lsf_unit_for_limits
    if unit != "classic":
        found.append(("LSF_UNIT_FOR_LIMITS", unit, "unit of sizes without one"))
    if view_dir:
        found += [
            ("LSF_CONFDIR", f"{view_dir}/conf", "directory of lsf.conf"),
            ("LSF_ENVDIR", f"{view_dir}/conf", "directory of lsf.conf"),
            ("LSB_CONFDIR", f"{view_dir}/conf/lsbatch", "above CLUSTER/configdir/lsb.params"),
            ("LSB_SHAREDIR", f"{view_dir}/work", "empty: XCE has a journal, not lsb.events"),
        ]
    return [Parameter(name, value, LSF_CONF, text) for name, value, text in found if value]


def _of_the_jobs(config: ClusterConfig) -> list[Parameter]:
    """Return those of ``lsb.params``."""
    default = next((queue.name for queue in config.queues if queue.default), "")
    found = [
        ("DEFAULT_QUEUE", default, "queue of jobs that name none"),
        ("DEFAULT_APPLICATION", config.default_application, "profile of jobs that name none"),
        ("DEFAULT_PROJECT", config.default_project, "project of jobs that name none"),
        ("MBD_SLEEP_TIME", "0", "seconds between looks at pending jobs: news is looked at at once"),
        ("SBD_SLEEP_TIME", "0", "seconds between looks at running jobs: ends are told at once"),
        ("JOB_ACCEPT_INTERVAL", "0", "a host takes the next job at once"),
        ("CLEAN_PERIOD", _seconds(config.clean_period_us), "how long bjobs -a lists ended jobs"),
        ("JOB_TERMINATE_INTERVAL", _seconds(config.kill_interval_us), "between INT, TERM, KILL"),
        ("MAX_JOB_ARRAY_SIZE", str(config.max_array_size), "most elements, and largest index"),
        ("MAX_JOB_REQUEUE", str(config.max_requeues), "requeues for an exit status, then PSUSP"),
        ("MAX_JOBID", str(JOBID_MAX), "ids are never used again"),
        ("RESOURCE_RESERVE_PER_TASK", "Y", "rusage[] is meant for each task"),
        ("PARALLEL_SCHED_BY_SLOT", "Y", "-n, ptile and hosts count slots"),
        ("ABS_RUNLIMIT", "Y", "run limits are not scaled by the speed of hosts"),
        ("JOB_DEP_LAST_SUB", "0", "a job name in -w means all own jobs of that name"),
        ("BJOBS_RES_REQ_DISPLAY", "brief", "what bjobs -l says of requirements"),
    ]
    if config.orphan_grace_us >= 0:
        text = "a job whose dependency can never hold ends after that"
        found.append(("ORPHAN_JOB_TERM_GRACE_PERIOD", _seconds(config.orphan_grace_us), text))
    return [Parameter(name, value, LSB_PARAMS, text) for name, value, text in found if value]


def view_files(config: ClusterConfig, *, view_dir: str, version: str) -> dict[str, str]:
    """Return the files that readers of LSF's configuration look for, by path below ``view_dir``."""
    parameters = lsf_parameters(config, view_dir=view_dir, version=version)
    conf = [f"{p.name}={p.value}" for p in parameters if p.file == LSF_CONF]
    # toil looks for it in lsf.conf, LSF has it in lsb.params.
    conf += [f"{p.name}={p.value}" for p in parameters if p.name == "RESOURCE_RESERVE_PER_TASK"]
    params = [f"{p.name} = {p.value}  # {p.text}" for p in parameters if p.file == LSB_PARAMS]
    note = "# Written by XCE for readers of LSF's files; the configuration itself is in config/."
    folder = f"conf/lsbatch/{config.cluster_name}/configdir"
    return {
        "conf/lsf.conf": "\n".join([note, *conf, ""]),
        f"{folder}/lsb.params": "\n".join(
            [note, "Begin Parameters", *params, "End Parameters", ""]
        ),
    }


def _yes(flag: bool) -> str:
    return "Y" if flag else "N"


def _seconds(span_us: int) -> str:
    return str(-(-span_us // SECOND_US))
