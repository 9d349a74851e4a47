"""The whole language in values: every section, compound and alternative requests."""

import pytest

from xce.model.config import ClusterConfig, PoolConfig, ResourceConfig
from xce.model.device import GpuWish
from xce.model.ids import HOUR_US, MINUTE_US
from xce.model.request import (
    Alternative,
    Amount,
    CuWish,
    HostChoice,
    Part,
    Phase,
    Request,
    Threshold,
)
from xce.resreq.affinity import parse_affinity
from xce.resreq.compile import compile_request, render_request
from xce.resreq.errors import ResreqError

CONFIG = ClusterConfig(
    resources=(
        ResourceConfig(name="lic", kind="counter"),
        ResourceConfig(name="scratch", kind="counter", unit="GB"),
        ResourceConfig(name="gpu", kind="boolean"),
        ResourceConfig(name="rack", kind="string"),
    ),
    pools=(PoolConfig(name="seats", total=4),),
)


def compiled(*texts, tasks=(1, 1), **options):
    return compile_request(texts, config=CONFIG, tasks=tasks, **options)


def refused(*texts, tasks=None, **options):
    with pytest.raises(ResreqError) as caught:
        compiled(*texts, tasks=tasks, **options)
    return caught.value


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("span[hosts=1]", {"one_host": True}),
        ("span[hosts=4]", {"hosts_max": 4}),
        ("span[hosts=-1]", {}),
        ("span[ptile=2]", {"ptile": 2}),
        ("span[ptile='!']", {"ptile": -1}),
        ("span[ptile='!',LINUX:4,HP:2]", {"ptile": -1, "ptile_by_type": (("HP", 2), ("LINUX", 4))}),
        ("span[block=4]", {"block": 4}),
        ("span[stripe]", {"stripe": -1}),
        ("span[stripe=2]", {"stripe": 2}),
        ("span[gtile='!'] rusage[gpu=1]", {"gtile": -1, "gpu": GpuWish()}),
        ("same[type:rack:type]", {"same": ("rack", "type")}),
        ("cu[pref=config]", {"cu": CuWish()}),
        (
            "cu[type=switch:pref=bestfit:maxcus=2:usablecuslots=3:excl:maxwait=5]",
            {"cu": CuWish("switch", "bestfit", 2, 3, exclusive=True, max_wait_us=5 * MINUTE_US)},
        ),
        ("cu[type=host:balance]", {"cu": CuWish("host", balance=True)}),
        (
            "affinity[cpu(2, same=mcm)*1:distribute=pack(socket=1)]",
            {"affinity": "thread(2,same=numa):distribute=pack(socket=1)"},
        ),
        ("order[!slots:-cpu]", {"order": "!slots:-r1m"}),
        ("rusage[mem=0:lic=0]", {}),
        ("rusage[swp=1G:tmp=2]", {"amounts": (Amount("swp", 1024), Amount("tmp", 2))}),
        (
            "rusage[mem=5:lic=1/job:duration=2h:decay=1, seats=1]",
            {
                "amounts": (
                    Amount("lic", 1, "job", 2 * HOUR_US, decay=True),
                    Amount("mem", 5, "task", 2 * HOUR_US, decay=True),
                    Amount("seats", 1),
                )
            },
        ),
        (
            "rusage[mem=5:duration=2:decay=0]",
            {"amounts": (Amount("mem", 5, "task", 2 * MINUTE_US),)},
        ),
        (
            "rusage[mem=(400 200 0):duration=(10 15):decay=(1 0)]",
            {
                "amounts": (
                    Amount(
                        "mem",
                        400,
                        "task",
                        10 * MINUTE_US,
                        decay=True,
                        phases=(Phase(200, 15 * MINUTE_US), Phase(0)),
                    ),
                )
            },
        ),
        (
            "rusage[scratch=2:threshold=1500MB, lic=0:threshold=2.5]",
            {
                "amounts": (Amount("scratch", 2),),
                "thresholds": (Threshold("lic", 2500), Threshold("scratch", 1465)),
            },
        ),
    ],
)
def test_every_section_has_its_value_and_is_shown_in_a_text_of_the_same_value(text, fields):
    request = compiled(text)
    assert request == Request(select="", **fields)
    again = compiled(render_request(request))
    assert again == Request(select="type == any", **fields)


def test_a_compound_request_is_the_sum_of_its_parts():
    text = "2*{router: !gpu rusage[lic=1]} + 4*{gpu span[ptile=2]} + 1*{name=last: order[mem]}"
    request = compiled(text, tasks=None, hosts="h1", exclusive=True)
    inside = {"hosts": (HostChoice("h1"),), "exclusive": True}
    assert request == Request(
        7,
        7,
        parts=(
            Part("router", 2, Request(2, 2, (Amount("lic", 1),), select="!gpu", **inside)),
            Part("part1", 4, Request(4, 4, select="gpu", ptile=2, **inside)),
            Part("last", 1, Request(1, 1, order="mem", **inside)),
        ),
        **inside,
    )
    shown = (
        "2*{router: select[!gpu] rusage[lic=1.00]} + 4*{select[gpu] span[ptile=2]} + "
        "1*{last: order[mem]}"
    )
    assert render_request(request) == shown
    assert compiled(shown, tasks=None, hosts="h1", exclusive=True) == request


def test_the_last_part_takes_what_the_task_count_leaves():
    assert [p.tasks for p in compiled("2*{gpu}+{}", tasks=(5, 5)).parts] == [2, 3]
    assert "leaves none" in refused("2*{gpu}+{}", tasks=(2, 2)).message
    assert "needs a number" in refused("2*{gpu}+{}").message
    assert "leaves none" in refused("2*{gpu}+{}", tasks=(1, 2)).message


def test_the_last_part_may_have_a_range():
    found = compiled("2*{gpu}+{mem>1}", tasks=(2, 5))
    assert (found.tasks_min, found.tasks_max) == (3, 5)
    assert [(part.tasks, part.tasks_max) for part in found.parts] == [(2, 0), (1, 3)]
    assert (found.parts[1].request.tasks_min, found.parts[1].request.tasks_max) == (1, 3)
    shown = render_request(found)
    assert shown == "2*{select[gpu]} + {select[mem > 1]}"
    assert compiled(shown, tasks=(3, 5)) == found


def test_the_task_count_agrees_with_the_parts():
    assert compiled("2*{gpu}+3*{}", tasks=(5, 5)) == compiled("2*{gpu}+3*{}", tasks=(4, 6))
    assert "-n says 4" in refused("2*{gpu}+3*{}", tasks=(4, 4)).message
    assert "-n says 6 to 8" in refused("2*{gpu}+3*{}", tasks=(6, 8)).message
    assert "allowed" in refused("9999999*{gpu}+2*{}").message
    assert "256 parts" in refused(" + ".join(["1*{}"] * 257)).message


def test_a_same_over_all_parts_is_the_whole_requests():
    request = compiled("{1*{same[type]} + 1*{}} same[rack:type]", tasks=None)
    assert request.same == ("rack", "type")
    assert [part.request.same for part in request.parts] == [("type",), ()]
    assert render_request(request) == "{1*{same[type]} + 1*{}} same[rack:type]"


def test_alternatives_are_whole_requests_in_order():
    request = compiled("{gpu} || {1*{gpu} + 2*{}}@5 || {}@5", tasks=None)
    assert request == Request(
        1,
        3,
        alternatives=(
            Alternative(Request(select="gpu")),
            Alternative(
                Request(
                    3,
                    3,
                    parts=(
                        Part("part0", 1, Request(select="gpu")),
                        Part("part1", 2, Request(2, 2)),
                    ),
                ),
                5 * MINUTE_US,
            ),
            Alternative(Request(), 5 * MINUTE_US),
        ),
    )
    assert render_request(request) == "{select[gpu]} || {1*{select[gpu]} + 2*{}}@5 || {}@5"


def test_alternatives_in_rusage_are_alternatives_of_the_request():
    request = compiled("gpu", "rusage[mem=1 || lic=1]", "rusage[seats=1]", tasks=(2, 3))
    assert [one.request for one in request.alternatives] == [
        Request(2, 3, (Amount("mem", 1), Amount("seats", 1)), select="gpu"),
        Request(2, 3, (Amount("lic", 1), Amount("seats", 1)), select="gpu"),
    ]
    flat = compiled("{rusage[mem=1||lic=1]} || {gpu}@3")
    assert [one.delay_us for one in flat.alternatives] == [0, 0, 3 * MINUTE_US]


def test_alternatives_multiply_up_to_a_bound():
    eight = "rusage[" + " || ".join(f"mem={n}" for n in range(1, 9)) + "]"
    other = eight.replace("mem", "lic")
    assert len(compiled(eight, other).alternatives) == 64
    assert "64 alternatives" in refused(eight, other, "rusage[seats=1||seats=2]").message
    assert "64 alternatives" in refused(" || ".join(["{}"] * 65)).message


def test_gpus_are_one_wish_beside_the_amounts():
    found = compiled("rusage[ngpus_physical=2/host:gmodel='Tesla V100':glink=yes, mem=5]")
    assert found.gpu == GpuWish(2, per="host", model="Tesla V100", is_linked=True, is_by_lsf=True)
    assert found.amounts == (Amount("mem", 5),)
    assert compiled("rusage[gpu=0.25]").gpu == GpuWish(1, 250)
    assert compiled("rusage[gpu=1:gmem=16G:mig=3]").gpu == GpuWish(mem_mib=16384, mig="3")
    assert compiled("rusage[gpu=0]").gpu is None
    assert compiled("rusage[gpu=1:gvendor=amd]").gpu == GpuWish(vendor="amd")
    assert compiled("rusage[gpu=1:gvendor=nvidia]").gpu == GpuWish()
    assert compiled("rusage[gpu=1:mps=no]").gpu == GpuWish()
    found = compiled("rusage[gpu=1:mps=yes,nocvd,mem=5]")  # a comma begins another part, too
    assert (found.gpu, found.amounts) == (GpuWish(mps="yes,nocvd"), (Amount("mem", 5),))
    found = compiled("rusage[gpu=0.25:mps=yes,nocvd,shared]")
    assert found.gpu == GpuWish(1, 250, mps="yes,shared,nocvd")
    # As in LSF block=yes wins over aff=yes.
    assert compiled("rusage[gpu=1:aff=yes:block=yes]").gpu == GpuWish(is_blocked=True)


def test_gpus_are_shown_as_they_were_asked_for():
    for text in (
        "rusage[gpu=0.25]",
        "rusage[ngpus_physical=2.00/host:glink=yes]",
        "rusage[mem=5.00, gpu=4.00:gmem=1024.00:gmodel=H100]",
        "rusage[ngpus_physical=2.00/host:gvendor=amd:block=yes]",
        "rusage[gpu=2.00:aff=yes]",
        "rusage[gpu=2.00:mps=yes]",
        "rusage[gpu=0.25:mps=yes,shared]",
        "rusage[mem=1.00, gpu=2.00:mode=exclusive_process:mps=yes,nocvd]",
    ):
        assert text in render_request(compiled(text))
        assert compiled(render_request(compiled(text))).gpu == compiled(text).gpu


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("rusage[gpu=1.5]", "a whole number"),
        ("rusage[gpu=1:duration=5]", "takes no duration"),
        ("rusage[gpu=1, ngpus=2]", "asked for twice"),
        ("rusage[mem=1:gmodel=H100]", "say how many"),
        ("rusage[gpu=1:glink=perhaps]", "glink is yes or no"),
        ("rusage[gpu=1:mps=per_gpu]", "per_gpu of mps"),
        ("rusage[gpu=1:mps='yes,shared,shared']", "mps is yes"),
        (
            "rusage[gpu=1:mps='no,nocvd']",
            "yes, yes,shared, yes,nocvd, yes,shared,nocvd or no",
        ),
        ("rusage[gpu=1:mps=perhaps]", "mps is yes"),
        ("rusage[gpu=0.5:mps=yes]", "about whole GPUs; jobs with parts"),
        ("rusage[gpu=1:mps=yes:gvendor=amd]", "mps=yes is NVIDIA's"),
        ("rusage[gpu=1:mps=yes:gmodel='Instinct MI300X']", "mps=yes is NVIDIA's"),
        ("rusage[gpu=1:gvendor=arm]", "gvendor is nvidia or amd"),
        ("rusage[gpu=5000]", "no host has more"),
    ],
)
def test_gpus_that_make_no_sense_are_refused(text, what):
    assert what in refused(text).message


def test_sizes_in_tmp_are_in_megabytes_wherever():
    assert compiled("tmp > 5 && maxtmp > 1G && mem > 1", unit="GB").select == (
        "tmp > 5 && maxtmp > 1024 && mem > 1024"
    )
    assert compiled("rusage[tmp=5]", unit="GB").amounts == (Amount("tmp", 5),)


def test_the_levels_of_the_configuration_replace_the_default_ones():
    config = ClusterConfig(levels=("leaf", "spine"))
    for level in ("host", "leaf", "spine"):
        assert compile_request([f"cu[type={level}]"], config=config).cu == CuWish(level)
    with pytest.raises(ResreqError, match="it has: host, leaf, spine"):
        compile_request(["cu[type=switch]"], config=config)


def test_the_value_of_an_affinity_text_is_typed():
    found = parse_affinity("core(2,same=socket,exclusive=(socket,injob))*3:cpubind=core")
    assert (found.unit, found.count, found.same) == ("core", 2, "socket")
    assert (found.exclusive, found.scope, found.repeat) == ("socket", "injob", 3)
    for text in ("", "core(0)", "core] span[hosts=1", "socket(1,same=core)"):
        with pytest.raises(ResreqError):
            parse_affinity(text)


def test_gpus_asked_for_beside_parts_are_for_each_of_them():
    wish = GpuWish(2, per="host", is_by_lsf=True)
    text = "1*{router: !gpu} + 2*{worker: mem>1} + 1*{last: !( gpu ) && mem>1}"
    found = compiled(text, tasks=None, gpu=wish)
    assert [part.request.gpu for part in found.parts] == [None, wish, None]
    assert "ngpus_physical=2.00/host" in render_request(found)
    own = compiled("1*{rusage[gpu=1]} + 2*{}", tasks=None, gpu=wish)
    assert [part.request.gpu for part in own.parts] == [GpuWish(), None]
    inside = compiled("{1*{} + 1*{mem>1}} || {}", tasks=None, gpu=wish)
    assert [part.request.gpu for part in inside.alternatives[0].request.parts] == [wish, wish]
    assert inside.alternatives[1].request.gpu == wish
    assert "all parts want hosts without GPUs" in refused("1*{!gpu} + 1*{!gpu}", gpu=wish).message


def test_gpus_on_each_host_are_tasks_on_each_host():
    found = compiled("span[gtile=4] rusage[gpu=2]", tasks=(8, 8))
    assert (found.ptile, found.gtile) == (2, 0)
    assert compiled("span[gtile=4]", tasks=(8, 8), gpu=GpuWish(1)).ptile == 4
    parts = compiled("4*{span[gtile=2]} + 1*{}", tasks=None, gpu=GpuWish(1)).parts
    assert [part.request.ptile for part in parts] == [2, 0]
    either = compiled("{span[gtile=2] rusage[gpu=1]} || {}", tasks=(4, 4))
    assert either.alternatives[0].request.ptile == 2
    message = refused("span[gtile=3] rusage[gpu=2]", tasks=(8, 8)).message
    assert message == "span[gtile=3] is no whole number of tasks with 2 GPUs each"
    assert compiled("span[gtile=4]", tasks=(8, 8), gpu=GpuWish(4, per="host")).gtile == 0


@pytest.mark.parametrize(
    ("text", "gpu", "why"),
    [
        ("span[gtile=2]", None, "none are asked for: say how many, as in rusage[gpu=1]"),
        ("span[gtile='!']", GpuWish(2, per="host"), "2 GPUs for each host both say"),
        ("span[gtile=4]", GpuWish(2, per="host"), "ask for GPUs of each task"),
        ("span[gtile=4]", GpuWish(2, per="job"), "2 GPUs for each job both say"),
        ("span[gtile=4] rusage[gpu=0.5]", None, "how many tasks a host has by ptile"),
    ],
)
def test_gpus_on_each_host_that_make_no_sense_are_refused(text, gpu, why):
    assert why in refused(text, tasks=(4, 4), gpu=gpu).message


@pytest.mark.parametrize(
    ("text", "tile"),
    [("gtile=2", 2), ("gtile='!'", -1), ("gtile=1:gmodel=H100", 1), ("mig=1:gtile=2", 2)],
)
def test_gpus_of_each_socket_are_read_and_shown(text, tile):
    found = compiled(f"rusage[ngpus_physical=4/host:{text}]")
    assert found.gpu is not None
    assert found.gpu.tile == tile
    assert compiled(render_request(found)).gpu == found.gpu


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("gpu=0.5:gtile=1", "parts of one are asked for"),
        ("gpu=2:gtile=1:glink=yes", "gtile together with glink=yes is not built yet"),
        ("gpu=2:gtile=x", "gtile is '!' or a number"),
        ("gtile=2", "are not asked for"),
    ],
)
def test_gpus_of_each_socket_that_make_no_sense_are_refused(text, why):
    assert why in refused(f"rusage[{text}]").message
