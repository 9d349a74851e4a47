"""Why a parameter of LSF has no counterpart in XCE: tables of reasons, by file and name.

Nothing is left out of a report: what no table knows is said to be unknown.
"""

import re
from typing import Final

_PLACES: Final = "XCE has one state directory; see 'xce up --dir'"
_PORTS: Final = "components talk over sockets in the state directory"
_LOGS: Final = "every daemon logs JSON lines; see 'xce logs'"
_MAIL: Final = "write mail: {sendmail: PATH} or {smtp: HOST:PORT} into xce.yaml"
_LOAD: Final = "load thresholds are of queues: load_sched in queues.yaml says when jobs start"
_PERIODS: Final = "XCE acts on what happens, not by a period"
_MEMORY: Final = "-M is enforced for the whole job by the host's cgroup"
_HOOKS: Final = "hooks run on the first host: pre_exec and post_exec of a queue or profile"
_GPU: Final = "workers find the GPUs of their hosts; gpu_policy in xce.yaml says how they are given"
_LIMITS: Final = "limits of users, hosts and projects are not built yet"
_MIGRATE: Final = "jobs say it themselves (bsub -k), and nothing is migrated"
_HOSTSPEED: Final = "run times are real time: hosts have no CPU factors"
_LSF_ONLY: Final = "it is about LSF's own daemons"

LSF_CONF: Final[tuple[tuple[str, str], ...]] = (
    (r"LSF_LOG.*|LSB_LOG.*|LSF_DEBUG.*|LSB_DEBUG.*|.*_LOG_MASK|LSB_CMD_LOG.*|LSF_CMD_LOG.*", _LOGS),
    ((r"LSF_(CONFDIR|ENVDIR|BINDIR|SERVERDIR|LIBDIR|INDEP|MACHDEP|TOP|VERSION|MANDIR|INCLUDEDIR|"
     r"MISC|XBINDIR|SHAREDIR|TMPDIR)|LSB_(CONFDIR|SHAREDIR|LOCALDIR)|XLSF_.*"), _PLACES),
    (r"LSF_.*_PORT|LSB_.*_PORT", _PORTS),
    (r"LSB_MAIL.*|LSF_MAIL.*", _MAIL),
    ((r"LSB_(RESOURCE_ENFORCE|JOB_MEMLIMIT|MEMLIMIT_ENFORCE|MEMLIMIT_ENF_CONTROL|CGROUP.*)|"
     r"LSF_(PROCESS_TRACKING|LINUX_CGROUP_ACCT|CGROUP.*)"), _MEMORY),
    (r"LSF_STRICT_RESREQ", "requirements are always read strictly"),
    (r"LSF_STRICT_CHECKING|LSF_AUTH.*|LSF_USE_HOSTEQUIV|LSF_ROOT_.*|LSF_ENABLE_EAUTH|LSF_EAUTH.*",
     "users are known by the credentials of their process"),
    (r"LSB_STDOUT_DIRECT", "output is always written directly"),
    (r"LSF_MASTER_LIST|LSF_SERVER_HOSTS|LSF_DYNAMIC_HOST_.*|LSF_HOST_ADDR_RANGE|LSF_GET_CONF",
     "hosts are named in hosts.yaml"),
    ((r"LSB_JOBID_DISP_LENGTH|LSB_SHORT_HOSTLIST|LSB_DISPLAY_YEAR|LSB_BJOBS_.*|LSB_HMS_.*|"
     r"LSB_UNIT_FOR_JOBS_DISPLAY"), "set it in the environment of the user: XCE's bjobs reads it"),
    (r"LSB_GPU_.*|LSF_GPU_.*|LSB_.*_GPU.*|LSF_.*_GPU.*|LSF_ENABLE_DCGM|LSF_DCGM.*", _GPU),
    (r"LSB_SUB_.*|LSB_ESUB.*|LSF_.*SUB.*", "esub scripts are not built yet"),
    ((r"LSF_(LIM|RES|PIM|ELIM|LICENSE|DAEMON|EGO|PE|RSH|STRIP|API|TELNET|LSLOGIN|RESOURCE)_?.*|"
     r"LSB_(MBD|SBD|MAX|QUERY|NCPU|NTRIES|SIGSTOP|DISABLE|SUBK|NQS|BSUB|SET|TSJOB)_?.*|"
     r"EGO_.*|LSF_.*TIMEOUT|LSF_.*INTERVAL|LSF_ID_PORT|LSF_UNIT.*|LSF_.*"), _LSF_ONLY),
)  # fmt: skip
"""Patterns of names, the first that matches counts, and why there is no counterpart."""
LSB_PARAMS: Final[tuple[tuple[str, str], ...]] = (
    ((r"MBD_SLEEP_TIME|SBD_SLEEP_TIME|JOB_ACCEPT_INTERVAL|JOB_SCHEDULING_INTERVAL|.*_UPDATE_PERIOD|"
     r"PEND_REASON_UPDATE_INTERVAL|MBD_.*|NEWJOB_REFRESH|SUB_TRY_INTERVAL|.*_INTERVAL"), _PERIODS),
    (r"MAX_JOBID|MAX_JOB_NUM|MAX_ACCT.*|ACCT_ARCHIVE.*|MAX_.*ARCHIVE.*",
     "ids are never used again, and the history forgets nothing"),
    (r"MAX_PEND_.*|PEND_JOB.*|MAX_SBD_.*", _LIMITS),
    (r"MAX_USER_PRIORITY", "-sp takes any priority from 1 on"),
    (r"JOB_PRIORITY_OVER_TIME", "priorities do not grow while jobs wait"),
    ((r"CPU_TIME_FACTOR|RUN_TIME_FACTOR|RUN_JOB_FACTOR|FAIRSHARE_.*|COMMITTED_RUN_TIME_FACTOR|"
     r"ENABLE_HIST_RUN_TIME|RUN_TIME_DECAY"), "fairshare counts slots by time with one formula"),
    (r"DEFAULT_HOST_SPEC|ABS_RUNLIMIT", _HOSTSPEED),
    (r"RESOURCE_RESERVE_PER_(TASK|SLOT)", "rusage[] is per task in XCE: what =Y means"),
    (r"PARALLEL_SCHED_BY_SLOT", "-n counts slots in XCE: what =Y means"),
    (r"JOB_DEP_LAST_SUB", "a job name in -w means all own jobs of that name: what 0 means"),
    (r"PREEMPT.*", "who preempts whom stands in queues.yaml"),
    (r"JOB_INCLUDE_POSTPROC", "a job is over when its post hooks are: what =Y means"),
    (r"JOB_POSTPROC.*|MAX_PREEXEC.*|LOCAL_MAX_PREEXEC.*|REMOTE_.*", _HOOKS),
    (r"BJOBS_RES_REQ_DISPLAY|TRACK_ELIGIBLE_PENDINFO|EADMIN.*", "bjobs shows it as it is"),
    (r"DETECT_IDLE.*", "idle_after of a queue says it (20 minutes)"),
    (r"JOB_SPOOL_DIR|.*_DIR", _PLACES),
    (r"GPU_.*|.*_GPU.*", _GPU),
)  # fmt: skip
QUEUE: Final[tuple[tuple[str, str], ...]] = (
    (r"STOP_COND|RESUME_COND|LOAD.*", "jobs are suspended by load_stop of a queue alone"),
    (r"NICE", "jobs run at the priority of their worker"),
    (r"UJOB_LIMIT|PJOB_LIMIT|HJOB_LIMIT|QJOB_LIMIT|JL/.*|MAX|MAX_SLOTS.*|.*_LIMIT", _LIMITS),
    (r"DISPATCH_WINDOW|DISPATCH_ORDER", "queues have run windows only"),
    (r"HOST_PRE_EXEC|HOST_POST_EXEC|JOB_STARTER|JOB_CONTROLS|JOB_ACTION.*", _HOOKS),
    (r"TERMINATE_WHEN", "jobs are suspended when a window closes"),
    (r"CHKPNT|MIG", _MIGRATE),
    (r"RES_REQ|RESRSV_LIMIT|DEFAULT_HOST_SPEC", "requirements stand with the jobs"),
    (r"ADMINISTRATORS", "administrators are of the whole cluster: xce.yaml"),
    (r"GPU_REQ|GPU_.*", _GPU),
    (r"CHUNK_JOB_SIZE", "starting a job costs so little that chunks gain nothing"),
    (r"NEW_JOB_SCHED_DELAY|JOB_ACCEPT_INTERVAL|RESUME_INTERVAL", _PERIODS),
    ((r"SLOT_POOL|SLOT_SHARE|APS_PRIORITY|FAIRSHARE_QUEUES|GUARANTEE.*|RCVJOBS_FROM|SNDJOBS_TO|"
     r"MAX_RSCHED_TIME|IMPT_.*|EXIT_.*|IGNORE_DEADLINE|"
     r"INTERRUPTIBLE_BACKFILL|RELAX_JOB_DISPATCH_ORDER|USE_PRIORITY_IN_POOL"),
     "XCE has no such policy"),
)  # fmt: skip
HOST: Final[tuple[tuple[str, str], ...]] = (
    (r"r15s|r1m|r15m|ut|pg|io|ls|it|tmp|swp|mem", _LOAD),
    (r"JL/U", _LIMITS),
    (r"DISPATCH_WINDOW", "queues have run windows, hosts have none"),
    (r"AFFINITY", "affinity[] needs no setting: workers tell which processors hosts have"),
    (r"EXIT_RATE|CHKPNT|MIG", "XCE has no such setting of hosts"),
)
USER: Final[tuple[tuple[str, str], ...]] = ((r".*", _LIMITS),)
APPLICATION: Final[tuple[tuple[str, str], ...]] = (
    (r"CHKPNT.*|MIG|NO_PREEMPT.*", _MIGRATE),
    (r"JOB_CWD|JOB_SIZE_LIST|ENV_VARS|CONTAINER|DOCKER.*|EXEC_DRIVER|BIND_JOB|JOB_STARTER|NICE",
     "profiles have no such key yet: let the job's script do it"),
    *QUEUE,
)  # fmt: skip
RESOURCES: Final[dict[str, str]] = {
    "limit": _LIMITS,
    "reservationusage": "rusage[] is per task; a job may write /host or /job",
    "guaranteedresourcepool": "there are no guarantees; queues have reservations and shares",
    "resourcereservation": "there are no advance reservations",
    "hostexport": "there is one cluster",
    "sharedresourceexport": "there is one cluster",
    "powerpolicy": "there are no providers yet",
}
UNKNOWN: Final = "XCE does not know this parameter"


def find_reason(table: tuple[tuple[str, str], ...], name: str) -> str:
    """Return why a parameter has no counterpart."""
    for pattern, reason in table:
        if re.fullmatch(pattern, name):
            return reason
    return UNKNOWN
