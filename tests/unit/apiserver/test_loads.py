from operator import attrgetter

from xce.apiserver.loads import sum_loads
from xce.testing.builders import cluster, gang, place, propose, submission, submit


def test_slots_are_counted_alike_by_whatever_classes_are_called():
    controller = cluster({"h1": 4, "h2": 4})
    place(controller, submit(controller))
    submit(controller, submission(tasks=2))
    chosen = submit(controller, submission(tasks=(2, 4)))
    propose(controller, gang(controller, chosen, hosts={"h1": 1, "h2": 2}))
    by_queue = sum_loads(controller.state, attrgetter("queue"))["normal"]
    by_user = sum_loads(controller.state, attrgetter("user"))["alice"]
    for load in (by_queue, by_user):
        assert (load.pend, load.run, load.susp, load.ssusp) == (2, 4, 0, 0)
