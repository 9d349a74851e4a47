"""The configuration that `xce up` writes into a fresh state directory (decision X-30)."""

import hashlib
import os
import re
import socket
from pathlib import Path
from typing import Final, NamedTuple

from xce.config.names import HOST_NAME, RESERVED_HOSTS, expand_names
from xce.config.parse import parse_config
from xce.model.errors import ConfigError, TextError
from xce.model.units import parse_supply_mib

WORKERS_MAX: Final = 1_000
GPUS_MAX: Final = 64
"""Most simulated GPUs of a host."""
_SEAL: Final = re.compile(r"# sealed ([0-9a-f]{16}): .*\n\Z")


MADE_UP_MAX: Final = 256
"""Most processors of a host that is one of several on this machine."""


class HostsWanted(NamedTuple):
    """What the options of ``xce up`` say about hosts; None: not said."""

    workers: int | None = None
    names: str | None = None
    slots: int | None = None
    mem: str | None = None
    gpus: int | None = None
    """Simulated GPUs of each host."""

    @property
    def is_given(self) -> bool:
        """Whether any option was given."""
        return any(value is not None for value in self)


def write_fresh_config(
    directory: Path, wanted: HostsWanted, *, cluster_name: str = "xce", listen: str = ""
) -> None:
    """Write the files that are missing.

    ``hosts.yaml`` is written anew when options ask for other hosts and nobody has edited it.

    Raises:
        ConfigError: The options make no sense, or ask for other hosts than a ``hosts.yaml`` that
            somebody has edited.
    """
    hosts = directory / "hosts.yaml"
    text = render_hosts(
        wanted, machine=machine_name(), cpus=cpu_count(), mem_mib=memory_mib(),
        has_gpus=Path("/dev/nvidia0").exists(),
    )  # fmt: skip
    parse_config({"hosts.yaml": text})
    if not hosts.exists():
        _store(hosts, text)
    elif wanted.is_given and _body(hosts.read_text()) != _body(text):
        if not _is_as_written(hosts.read_text()):
            raise ConfigError(
                f"{hosts} was edited and says which hosts there are; change it there, "
                "or remove it to have it written anew, and leave the options away"
            )
        _store(hosts, text)
    for name, content in (("xce.yaml", _XCE), ("queues.yaml", _QUEUES)):
        if not (directory / name).exists():
            if listen:
                content = content.replace("# listen: 10.0.0.1:7820    ", f"listen: {listen}")
            _store(directory / name, content.replace("CLUSTER", cluster_name))


def render_hosts(
    wanted: HostsWanted, *, machine: str, cpus: int, mem_mib: int, has_gpus: bool = False
) -> str:
    """Return ``hosts.yaml``: one host is the machine, whole; of several each is its part.

    Args:
        wanted: The options.
        machine: This machine's name.
        cpus: Its CPUs.
        mem_mib: Its memory in MiB.
        has_gpus: Whether it has GPUs, which only one host may give out.

    Raises:
        ConfigError: The options make no sense.
    """
    try:
        names, count = _names(wanted, machine)
        mem_asked_mib = 1 if wanted.mem is None else parse_supply_mib(wanted.mem)
    except TextError as error:
        raise ConfigError(error.message) from error
    slots = wanted.slots
    if slots is not None and not 1 <= slots <= 1_000_000:
        raise ConfigError(f"--slots {slots} is out of range: expected 1 to 1000000")
    if mem_asked_mib < 1:
        raise ConfigError(f"--mem {wanted.mem} is less than 1 MiB")
    lines = [f'- names: "{names}"']
    if slots is not None:
        lines.append(f"  slots: {slots}")
    elif count > 1:
        lines.append(f"  slots: {-(-cpus // count)}    # {cpus} CPUs / {count} hosts, rounded up")
    else:
        lines.append(f"  # slots: {cpus}    without it: the CPUs that its worker finds")
    if wanted.mem is not None:
        lines.append(f"  mem: {wanted.mem}")
    elif count > 1:
        lines.append(f"  mem: {mem_mib // count}M    # {mem_mib} MiB / {count} hosts")
    else:
        lines.append(f"  # mem: {mem_mib}M    without it: the memory that its worker finds")
    lines += _gpu_lines(wanted, count, has_gpus=has_gpus)
    if count > 1:
        cores = min(slots or -(-cpus // count), MADE_UP_MAX)
        lines.append(
            f"  processors: {{cores: {cores}}}    # made up: the hosts share those of one machine"
        )
    return _sealed(_HOSTS_HEAD + "\n".join(lines) + "\n")


def _gpu_lines(wanted: HostsWanted, count: int, *, has_gpus: bool) -> list[str]:
    if wanted.gpus is None:
        if has_gpus and count > 1:
            return ["  gpus: {count: 0}    # or each of the hosts would give all GPUs out"]
        return []
    if not 0 <= wanted.gpus <= GPUS_MAX:
        raise ConfigError(f"--gpus {wanted.gpus} is out of range: expected 0 to {GPUS_MAX}")
    domain = ", ".join(map(str, range(wanted.gpus)))
    linked = f", nvlink: [[{domain}]]" if wanted.gpus else ""
    return [f"  gpus: {{count: {wanted.gpus}, model: simulated, mem: 80G{linked}}}"]


def machine_name() -> str:
    """Return this machine's short name, or ``localhost`` when that is no name for a host."""
    name = socket.gethostname().split(".")[0]
    if HOST_NAME.fullmatch(name) and name.lower() not in RESERVED_HOSTS:
        return name
    return "localhost"


def cpu_count() -> int:
    """Return the CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def memory_mib() -> int:
    """Return this machine's memory in MiB."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024)


def _names(wanted: HostsWanted, machine: str) -> tuple[str, int]:
    """Return the pattern of names and how many hosts it means."""
    if wanted.names is not None:
        if wanted.workers is not None:
            raise TextError("--workers and --hosts exclude each other: the names say how many")
        count = len(expand_names(wanted.names))
        if count > WORKERS_MAX:
            raise TextError(f"--hosts means {count} hosts; at most {WORKERS_MAX} on one machine")
        return wanted.names, count
    count = 1 if wanted.workers is None else wanted.workers
    if not 1 <= count <= WORKERS_MAX:
        raise TextError(f"--workers {count} is out of range: expected 1 to {WORKERS_MAX}")
    return (machine, 1) if count == 1 else (f"{machine}-[1-{count}]", count)


def _sealed(text: str) -> str:
    digest = hashlib.blake2b(text.encode(), digest_size=8).hexdigest()
    return f"{text}# sealed {digest}: while nothing is edited, options of `xce up` rewrite it\n"


def _body(text: str) -> str:
    return _SEAL.sub("", text)


def _is_as_written(text: str) -> bool:
    return _SEAL.search(text) is not None and _sealed(_body(text)) == text


def _store(path: Path, text: str) -> None:
    """Write a file aside and move it into place."""
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    aside.write_text(text, encoding="utf-8")
    aside.chmod(0o644 if os.geteuid() == 0 else 0o600)
    aside.replace(path)


_HOSTS_HEAD: Final = """\
# The hosts of this cluster. `xce up` starts a worker on this machine for each of them.
# Changes are in effect after `xce down` and `xce up`; `xceadmin check` tells what is wrong.
#
# names:       one name or many: "g[01-08],b[1-3]"
# slots:       how many tasks may run at once
# mem:         memory to give out: 512G; a bare number is MiB
# tmp:         space below /tmp to give out, which rusage[tmp=...] takes: 200G
# swp:         swap space to give out, which rusage[swp=...] takes: 16G
# gpus:        {count: 8, model: H100, mem: 80G, nvlink: [[0, 1, 2, 3], [4, 5, 6, 7]]}; without it
#              those that its worker finds
# processors:  {sockets: 2, cores: 8, threads: 2, numa: 2}: made up ones, of which jobs with
#              affinity[] are told without being bound; without it those that its worker finds
# state:       ok | closed
# attributes:  {name: value} of attributes that resources.yaml declares
# and an amount for every counter that resources.yaml declares.
"""

_QUEUES: Final = """\
# The queues. One of them is the default. Only `name` is needed.
- name: normal
  default: true
  priority: 30              # larger goes first
  description: for all jobs that say nothing else
# - name: night
#   priority: 40
#   open: true              # takes new jobs
#   active: true            # starts jobs
#   run_limit: 12h          # ceiling of -W
#   default_run_limit: 1h   # where a job says none
#   overrun: 10h            # jobs that run longer are told by bjobs -x
#   underrun: 1m            # likewise those that are over sooner
#   idle: 0.1               # likewise those that use less CPU time than this share of their time
#   idle_after: 20m         # when they have run so long
#   tasks_min: 1            # floor and ceiling of -n
#   tasks_max: 64
#   mem_limit: 64G          # ceiling of -M
#   cpu_limit: 100h         # ceiling of -c, and where a job says none and nothing else is said
#   default_cpu_limit: 10h  # where a job says none
#   swap_limit: 64G         # these are ceilings of -v -p -T -S -D -F -C, and of jobs that say none
#   process_limit: 1000
#   thread_limit: 10000
#   stack_limit: 64M
#   data_limit: 64G
#   file_limit: 1T
#   core_limit: 0           # no core dumps
#   exclusive: true         # takes -x jobs
#   users: [ann, bob]       # who may submit; without it: all
#   run_windows: "20:00-8:00 6:0:00-0:24:00"    # when its jobs run: daily, or by day (0: Sunday)
#   preempt: [normal]       # queues of lower priority whose jobs give way for its own
#   preemption: suspend     # suspend | requeue | kill: how its own jobs give way
#   policy: fairshare       # fcfs | sjf | fairshare: how its jobs are ordered
#   fairshare: [{name: ann, shares: 10}, {name: default, shares: 1}]
#   backfill: easy          # none | easy | conservative
#   reservations: 1         # how many of its blocked jobs hold a reservation
#   requeue_exit_values: "99 EXCLUDE(7)"   # start anew for these; with 7 on another host
#   success_exit_values: "3"               # done with these, too
#   pre_exec: /site/check   # runs before each of its jobs, as the job's user
#   post_exec: /site/clean  # runs after each of them, however it ended
#   max_requeues: 5         # then the job is held
#   interactive: refuse     # allow | refuse | only: bsub -I, -Ip, -Is
#   rerunnable: true        # jobs that do not say are started anew when their host fails
#   load_sched: {r1m: 2}    # by load index: nothing starts on a host that is worse
#   load_stop: {r1m: 8}     # where it is worse its jobs are suspended, one by one
#   hosts: "g[01-04]"       # where its jobs may run; without it: everywhere
"""

_XCE: Final = """\
# The cluster as a whole. A key that is left out has the value that is shown.
cluster_name: CLUSTER
# mode: production          # production | test: test tools and plaintext on this machine only
# listen: 10.0.0.1:7820     # where workers of other hosts connect; see xceadmin init
# admins: []                # users who may act on everybody's jobs and on hosts, beside the owner
# clean_period_s: 3600      # how long finished jobs are listed by bjobs -a; by id they always are
# max_array_size: 10000000
# default_project: default
# orphan_grace_s: 0         # how long a job pends whose dependency can never hold, or: forever
# term_grace_s: 600         # from the run limit's USR2 to the first INT
# kill_interval_s: 10       # between INT, TERM and KILL
# key_window_s: 3600        # how long a repeated submit is recognised
# output_retention_s: 30d   # how long output without -o is kept
# time_zone: UTC            # of run_windows: a name like Europe/Berlin
# preemption: suspend       # suspend | requeue | kill: of queues that do not say
# default_application: ""   # application profile (applications.yaml) of jobs that name none
# pre_exec_tries: 5         # so often a job is tried whose pre-execution command fails
# hook_limit_s: 600         # of pre- and post-execution commands
# checkpoint_programs: /usr/local/libexec/xce   # echkpnt.METHOD and erestart.METHOD of bsub -k
# mps_control: nvidia-cuda-mps-control   # MPS's control daemon, for jobs with mps=yes
# max_requeues: 100         # so often a job starts anew for its exit status
# preemptions_max: 3        # so often a job may be made to give way
# policy: fcfs              # fcfs | sjf | fairshare: of queues that do not say
# fairshare_half_life_s: 5400   # in which past use counts for half
# fairshare_chunk: 100      # placements in a session until the order is computed again
# backfill: none            # none | easy | conservative: of queues that do not say
# reservations: 1           # of queues that do not say: blocked jobs that hold a reservation
# gpu_policy: default       # default | best-fit | spread | dot-product | fragmentation
# heartbeat_s: 5            # how often a worker says that it is there; after 3 missed beats: UNKWN
# load_interval_s: 15       # how often changed load indices of hosts are recorded; 0: never
# host_grace_s: 120         # so long a host may be away before it is given up
# self_fence: true          # a host that has lost the controller freezes and kills rerunnable jobs
# fence_after_s: 90         # frozen so long after its last word; without it: 3/4 of host_grace_s
# losses_max: 3             # a host that is lost so often is closed
# losses_window_s: 3600     # ... within this time
# settle_max_s: 60          # so long at most nothing is given up after a start or a failover
# controller_memory: 4G     # then no new jobs are taken; without it: a fifth of the machine's
# new_privileges: false     # may jobs gain privileges by set-id programs such as sudo?
# start_failures_max: 3     # failed starts in a row until a host is closed
# start_retry_s: 300        # until a job tries a host again on which its start failed
# session_gather_ms: 2      # how long the scheduler gathers news before it looks
# mail:                     # job reports of bsub -B, -N, -Ne; without it none are sent
#   sendmail: /usr/sbin/sendmail    # or  smtp: mail.example.org:25
#   starttls: false         # must the server of smtp speak TLS?
#   sender: xce             # whom they are from
#   domain: example.org     # behind users' names and senders without @
# lsf:
#   unit_for_limits: MB     # KB | MB | GB | TB | classic: unit of -M and mem without one
#   parse_script: true      # read #BSUB lines of a script that is named as the first argument
#   product_line: ""        # first line of lsid, where a client looks for LSF's product line
"""
