from xce.model.constraint import Colocate, Exclusive, Near, Spread
from xce.state.relaxing import delays_of_constraints, relaxed

SWITCH = Colocate(0, ("a",), ("switch", "block"), relax_after_us=30)
SPREAD = Spread(1, ("a",), "host", relax_after_us=50)
NEAR = Near(2, ("a",), "job:1", ("switch", "block", "rack"), relax_after_us=20)
FIXED = (Exclusive(3, ("a",), "host"), Colocate(4, ("a",), ("host", "switch"), required=False))


def test_a_level_is_given_up_after_each_wait():
    assert list(delays_of_constraints((SWITCH, SPREAD, NEAR, *FIXED))) == [30, 60, 50, 20, 40, 60]
    assert relaxed((SWITCH, SPREAD, NEAR, *FIXED), 29)[2].levels == ("block", "rack")
    later = relaxed((SWITCH, SPREAD, NEAR, *FIXED), 50)
    assert [item.relation for item in later] == [0, 2, 3, 4]
    assert later[0].levels == ("block",)
    assert relaxed((SWITCH, SPREAD, NEAR, *FIXED), 60) == FIXED
