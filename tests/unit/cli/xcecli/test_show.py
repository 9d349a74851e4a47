from xce.cli.lsf.jobs_long import role_lines
from xce.cli.xcecli.show import proof_text

PROOF = {"relation": 1, "kind": "colocate", "level": "switch", "domains": ["s1"], "tasks": 0}


def test_how_relations_hold_is_told():
    assert proof_text({**PROOF, "met": True}) == "colocate in switch s1"
    assert proof_text({**PROOF, "met": False}) == "colocate could not be met (it is preferred)"
    spread = {**PROOF, "kind": "spread", "domains": ["s1", "s2"], "tasks": 2, "met": True}
    assert proof_text(spread) == "spread, at most 2 in one switch"
    apart = {**PROOF, "kind": "apart", "met": True}
    assert proof_text(apart) == "apart from others, in switch s1"


def test_bjobs_tells_where_roles_are():
    roles = [{"role": "decode", "hosts": [["h1", 2], ["h2", 1]], "ranks": [1, 3]}]
    assert role_lines({"roles": roles}) == ["", " ROLE ALLOCATIONS:", "  decode: 2*h1 1*h2"]
    assert role_lines({}) == []
