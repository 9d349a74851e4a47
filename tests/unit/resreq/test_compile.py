"""Requirement texts become requests: merged, checked, in base units, nothing ignored."""

import pytest

from xce.model.config import ClusterConfig, PoolConfig, ResourceConfig
from xce.model.request import Amount, HostChoice, Request
from xce.resreq.compile import compile_request, render_request
from xce.resreq.errors import NotBuiltError, ResreqError

CONFIG = ClusterConfig(
    resources=(
        ResourceConfig(name="lic", kind="counter"),
        ResourceConfig(name="scratch", kind="counter", unit="GB"),
        ResourceConfig(name="gpu32gb", kind="boolean"),
        ResourceConfig(name="rack", kind="string"),
        ResourceConfig(name="speed", kind="number"),
        ResourceConfig(name="seats", kind="pool"),
    ),
    pools=(PoolConfig(name="seats", total=4),),
)


def compiled(*texts, **options):
    options = {"config": CONFIG, "tasks": (1, 1), **options}
    return compile_request(texts, **options)


def refused(*texts, **options):
    with pytest.raises(ResreqError) as caught:
        compiled(*texts, **options)
    return caught.value


def test_nothing_asked_is_the_default_request():
    assert compiled() == Request()
    assert compiled("") == Request()
    assert compiled(tasks=(2, 4), exclusive=True) == Request(2, 4, exclusive=True)


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("rusage[mem=100.0]", (Amount("mem", 100),)),
        ("rusage[mem=512MB]", (Amount("mem", 512),)),
        ("rusage[mem=1.5G/host]", (Amount("mem", 1536, "host"),)),
        ("rusage[mem=1K]", (Amount("mem", 1),)),
        ("rusage[mem=100.1]", (Amount("mem", 101),)),
        ("rusage[mem=0]", ()),
        ("rusage[lic=1/job:seats=2]", (Amount("lic", 1, "job"), Amount("seats", 2))),
        ("rusage[lic=1/job,lic=1/host]", (Amount("lic", 1, "host"), Amount("lic", 1, "job"))),
        ("rusage[lic=0.5]", (Amount("lic", 1),)),
        ("rusage[scratch=3]", (Amount("scratch", 3),)),
        ("rusage[scratch=1500MB]", (Amount("scratch", 2),)),
        ("rusage[scratch=2T/task]", (Amount("scratch", 2048),)),
    ],
)
def test_rusage_is_counted_in_base_units_rounded_up(text, amounts):
    assert compiled(text).amounts == amounts


@pytest.mark.parametrize(
    ("unit", "mib"),
    [("KB", 1), ("MB", 2), ("GB", 2048), ("TB", 2 * 1024 * 1024), ("classic", 2)],
)
def test_a_bare_mem_is_in_the_unit_for_limits(unit, mib):
    assert compiled("rusage[mem=2]", unit=unit).amounts == (Amount("mem", mib),)
    assert compiled("rusage[mem=2MB]", unit=unit).amounts == (Amount("mem", 2),)


@pytest.mark.parametrize(
    ("text", "unit", "select"),
    [
        ("type=X86_64", "MB", "type == X86_64"),
        ("select[mem>60MB]", "MB", "mem > 60"),
        ("select[mem>60KB]", "MB", "mem > 0.059"),
        ("select[mem>2 && ncpus>2]", "GB", "mem > 2048 && ncpus > 2"),
        ("select[mem>2 * ncpus]", "GB", "mem > 2 * ncpus * 1024"),
        ("select[mem - maxmem/2 > ncpus + 1]", "KB",
         "mem - maxmem / 2 > ncpus / 1024 + 0.001"),
        ("select[mem/maxmem > 0.5]", "GB", "mem / maxmem > 0.5"),
        ("select[mem > 1MB]", "GB", "mem > 1"),
        ("select[h1 == hname]", "MB", "hname == h1"),
        ("select[rack != 'a b']", "MB", "rack != 'a b'"),
        ("select[rack == 7]", "MB", "rack == '7'"),
        ("select[rack == type]", "MB", "rack == type"),
        ("select[gpu32gb && !defined(speed)]", "MB", "gpu32gb && !defined(speed)"),
        ("select[(slots>1)+(maxslots>1) > 1]", "MB", "(slots > 1) + (maxslots > 1) > 1"),
        ("select[-speed < -2.50]", "MB", "-speed < -2.5"),
        ("select[1]", "MB", "1"),
    ],
)  # fmt: skip
def test_select_is_settled_to_mib_and_known_names(text, unit, select):
    request = compiled(text, unit=unit)
    assert request.select == select
    assert compiled(f"select[{select}]").select == select


def test_several_texts_are_merged():
    request = compiled(
        "select[mem>5 || ncpus>1] order[slots]",
        "rusage[mem=1]",
        "select[gpu32gb && slots>2] order[-mem] rusage[lic=1]",
        "span[ptile=2]",
        tasks=(4, 8),
        hosts="a b+2 others",
    )
    assert request == Request(
        tasks_min=4,
        tasks_max=8,
        amounts=(Amount("lic", 1), Amount("mem", 1)),
        select="(mem > 5 || ncpus > 1) && gpu32gb && slots > 2",
        order="slots:-mem",
        ptile=2,
        hosts=(HostChoice("b", 2), HostChoice("a", 0)),
        other_hosts=True,
    )


def test_span_is_honoured_or_cancelled():
    assert compiled("span[hosts=1]").one_host
    assert compiled("span[hosts=-1]") == Request()
    assert compiled("span[ptile=3]").ptile == 3


@pytest.mark.parametrize(
    ("texts", "lsf", "column"),
    [
        (["select[foo]"], "Bad resource name", 8),
        (["select[mem > 1 && foo > 1]"], "Bad resource name", 19),
        (["select[defined(foo)]"], "Bad resource name", 16),
        (["order[foo]"], "Bad resource name", 7),
        (["rusage[foo=1]"], "Bad resource name", 8),
        (["rusage[rack=1]"], "Non-consumable resource in the RUSAGE section", 8),
        (["rusage[slots=1]"], "Non-consumable resource in the RUSAGE section", 8),
        (["rusage[ut=1]"], "Non-consumable resource in the RUSAGE section", 8),
        (["rusage[lic=1G]"], "Error in rusage section", 8),
        (["rusage[mem=1]", "rusage[mem=2]"], "Error in rusage section", 8),
        (["rusage[mem=1||lic=1]", "rusage[lic=2]"], "Error in rusage section", 8),
        (["rusage[mem=1:decay=1]"], "Error in rusage section", 14),
        (["rusage[mem=(1 2)]"], "Error in rusage section", 8),
        (["rusage[mem=1:duration=(1 2)]"], "Error in rusage section", 8),
        (["rusage[mem=1/job:threshold=2,mem=1/host:threshold=3]"], "Error in rusage section", 18),
        (["rusage[mem=1:scratch=1:threshold=2]"], "Error in rusage section", 24),
        (["span[ptile=1,HP:2,HP:3]"], "Bad resource requirement syntax", 6),
        (["same[lic]"], "Bad resource requirement syntax", 6),
        (["same[foo]"], "Bad resource name", 6),
        (["cu[type=enclosure]"], "Bad compute unit type", 9),
        (["cu[balance:pref=bestfit]"], "Bad resource requirement syntax", 4),
        (["cu[balance:usablecuslots=2]"], "Bad resource requirement syntax", 4),
        (["2*{cu[excl]} + 1*{}"], "Bad resource requirement syntax", 7),
        (["2*{cu[balance]} + 1*{}"], "Bad resource requirement syntax", 7),
        (["2*{rusage[mem=1||mem=2]} + 1*{}"], "Bad resource requirement syntax", 16),
        (["affinity[core(1,same=thread)]"], "Bad resource requirement syntax", 17),
        (["affinity[socket:distribute=pack(core=1)]"], "Bad resource requirement syntax", 17),
        (["mem>1", "2*{} + 1*{}"], "Bad resource requirement syntax", 1),
        (["{mem>1} || {mem>2}", "lic>1"], "Bad resource requirement syntax", 1),
        (["cu[type=switch]", "cu[type=rack]"], 'Error near "cu" : duplicate section', 1),
        (["affinity[core]", "affinity[core]"], 'Error near "affinity" : duplicate section', 1),
        (["rusage[mem=999999ZB]"], "Bad resource requirement syntax", 8),
        (["order[rack]"], "Bad resource requirement syntax", 7),
        (["span[hosts=1]", "span[ptile=1]"], 'Error near "span" : duplicate section', 1),
        (["select[rack]"], "Error in select section", 8),
        (["select['a']"], "Error in select section", 8),
        (["select[rack < 'a']"], "Error in select section", 8),
        (["select[hname == h-1]"], "Error in select section", 8),
        (["select[mem + rack > 1]"], "Error in select section", 14),
        (["select[mem > 'a']"], "Error in select section", 14),
        (["select[mem > 999999ZB]"], "Error in select section", 14),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(texts, lsf, column):
    error = refused(*texts)
    assert not isinstance(error, NotBuiltError)
    assert (error.lsf, error.column) == (lsf, column)
    assert error.text == texts[-1]


def test_a_product_of_sizes_has_a_meaning_only_where_nothing_is_converted():
    text = "select[mem * maxmem > 4 || 1 / mem > 2]"
    assert compiled(text).select == "mem * maxmem > 4 || 1 / mem > 2"
    assert "multiplied by a size" in refused(text, unit="GB").message


def test_texts_that_are_too_long_together_are_refused():
    text = " + ".join(["mem"] * 2000) + " > 1"
    assert compiled(text).select == text
    assert "16384 characters" in refused(text, text).message
    nested = "!(mem > 1 && " * 48 + "mem > 1" + ")" * 48
    assert "100 levels" in refused(f"{nested} || ncpus > 1", nested, nested).message
    deep = "(" * 95 + "mem > 1 || ncpus" + ")" * 95
    assert compiled(deep).select == "mem > 1 || ncpus"


def test_an_unknown_name_is_answered_with_the_known_ones():
    assert refused("rusage[foo=1]").message == (
        "no resource is called 'foo'; known in rusage[] are: gpu, lic, mem, scratch, seats"
    )
    assert "ut" in refused("select[foo]").message


@pytest.mark.parametrize("tasks", [(0, 1), (5, 2), (1, 99_999_999)])
def test_a_wrong_number_of_tasks_is_refused(tasks):
    assert "number of tasks" in refused(tasks=tasks).message


def test_an_unknown_unit_is_refused():
    assert "'XB' is no unit" in refused("mem>1", unit="XB").message


def test_a_declared_resource_wins_over_one_that_is_not_built():
    config = ClusterConfig(resources=(ResourceConfig(name="model", kind="string"),))
    assert compiled("select[model == A100]", config=config).select == "model == A100"


@pytest.mark.parametrize(
    ("texts", "shown"),
    [
        ([], "select[type == any]"),
        (
            ["mem>1 order[slots] rusage[mem=1G:lic=1/job] span[hosts=1]"],
            "select[mem > 1] order[slots] rusage[lic=1.00/job:mem=1024.00] span[hosts=1]",
        ),
        (["span[ptile=4] rusage[mem=1/host]"],
         "select[type == any] rusage[mem=1.00/host] span[ptile=4]"),
    ],
)  # fmt: skip
def test_a_request_is_shown_in_lsfs_style_and_read_back(texts, shown):
    request = compiled(*texts)
    assert render_request(request) == shown
    again = compiled(shown)
    assert render_request(again) == shown
