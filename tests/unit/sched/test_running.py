"""What runs, as columns that follow the journal."""

from sessions import Scheduled

from xce.model.ids import SECOND_US
from xce.sched.running import Releases, Running
from xce.testing.builders import cluster, report_ended, report_started, submission, submit


def rows(found: Releases) -> list[tuple[int, ...]]:
    columns = found.at_us, found.numbers, *found.amounts, *found.pools
    return sorted(zip(*(column.tolist() for column in columns), strict=True))


def test_the_rows_are_made_anew_only_when_one_of_them_changes() -> None:
    world = Scheduled(cluster({"h1": 4, "h2": 4}))
    asked = submission(tasks=2, run_limit_us=60 * SECOND_US)
    jobs = [submit(world.controller, asked) for _ in range(3)]
    world.run()
    running = world.memory.running
    found = running.releases(world.controller.state)
    before = rows(found)
    assert len(before) == 3
    assert running.releases(world.controller.state) is found
    report_started(world.controller, jobs[0])
    world.hear()
    started = running.releases(world.controller.state)
    assert started is not found
    report_ended(world.controller, jobs[1])
    world.hear()
    left = running.releases(world.controller.state)
    assert len(rows(left)) == 2
    assert rows(left) == rows(Running().releases(world.controller.state))
    assert rows(found) == before  # what was given is not changed afterwards
