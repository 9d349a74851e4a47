"""Which keys each file may have, as tables: key, field, reader. Nothing is decided here.

Keys of the design that are not built yet stand in ``not_built``, so that they are refused by name.
"""

from collections.abc import Mapping
from typing import Final

from xce.config.document import Key, Reader, Table
from xce.config.mail import MAIL_DOMAIN, read_mail_address, read_program
from xce.config.names import (
    QUEUE_NAME,
    RESERVED_QUEUES,
    RESERVED_RESOURCES,
    RESOURCE_NAME,
    SIZE_COUNTERS,
)
from xce.config.shares import read_shares
from xce.config.topology import read_later, read_levels
from xce.config.values import (
    read_address,
    read_beat,
    read_choice,
    read_command_name,
    read_count,
    read_directory,
    read_exit_values,
    read_flag,
    read_host_pattern,
    read_limit_kib,
    read_limit_mib,
    read_line,
    read_load,
    read_milliseconds,
    read_name,
    read_queue_names,
    read_seconds,
    read_seconds_or_forever,
    read_share,
    read_span,
    read_success_values,
    read_supply_mib,
    read_users,
    read_windows,
    read_zone,
)
from xce.model.config import BACKFILLS, GPU_POLICIES, INTERACTIVES, MODES, ORDERS, PREEMPTIONS
from xce.model.job import COMMAND_MAX
from xce.model.request import TASKS_MAX

RESERVATIONS_LIMIT: Final = 1_000_000
RESREQ_MAX: Final = 4096
REQUEUES_LIMIT: Final = 1_000_000_000
COUNT_LIMIT: Final = 1_000_000_000
ARRAY_SIZE_LIMIT: Final = 1_000_000_000
RESOURCE_KINDS: Final = ("counter", "pool", "number", "string", "boolean")
UNITS_FOR_LIMITS: Final = ("KB", "MB", "GB", "TB", "classic")

FILES: Final = (
    "xce.yaml", "resources.yaml", "topology.yaml", "hosts.yaml", "supply.yaml", "queues.yaml",
    "applications.yaml", "roles.yaml",
)  # fmt: skip
"""The files of this release, in the order in which they are read."""
FILES_NOT_BUILT: Final = frozenset(
    f"{name}.yaml"
    for name in [
        "keys",
        "projects",
        "providers",
        "services",
        "templates",
        "users",
    ]
)


def _same(**readers: Reader) -> Mapping[str, Key]:
    """Return keys whose field has the key's own name."""
    return {name: Key(name, read) for name, read in readers.items()}


RESOURCE: Final = Table(
    noun="a resource",
    keys=_same(
        name=read_name(RESOURCE_NAME, "a resource", RESERVED_RESOURCES),
        kind=read_choice(*RESOURCE_KINDS),
        unit=read_line(32),
        description=read_line(512),
    ),
    required=("name", "kind"),
    not_built=frozenset({"layer", "scope", "aggregation", "consumable", "decays", "reporter"}),
)

HOST: Final = Table(
    noun="a host entry",
    keys={
        "names": Key("names", read_host_pattern),
        "slots": Key("slots", read_count(1, 1_000_000)),
        "mem": Key("mem_mib", read_supply_mib),
        **{name: Key(f"+{name}", read_supply_mib) for name in SIZE_COUNTERS},
        "state": Key("state", read_choice("ok", "closed")),
    },
    required=("names",),
    not_built=frozenset({"model_factor"}),
)
"""Beside these: ``attributes``, ``labels``, and a key for each declared counter."""

TOPOLOGY: Final = Table(
    noun="topology.yaml",
    keys=_same(
        levels=read_levels,
        default_level=read_name(RESOURCE_NAME, "a level", ()),
        domains=read_later,
        gpus=read_later,
    ),
)

LIMITS: Final = {
    "cpu_limit": Key("cpu_us", read_span),
    "swap_limit": Key("swap_kib", read_limit_kib),
    "process_limit": Key("processes", read_count(1, COUNT_LIMIT)),
    "thread_limit": Key("threads", read_count(1, COUNT_LIMIT)),
    "stack_limit": Key("stack_kib", read_limit_kib),
    "data_limit": Key("data_kib", read_limit_kib),
    "file_limit": Key("file_kib", read_limit_kib),
    "core_limit": Key("core_kib", read_limit_kib),
}
"""Of queues and profiles: the members of their `ProcessLimits`."""

QUEUE: Final = Table(
    noun="a queue",
    keys={
        **LIMITS,
        "default_cpu_limit": Key("default_cpu_limit_us", read_span),
        **_same(
            name=read_name(QUEUE_NAME, "a queue", RESERVED_QUEUES),
            priority=read_count(1, 1_000_000),
            default=read_flag,
            description=read_line(512),
            open=read_flag,
            active=read_flag,
            tasks_min=read_count(1, TASKS_MAX),
            tasks_max=read_count(1, TASKS_MAX),
            exclusive=read_flag,
            users=read_users,
            hosts=read_host_pattern,
            run_windows=read_windows,
            preempt=read_queue_names,
            preemption=read_choice(*PREEMPTIONS),
            policy=read_choice(*ORDERS),
            fairshare=read_shares,
            backfill=read_choice(*BACKFILLS),
            reservations=read_count(1, RESERVATIONS_LIMIT),
            rerunnable=read_flag,
            interactive=read_choice(*INTERACTIVES),
            load_sched=read_load,
            load_stop=read_load,
            requeue_exit_values=read_exit_values,
            success_exit_values=read_success_values,
            max_requeues=read_count(1, REQUEUES_LIMIT),
            pre_exec=read_line(COMMAND_MAX),
            post_exec=read_line(COMMAND_MAX),
        ),
        "run_limit": Key("run_limit_us", read_span),
        "default_run_limit": Key("default_run_limit_us", read_span),
        "overrun": Key("overrun_us", read_span),
        "underrun": Key("underrun_us", read_span),
        "idle": Key("idle_milli", read_share),
        "idle_after": Key("idle_after_us", read_span),
        "mem_limit": Key("mem_limit_mib", read_limit_mib),
    },
    required=("name",),
    not_built=frozenset(
        [
            "admins",
            "host_post_exec",
            "host_pre_exec",
            "job_limit",
            "order",
            "submit_windows",
            "user_limit",
        ]
    ),
)

APPLICATION: Final = Table(
    noun="an application profile",
    keys={
        **LIMITS,
        **_same(
            name=read_name(QUEUE_NAME, "an application profile", ()),
            description=read_line(512),
            resreq=read_line(RESREQ_MAX),
            tasks_min=read_count(1, TASKS_MAX),
            tasks_max=read_count(1, TASKS_MAX),
            rerunnable=read_flag,
            self_fence=read_flag,
            requeue_exit_values=read_exit_values,
            success_exit_values=read_success_values,
            max_requeues=read_count(1, REQUEUES_LIMIT),
            pre_exec=read_line(COMMAND_MAX),
            post_exec=read_line(COMMAND_MAX),
        ),
        "run_limit": Key("run_limit_us", read_span),
        "estimate": Key("estimate_us", read_span),
        "mem_limit": Key("mem_limit_mib", read_limit_mib),
    },
    required=("name",),
    not_built=frozenset(
        [
            "annotations",
            "claims",
            "cwd",
            "data",
            "env",
            "host_post_exec",
            "host_pre_exec",
            "io",
            "kind",
            "launch",
            "mode",
            "params",
            "relations",
            "service",
            "starter",
        ]
    ),
)

SUPPLY: Final = Table(
    noun="supply.yaml",
    keys={},
    not_built=frozenset({"claims", "datasets", "instances", "licences", "volumes"}),
)

LSF: Final = Table(
    noun="lsf",
    keys={
        "unit_for_limits": Key("lsf_unit_for_limits", read_choice(*UNITS_FOR_LIMITS)),
        "parse_script": Key("lsf_parse_script", read_flag),
        "product_line": Key("lsf_product_line", read_line(200)),
    },
)

MAIL: Final = Table(
    noun="mail",
    keys=_same(
        sendmail=read_program,
        smtp=read_address,
        starttls=read_flag,
        sender=read_mail_address,
        domain=read_name(MAIL_DOMAIN, "a domain", ()),
    ),
    not_built=frozenset(["user", "password"]),
)

CLUSTER: Final = Table(
    noun="xce.yaml",
    keys={
        "cluster_name": Key("cluster_name", read_name(QUEUE_NAME, "a cluster", ())),
        "admins": Key("admins", read_users),
        "clean_period_s": Key("clean_period_us", read_seconds),
        "max_array_size": Key("max_array_size", read_count(1, ARRAY_SIZE_LIMIT)),
        "orphan_grace_s": Key("orphan_grace_us", read_seconds_or_forever),
        "term_grace_s": Key("term_grace_us", read_seconds),
        "kill_interval_s": Key("kill_interval_us", read_seconds),
        "key_window_s": Key("key_window_us", read_seconds),
        "default_application": Key("default_application", read_line(128)),
        "default_project": Key("default_project", read_line(128)),
        "session_gather_ms": Key("session_gather_us", read_milliseconds),
        "output_retention_s": Key("output_retention_us", read_seconds),
        "start_retry_s": Key("start_retry_us", read_seconds),
        "time_zone": Key("time_zone", read_zone),
        "preemption": Key("preemption", read_choice(*PREEMPTIONS)),
        "pre_exec_tries": Key("pre_exec_tries", read_count(1, REQUEUES_LIMIT)),
        "hook_limit_s": Key("hook_limit_us", read_seconds),
        "checkpoint_programs": Key("checkpoint_programs", read_directory),
        "mps_control": Key("mps_control", read_command_name),
        "max_requeues": Key("max_requeues", read_count(1, REQUEUES_LIMIT)),
        "preemptions_max": Key("preemptions_max", read_count(1, 1_000_000)),
        "policy": Key("policy", read_choice(*ORDERS)),
        "fairshare_chunk": Key("fairshare_chunk", read_count(1, 1_000_000)),
        "fairshare_half_life_s": Key("fairshare_half_life_us", read_seconds),
        "backfill": Key("backfill", read_choice(*BACKFILLS)),
        "reservations": Key("reservations", read_count(1, RESERVATIONS_LIMIT)),
        "gpu_policy": Key("gpu_policy", read_choice(*GPU_POLICIES)),
        "heartbeat_s": Key("heartbeat_us", read_beat),
        "host_grace_s": Key("host_grace_us", read_seconds),
        "load_interval_s": Key("load_interval_us", read_seconds),
        "self_fence": Key("self_fence", read_flag),
        "fence_after_s": Key("fence_after_us", read_seconds),
        "losses_max": Key("losses_max", read_count(1, 1_000_000)),
        "settle_max_s": Key("settle_max_us", read_seconds),
        "controller_memory": Key("controller_memory_mib", read_supply_mib),
        "losses_window_s": Key("losses_window_us", read_seconds),
        "mode": Key("mode", read_choice(*MODES)),
        "listen": Key("listen", read_address),
        "new_privileges": Key("new_privileges", read_flag),
        "start_failures_max": Key("start_failures_max", read_count(1, 1_000_000)),
    },
    not_built=frozenset(
        [
            "io",
            "node_manager",
            "production",
            "rusage_scope",
            "session_interval_s",
            "tls",
        ]
    ),
)
"""Beside these: ``lsf`` and ``api``."""
