"""What the users of a world want, drawn from its seed."""

import hashlib
from datetime import datetime
from random import Random
from zoneinfo import ZoneInfo

import msgspec

from xce.model.checkpoint import Checkpoints, request_number
from xce.model.command import (
    KillJobs,
    RequeueJobs,
    ResumeJobs,
    Selection,
    SignalJobs,
    StopJobs,
)
from xce.model.config import (
    ClusterConfig,
    HostConfig,
    PoolConfig,
    QueueConfig,
    ResourceConfig,
    WindowConfig,
)
from xce.model.device import Device, GpuWish
from xce.model.ids import HOUR_US, SECOND_US, Micros
from xce.model.job import ArraySpec, Files, JobSpec, Submission
from xce.model.processor import made_up
from xce.model.request import Alternative, Amount, HostChoice, Request
from xce.sim.client import Client
from xce.sim.forms import Named
from xce.sim.step_load import draw_leader, draw_role_job

START_US = 1_800_000_000 * SECOND_US
"""What the clock on the wall says about when a world begins."""
FORWARD_US = 1_806_195_600 * SECOND_US
"""When clocks in Berlin are set forward in 2027."""
BACK_US = 1_824_944_400 * SECOND_US
"""When they are set back."""
BERLIN = "Europe/Berlin"
MINUTE_US = 60 * SECOND_US
HOPELESS_TASKS = 999
GROUPS = ("/a", "/a/b", "/c")
"""Job groups, one of them in another."""
GROUPS_SHARE = 0.6
"""So often who keeps groups does something about them."""
QUEUES = (
    QueueConfig(name="urgent", priority=50),
    QueueConfig(name="normal", priority=30, default=True),
    QueueConfig(name="night", priority=10, exclusive=True, load_stop={"r1m": 3_000}),
)


def draw_start(rng: Random) -> tuple[Micros, str]:
    """Return when a world begins and in which time zone; now and then clocks are changed in it."""
    begin_us, zone = rng.choice(
        ((START_US, "UTC"), (START_US, "UTC"), (FORWARD_US, BERLIN), (BACK_US, BERLIN))
    )
    return begin_us - rng.randrange(5, 55) * SECOND_US, zone


def draw_windows(rng: Random, start_us: Micros, zone: str) -> tuple[WindowConfig, ...]:
    """Return windows that are closed for the first minute of a world, or for a while soon."""
    shut_us = start_us + rng.randint(0, 1) * MINUTE_US
    return (
        WindowConfig(
            start_min=_wall_min(shut_us + MINUTE_US, zone), end_min=_wall_min(shut_us, zone)
        ),
    )


def _wall_min(at_us: Micros, zone: str) -> int:
    """Return the minute of the day that the clocks of a zone show."""
    wall = datetime.fromtimestamp(at_us // SECOND_US, ZoneInfo(zone))
    return wall.hour * 60 + wall.minute


def draw_queues(rng: Random, start_us: Micros, zone: str) -> tuple[QueueConfig, ...]:
    """Return the queues, with some kind of backfill."""
    return tuple(
        msgspec.structs.replace(
            queue,
            policy=rng.choice(("fcfs", "fcfs", "sjf", "fairshare")),
            run_windows=draw_windows(rng, start_us, zone) if rng.random() < 0.2 else (),
            preemption=rng.choice(("suspend", "requeue", "kill")),
            preempt=rng.choice(((), ("night",), ("normal", "night")))
            if queue.name == "urgent"
            else (),
            backfill=rng.choice(("none", "none", "none", "easy", "easy", "conservative")),
            reservations=rng.choice((0, 0, 1)),
            rerunnable=rng.random() < 0.3,
        )
        for queue in QUEUES
    )


def draw_config(rng: Random, start_us: Micros = START_US, zone: str = "UTC") -> ClusterConfig:
    """Return a small cluster."""
    hosts = tuple(
        HostConfig(
            name=f"h{number}",
            slots=rng.choice((2, 4, 4, 8)),
            mem_mib=8_192,
            counters={"lic": 2},
            gpus=tuple(
                Device(index, f"GPU-{number}-{index}", link=index // 2)
                for index in range(2 * number)
            ),
            processors=made_up({"sockets": 2, "cores": 2, "threads": 1 + number % 2, "numa": 2}),
        )
        for number in range(1, rng.randint(2, 4) + 1)
    )
    return ClusterConfig(
        hosts=hosts,
        resources=(ResourceConfig(name="lic", kind="counter"),),
        pools=(PoolConfig(name="tokens", total=3),),
        queues=draw_queues(rng, start_us, zone),
        time_zone=zone,
        admins=("root",),
        clean_period_us=rng.choice((5 * SECOND_US, HOUR_US)),
        orphan_grace_us=rng.choice((0, 0, 3 * SECOND_US)),
        term_grace_us=2 * SECOND_US,
        kill_interval_us=SECOND_US,
        key_window_us=HOUR_US,
        start_retry_us=5 * SECOND_US,
        heartbeat_us=rng.choice((SECOND_US // 2, SECOND_US)),
        host_grace_us=rng.choice((4, 8, 60)) * SECOND_US,
        self_fence=rng.random() < 0.5,
        settle_max_us=rng.choice((1, 5, 20)) * SECOND_US,
        fairshare_chunk=rng.choice((1, 3, 100)),
        fairshare_half_life_us=rng.choice((0, 5 * SECOND_US, HOUR_US)),
    )


def grow(rng: Random, config: ClusterConfig) -> ClusterConfig:
    """Return a configuration that has more of something."""
    match rng.randrange(4):
        case 0:
            number = rng.randrange(len(config.hosts))
            host = config.hosts[number]
            more = msgspec.structs.replace(host, slots=(host.slots or 0) + 1)
            hosts = (*config.hosts[:number], more, *config.hosts[number + 1 :])
            return msgspec.structs.replace(config, hosts=hosts)
        case 1:
            pools = tuple(PoolConfig(name=p.name, total=p.total + 1) for p in config.pools)
            return msgspec.structs.replace(config, pools=pools)
        case 2:
            # A counter whose row comes before the others.
            resources = (ResourceConfig(name="beta", kind="counter"), *config.resources)
            return msgspec.structs.replace(config, resources=tuple(dict.fromkeys(resources)))
        case _:
            queues = (*config.queues, QueueConfig(name=f"queue{len(config.queues)}"))
            return msgspec.structs.replace(config, queues=queues)


def draw_request(rng: Random, config: ClusterConfig) -> Request:
    """Return a request that the idle cluster could hold."""
    slots = [host.slots or 1 for host in config.hosts]
    amounts = []
    if rng.random() < 0.3:
        span_us = rng.choice((0, 0, 0, SECOND_US // 2))
        amounts.append(Amount("mem", rng.randint(100, 4_000), rng.choice(("task", "job")), span_us))
    if rng.random() < 0.2:
        amounts.append(Amount("lic", 1, rng.choice(("host", "job"))))
    if rng.random() < 0.2:
        amounts.append(Amount("tokens", rng.randint(1, 3), "job"))
    tasks = 1
    one_host = False
    if rng.random() < 0.3:
        one_host = rng.random() < 0.4
        tasks = rng.randint(2, 2 if one_host or amounts else max(2, min(6, sum(slots) - 1)))
    more = rng.choice((0, 0, 2)) if tasks > 1 else 0
    asked: tuple[HostChoice, ...] = ()
    if rng.random() < 0.1 and tasks == 1:
        asked = (HostChoice(rng.choice(config.hosts).name),)
    found = Request(
        tasks_min=tasks,
        tasks_max=tasks + more,
        amounts=tuple(sorted(amounts)),
        one_host=one_host,
        hosts=asked,
        other_hosts=bool(asked),
        exclusive=rng.random() < 0.06,
        gpu=_draw_gpu(Random(rng.getstate()[1][0]), tasks),
        affinity=_draw_affinity(Random(rng.getstate()[1][2]), tasks + more),
    )
    return _let_want_less(Random(rng.getstate()[1][1]), found)


def _let_want_less(rng: Random, found: Request) -> Request:
    """Return a request as it is, or one that asks for more at first and for that after a while."""
    if found.gpu is not None or rng.random() < 0.85:
        return found
    plain = msgspec.structs.replace(found, exclusive=False, hosts=(), other_hosts=False)
    more = tuple(sorted({*plain.amounts, Amount("lic", 2, "host")}))
    if len({(amount.resource, amount.per) for amount in more}) < len(more):
        return found
    choices = (
        Alternative(msgspec.structs.replace(plain, amounts=more)),
        Alternative(plain, rng.choice((1, 3, 8)) * SECOND_US),
    )
    return msgspec.structs.replace(
        found, amounts=(), one_host=False, affinity="", alternatives=choices
    )


def _draw_affinity(rng: Random, tasks: int) -> str:
    """Return what a request wants of processors; each host has room for two tasks with any."""
    if tasks > 2 or rng.random() < 0.7:
        return ""
    return rng.choice(
        (
            "thread(1)", "core(1)", "core(1):distribute=pack", "socket(1)", "core(1)*2",
            "core(1,exclusive=(socket,injob))", "thread(1,exclusive=(socket))",
        )
    )  # fmt: skip


def _draw_gpu(rng: Random, tasks: int) -> GpuWish | None:
    """Return what a request wants of GPUs. Any two are on each host."""
    if rng.random() < 0.7:
        return None
    per = "task" if tasks == 1 else rng.choice(("host", "job"))
    if rng.random() < 0.3:
        return GpuWish(1, rng.choice((250, 500, 700)), per)
    return GpuWish(rng.choice((1, 2)), per=per, is_linked=rng.random() < 0.3)


def draw_submission(
    rng: Random, config: ClusterConfig, client: Client, now_us: int
) -> tuple[Submission, tuple[str, bytes]]:
    """Return a job and the blob of its script."""
    request = draw_request(rng, config)
    micros = rng.choice((20_000, 500_000, 2_000_000, 2_000_000, 8_000_000, 20_000_000))
    code = rng.choice((0, 0, 0, 1, 3))
    stubborn = " ignore 2 15" if rng.random() < 0.15 else ""
    command = f"run {micros} {code}{stubborn}"
    if client.starts_tasks:
        command, request = draw_leader(
            Random(rng.getstate()[1][5]), command, request, hosts=len(config.hosts)
        )
    script = command.encode()
    digest = hashlib.blake2b(script, digest_size=16).hexdigest()
    after = ""
    if client.jobs and rng.random() < 0.35:
        mark = rng.choice(("", "", "", "!"))
        test = rng.choice(("done", "done", "ended", "exit", "started"))
        after = f"{mark}{test}({rng.choice(client.jobs)})"
        if rng.random() < 0.3:
            after += rng.choice((" && ", " || ")) + f"done({rng.choice(client.jobs)})"
    array = None
    if rng.random() < 0.4:
        last = rng.randint(2, 12)
        array = ArraySpec(((1, last, rng.choice((1, 1, 2))),), rng.choice((0, 0, 1, 3)))
    array, after = _draw_pairs(Random(rng.getstate()[1][0]), client, array, after)
    spec = JobSpec(
        name=rng.choice(("", "a", "b")),
        command=command,
        script=digest,
        files=Files(output=rng.choice(("", "out.%J"))),
        dependency=after,
    )
    other = Random(rng.getstate()[1][5])
    if other.random() < 0.2:
        period_us = other.choice((0, SECOND_US // 4, SECOND_US))
        spec = msgspec.structs.replace(spec, checkpoints=Checkpoints("/ck", period_us=period_us))
    if Random(rng.getstate()[1][3]).random() < 0.12:
        spec, request = draw_role_job(
            Random(rng.getstate()[1][4]), spec, is_spread=client.starts_tasks
        )
    if client.sets_deadlines:
        spec = msgspec.structs.replace(spec, deadline_us=draw_deadline(rng, now_us))
    submission = Submission(
        spec=spec,
        request=request,
        queue="night" if request.exclusive else rng.choice(("normal", "normal", "night", "urgent")),
        array=array,
        hold=rng.random() < 0.06,
        begin_at_us=now_us + rng.randrange(10 * SECOND_US) if rng.random() < 0.1 else 0,
        run_limit_us=rng.choice((0, 0, 0, SECOND_US)),
        estimate_us=rng.choice((0, 0, SECOND_US, 10 * SECOND_US)),
        rerunnable=rng.choice((None, None, True, False)),
        group=Random(rng.getstate()[1][2]).choice(("", "", "", *GROUPS)),
    )
    return submission, (digest, script)


def draw_deadline(rng: Random, now_us: Micros) -> Micros:
    """Return until when a job must be over, or 0, by dice of its own; now and then soon."""
    words = rng.getstate()[1]
    dice = Random(words[7] + words[-1] + now_us)
    return now_us + dice.randrange(20 * SECOND_US) if dice.random() < 0.4 else 0


def _draw_pairs(
    rng: Random, client: Client, array: ArraySpec | None, after: str
) -> tuple[ArraySpec | None, str]:
    """Return the array and the condition; now and then it waits for another one by element."""
    before = client.array_of(rng.choice(client.jobs)) if client.jobs else None
    if array is None or before is None or rng.random() < 0.5:
        return array, after
    job, other = before
    mark = rng.choice(("", "", "!"))
    pairs = f"{mark}{rng.choice(('done', 'ended', 'exit', 'started'))}({job}[*])"
    glue = rng.choice((" && ", " || "))
    limit = array.limit
    return ArraySpec(other.runs, limit), f"{pairs}{glue}{after}" if after else pairs


def hopeless() -> Submission:
    """Return a job that the cluster can never hold."""
    spec = JobSpec(name="hopeless", command="run 1000 0", script="none")
    request = Request(tasks_min=HOPELESS_TASKS, tasks_max=HOPELESS_TASKS)
    return Submission(spec=spec, request=request)


def act(rng: Random, config: ClusterConfig, client: Client, now_us: int) -> None:
    """Let a user wish something."""
    if client.keeps_groups:
        # Dice of its own: what is drawn here changes nothing else in the world.
        dice = Random(rng.getstate()[1][5])
        if dice.random() < GROUPS_SHARE:
            client.keep_groups(dice)
    if client.sets_deadlines and client.jobs:
        _change_deadline(Random(rng.getstate()[1][8] + now_us), client, now_us)
    what = rng.random()
    if what < 0.62:
        count = rng.choice((1, 1, 1, 2, 4))
        drawn = [draw_submission(rng, config, client, now_us) for _ in range(count)]
        jobs = tuple(job for job, _ in drawn)
        client.submit(*jobs, blobs=tuple(blob for _, blob in drawn))
    elif what < 0.64:
        client.submit(hopeless(), blobs=(("none", b"run 1000 0"),))
    else:
        control(rng, config, client)


def _change_deadline(dice: Random, client: Client, now_us: Micros) -> None:
    """Now and then let a user set another deadline, or none."""
    if dice.random() < 0.2:
        job = dice.choice(client.jobs[-3:])
        client.modify((job, ()), deadline_us=draw_deadline(dice, now_us))


def change(rng: Random, config: ClusterConfig, client: Client, named: Named) -> None:
    """Let a user change a job, or some elements of one."""
    match rng.randrange(5):
        case 0:
            client.switch(named, rng.choice(("urgent", "normal", "night")))
        case 1:
            client.modify(named, run_limit_us=rng.choice((0, SECOND_US, 30 * SECOND_US)))
        case 2:
            request = msgspec.structs.replace(draw_request(rng, config), exclusive=False)
            client.modify(named, request=request)
        case 3:
            client.modify(
                named, f"run {rng.choice((20_000, 2_000_000))} {rng.choice((0, 3))}".encode()
            )
        case _:
            queue = rng.choice(("normal", "night"))
            client.modify(named, rerunnable=rng.random() < 0.5, queue=queue)


def control(rng: Random, config: ClusterConfig, client: Client) -> None:
    """Let a user do something to jobs."""
    kind = rng.choice(
        (KillJobs, StopJobs, StopJobs, ResumeJobs, ResumeJobs, SignalJobs, RequeueJobs)
    )
    some = client.some_job()
    if some is not None and rng.random() < 0.15:
        client.move(some[0], to_top=rng.random() < 0.5, position=rng.choice((1, 1, 2, 3)))
        return
    if rng.random() < 0.1:
        client.regroup(rng.choice((*GROUPS, "/empty")), rng.choice((None, None, -1, 1, 2, 3)), rng)
        return
    if some is not None and rng.random() < 0.2:
        change(rng, config, client, some)
        return
    if some is None or rng.random() < 0.1:
        client.control(kind, Selection(all=True, user=client.owner.user, name="a*"))
    else:
        signal, other = rng.choice((10, 15)), Random(rng.getstate()[1][6])
        if other.random() < 0.4:
            signal = request_number(ends=other.random() < 0.5, forced=False)
        client.control(kind, Selection(jobs=(some,)), signal=signal)
