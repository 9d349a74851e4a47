"""What is told of hosts."""

from xce.apiserver.tables import AWAITED, host_rows
from xce.model.observation import ReignBegan
from xce.testing.builders import cluster, join_host


def test_after_a_restore_all_hosts_take_nothing_and_those_that_are_awaited_say_so():
    controller = cluster({"h1": 4, "h2": 4})
    controller.tell(ReignBegan(is_restored=True), by="controller")
    join_host(controller, "h1")
    rows = host_rows(controller.state)
    assert [row.status for row in rows] == ["unreach", "unreach"]
    assert [row.comment for row in rows] == ["", AWAITED]
    join_host(controller, "h2")
    rows = host_rows(controller.state)
    assert [(row.status, row.comment) for row in rows] == [("ok", ""), ("ok", "")]
