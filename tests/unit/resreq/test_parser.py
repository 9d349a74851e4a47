"""The whole requirement: every form of LSF's, and each error with its column."""

import pytest

from xce.resreq import ast
from xce.resreq.errors import ResreqError
from xce.resreq.parser import parse_requirement, parse_select
from xce.resreq.render import render_requirement

CANONICAL = {
    "": "",
    "rusage[mem=100.0]": "rusage[mem=100]",
    "type=X86_64": "select[type == X86_64]",
    "mem > 100": "select[mem > 100]",
    "gpu": "select[gpu]",
    "swp > 15 && hpux order[ut]": "select[swp > 15 && hpux] order[ut]",
    "select[mem>60MB] rusage[mem=60MB]": "select[mem > 60MB] rusage[mem=60MB]",
    "select[mem>1g]span[hosts=1]": "select[mem > 1GB] span[hosts=1]",
    "select[hname!='h1' && hname!='h2']": "select[hname != 'h1' && hname != 'h2']",
    "select[(a||b)&&(c&&!(d||e))]": "select[(a || b) && c && !(d || e)]",
    "select[a-(b-c)-d*(e/f)]": "select[a - (b - c) - d * (e / f)]",
    "select[(mem>1)==(ncpus>2)]": "select[mem > 1 == ncpus > 2]",
    "select[mem > (ncpus == 2)]": "select[mem > (ncpus == 2)]",
    "select[defined(lic) && -1 < -mem]": "select[defined(lic) && -1 < -mem]",
    'select[model == "it\'s"]': 'select[model == "it\'s"]',
    "order[-slots:mem]": "order[-slots:mem]",
    "order[!ncpus]": "order[!ncpus]",
    "order[!-slots:mem]": "order[!-slots:mem]",
    "order[slots:!-mem]": "order[!slots:-mem]",
    "rusage[mem=1/task:lic=2/job, swp=3/host]": "rusage[mem=1/task:lic=2/job, swp=3/host]",
    "rusage[swp=50:duration=2h:decay=1, license=1:duration=2]": (
        "rusage[swp=50:duration=2h:decay=1, license=1:duration=2m]"
    ),
    "rusage[mem=(400 200):duration=(10 15m):decay=(1 0)]": (
        "rusage[mem=(400 200):duration=(10m 15m):decay=(1 0)]"
    ),
    "rusage[mem=20 || mem=10:threshold=5.50]": "rusage[mem=20 || mem=10:threshold=5.5]",
    "span[hosts=-1]": "span[hosts=-1]",
    "span[ptile='!']": "span[ptile='!']",
    "span[ptile='!',HP:8,'a b':4]": "span[ptile='!',HP:8,'a b':4]",
    "span[stripe]": "span[stripe]",
    "span[stripe=3]": "span[stripe=3]",
    "span[block=4]": "span[block=4]",
    "span[gtile=2]": "span[gtile=2]",
    "same[model:type]": "same[model:type]",
    "cu[excl:type=enclosure:pref=maxavail:maxcus=2]": (
        "cu[type=enclosure:pref=maxavail:maxcus=2:excl]"
    ),
    "cu[min_task_per_cu=4]": "cu[usablecuslots=4]",
    "affinity[core(1)]": "affinity[core(1)]",
    "affinity[core(1, same=socket, exclusive=(socket, injob))*1:cpubind=socket:"
    "membind=localonly:distribute=pack]": (
        "affinity[core(1,same=socket,exclusive=(socket,injob)):cpubind=socket:"
        "membind=localonly:distribute=pack]"
    ),
    "affinity[cpu*2:distribute=pack(mcm=1)]": "affinity[thread(1)*2:distribute=pack(numa=1)]",
    "1*{select[craylinux && !vnode]} + 480*{select[craylinux && vnode]span[ptile=24]}": (
        "1*{select[craylinux && !vnode]} + 480*{select[craylinux && vnode] span[ptile=24]}"
    ),
    "2*{mem>1}+{}": "2*{select[mem > 1]} + {}",
    "{2*{gpu}+{}} same[model]": "{2*{select[gpu]} + {}} same[model]",
    "{ select[type==any] order[ut] } || { 2*{gpu} }@4 || {}@4": (
        "{select[type == any] order[ut]} || {2*{select[gpu]}}@4 || {}@4"
    ),
    "{{1*{}+1*{}} same[type]} || {gpu}": "{{1*{} + 1*{}} same[type]} || {select[gpu]}",
}


@pytest.mark.parametrize(("text", "canonical"), CANONICAL.items())
def test_a_requirement_has_one_canonical_text(text, canonical):
    assert render_requirement(parse_requirement(text)) == canonical


@pytest.mark.parametrize("canonical", CANONICAL.values())
def test_canonical_text_is_a_fixed_point(canonical):
    tree = parse_requirement(canonical)
    assert render_requirement(tree) == canonical
    assert parse_requirement(render_requirement(tree)) == tree


def test_operators_bind_as_in_lsf():
    assert parse_select("a || b && c == d < e + f * -g") == ast.Or(
        (
            ast.Name("a"),
            ast.And(
                (
                    ast.Name("b"),
                    ast.Compare(
                        "==",
                        ast.Name("c"),
                        ast.Compare(
                            "<",
                            ast.Name("d"),
                            ast.Chain(
                                ast.Name("e"),
                                (
                                    (
                                        "+",
                                        ast.Chain(
                                            ast.Name("f"), (("*", ast.Negative(ast.Name("g"))),)
                                        ),
                                    ),
                                ),
                            ),
                        ),
                    ),
                )
            ),
        )
    )


SYNTAX = "Bad resource requirement syntax"
SELECT = "Error in select section"
RUSAGE = "Error in rusage section"
PRIMARY = 'Error in select section: Expected number, string, name, or "(" but found '
WRONG = [
    ("select[a] select[b]", 11, 'Error near "select" : duplicate section'),
    ("mem>1 select[b]", 7, 'Error near "select" : duplicate section'),
    ("span[ptile=2] span[ptile=3]", 15, 'Error near "span" : duplicate section'),
    ("rusage[mem=1] mem>1", 15, SYNTAX),
    ("rusage[mem=]", 12, RUSAGE),
    ("rusage[mem=-1]", 12, RUSAGE),
    ("rusage[mem=1/node]", 14, RUSAGE),
    ("rusage[mem=1X]", 13, RUSAGE),
    ("rusage[]", 8, RUSAGE),
    ("rusage[mem]", 11, RUSAGE),
    ("rusage[duration=1]", 18, RUSAGE),
    ("rusage[mem=1:decay=2]", 20, RUSAGE),
    ("rusage[mem=1:decay=1:decay=1]", 22, RUSAGE),
    ("rusage[mem=1:duration=1d]", 24, RUSAGE),
    ("rusage[mem=()]", 13, RUSAGE),
    ("select[]", 8, PRIMARY + '"]"'),
    ("select[mem>]", 12, PRIMARY + '"]"'),
    ("select[mem>", 12, PRIMARY + "end of string"),
    ("select[mem>1GB", 15, SELECT),
    ("select[(mem>1]", 14, SELECT),
    ("select[1<mem<3]", 13, SELECT),
    ("select[mem 1]", 12, SELECT),
    ("select[defined(1)]", 16, SELECT),
    ("select[mem & 1]", 12, SYNTAX),
    ("select[mem | 1]", 12, SYNTAX),
    ("select[hname == 'a]", 17, SYNTAX),
    ("select[mem > 1] #", 17, SYNTAX),
    ("order[]", 7, SYNTAX),
    ("order[mem:]", 11, SYNTAX),
    ("span[hosts=0]", 12, SYNTAX),
    ("span[hosts=-2]", 13, SYNTAX),
    ("span[ptile=0]", 12, SYNTAX),
    ("span[ptile=1.5]", 12, SYNTAX),
    ("span[tiles=1]", 6, SYNTAX),
    ("span[ptile=1:hosts=1]", 13, SYNTAX),
    ("same[model:]", 12, SYNTAX),
    ("cu[type=a:type=b]", 11, SYNTAX),
    ("cu[pref=best]", 9, SYNTAX),
    ("affinity[die(1)]", 10, SYNTAX),
    ("affinity[core(1):cpubind=core:cpubind=core]", 31, SYNTAX),
    ("foo[1]", 1, SYNTAX),
    ("2*{gpu}+{}+{}", 11, SYNTAX),
    ("{}+{}", 3, SYNTAX),
    ("0*{gpu}", 1, SYNTAX),
    ("2*{gpu", 7, SYNTAX),
    ("{gpu}", 6, SYNTAX),
    ("{a} || {b}@5 || {c}@4", 21, SYNTAX),
    ("{2*{}}", 7, SYNTAX),
    ("{{gpu}} || {}", 6, SYNTAX),
    ("\x00", 1, SYNTAX),
    ("mém > 1", 2, SYNTAX),
]


@pytest.mark.parametrize(("text", "column", "lsf"), WRONG)
def test_a_wrong_text_is_refused_at_its_column_in_lsfs_words(text, column, lsf):
    with pytest.raises(ResreqError) as caught:
        parse_requirement(text)
    assert (caught.value.column, caught.value.lsf) == (column, lsf)
    assert caught.value.expected
    assert f"column {column}" in caught.value.message


def test_deep_nesting_is_refused_and_not_a_crash():
    assert parse_select("(" * 99 + "1" + ")" * 99) == ast.Number("1")
    for text in ("(" * 5000 + "1", "!" * 5000 + "1", "-" * 5000 + "1", "(!" * 3000 + "1"):
        with pytest.raises(ResreqError, match="nested more than 100 levels"):
            parse_requirement(text)


def test_depth_to_the_left_counts_as_nesting():
    text = "1"
    for _ in range(40):
        text = f"({text}) * 2 + 3 < 4 == 5 && 6 || 7"
    with pytest.raises(ResreqError, match="nested more than 100 levels"):
        parse_requirement(text)


def test_a_long_flat_expression_is_no_trouble():
    text = " + ".join(["mem"] * 2700)
    assert render_requirement(parse_requirement(text)) == f"select[{text}]"


def test_a_text_beyond_the_limit_is_refused():
    with pytest.raises(ResreqError, match="16384 characters"):
        parse_requirement("a" * 16_385)


def test_a_number_beyond_all_digits_is_refused():
    with pytest.raises(ResreqError, match="at most 18 digits"):
        parse_requirement("rusage[mem=1234567890123456789]")
