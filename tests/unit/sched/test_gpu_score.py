"""Scorers of hosts with GPUs, against the definitions in plain Python."""

from random import Random

import numpy as np

from xce.sched.gpu_score import (
    Ask,
    Hosts,
    Mix,
    Sizes,
    blend,
    fullest_device,
    score_hosts,
    shrinkage,
)

EVERY = frozenset({0, 1})


def draw(rng: Random, count: int = 6) -> Hosts:
    devices = [[rng.choice((0, 200, 500, 700, 1000, 1000)) for _ in range(4)] for _ in range(count)]
    return Hosts(
        np.asarray([rng.randint(0, 16) for _ in range(count)], np.int64),
        np.asarray(devices, np.int64),
        np.asarray([rng.randint(0, 1) for _ in range(count)], np.int64),
    )


TASKS = {
    (1, 1, 500, EVERY): 50,
    (2, 1, 1000, EVERY): 30,
    (8, 4, 1000, frozenset({1})): 10,
    (4, 0, 0, EVERY): 8,
    (9, 2, 1000, EVERY): 2,
}


def fragments_plainly(hosts: Hosts, place: int, tasks: dict) -> int:
    """Return what each task could not use of what is free on a host, summed up over tasks."""
    free = hosts.devices[place].tolist()
    lost = 0
    for (cpu, count, milli, where), size in tasks.items():
        usable = [amount for amount in free if amount >= milli]
        runs = count and cpu <= hosts.cpu[place] and hosts.kinds[place] in where
        lost += size * (sum(free) - (sum(usable) if runs and len(usable) >= count else 0))
    return lost


def test_fragments_are_what_the_cluster_s_tasks_cannot_use():
    rng = Random(7)
    common = {kind: size for kind, size in TASKS.items() if size > 2}
    mix = Mix(TASKS, 2)
    assert mix.total == 98
    for _ in range(50):
        hosts = draw(rng)
        plain = [fragments_plainly(hosts, place, common) for place in range(len(hosts.cpu))]
        assert mix.fragments(hosts).tolist() == plain


def test_the_gradient_is_the_best_that_a_choice_of_gpu_gives():
    rng = Random(8)
    mix = Mix(TASKS, 2)
    for ask in (Ask(1, 1, 500), Ask(2, 1, 1000), Ask(1, 2, 1000), Ask(1, 0, 0)):
        for _ in range(30):
            hosts = draw(rng)
            room = (hosts.devices >= ask.milli).sum(axis=1) >= ask.gpus
            hosts = hosts.only(np.flatnonzero(room & (hosts.cpu >= ask.cpu)))
            if not len(hosts.cpu):
                continue
            shrinks, chosen = shrinkage(hosts, ask, mix.fragments)
            for place in range(len(hosts.cpu)):
                found = [
                    (int(mix.fragments(hosts)[place] - mix.fragments(after)[place]), device)
                    for device, after in after_each(hosts, place, ask)
                ]
                best = max(gain for gain, _ in found)
                assert shrinks[place] == best
                if 0 < ask.milli < 1000:
                    assert (best, int(chosen[place])) in found


def after_each(hosts: Hosts, place: int, ask: Ask):
    """Yield what is left of hosts when a task takes one of its choices on one of them."""
    if ask.milli in (0, 1000):
        devices = hosts.devices.copy()
        whole = np.flatnonzero(devices[place] >= ask.milli)[: ask.gpus]
        devices[place, whole] -= ask.milli
        yield 0, Hosts(hosts.cpu - ask.cpu, devices, hosts.kinds)
        return
    for device in np.flatnonzero(hosts.devices[place] >= ask.milli).tolist():
        devices = hosts.devices.copy()
        devices[place, device] -= ask.milli
        yield device, Hosts(hosts.cpu - ask.cpu, devices, hosts.kinds)


def test_best_fit_likes_the_fullest_and_spread_the_emptiest():
    hosts = Hosts(
        np.asarray([8, 8, 8]),
        np.asarray([[1000, 1000], [1000, 0], [1000, 500]]),
        np.zeros(3, np.int64),
    )
    mix, sizes, ask = Mix(TASKS, 2), Sizes(8, 2000), Ask(1, 1, 1000)
    assert int(np.argmax(score_hosts("best-fit", hosts, ask, mix, sizes))) == 1
    assert int(np.argmax(score_hosts("spread", hosts, ask, mix, sizes))) == 0
    assert int(np.argmax(score_hosts("dot-product", hosts, ask, mix, sizes))) == 1
    assert fullest_device(hosts, Ask(1, 1, 400)).tolist() == [0, 0, 1]


def test_where_fragments_do_not_matter_the_fullest_host_is_taken():
    hosts = Hosts(np.asarray([8, 8]), np.asarray([[1000, 1000], [1000, 0]]), np.zeros(2, np.int64))
    scores, _ = blend(hosts, Ask(1, 1, 1000), Mix({}, 1), Sizes(8, 2000))
    assert int(np.argmax(scores)) == 1


def waste_plainly(hosts: Hosts, place: int, tasks: dict) -> int:
    """Return what each task could not use, if its CPUs must do for half of what it uses."""
    free = hosts.devices[place].tolist()
    lost = 0
    for (cpu, count, milli, where), size in tasks.items():
        usable = [amount for amount in free if amount >= milli]
        most = sum(usable) if count and hosts.kinds[place] in where else 0
        most = most if len(usable) >= count else 0
        lost += size * (sum(free) - min(most, int(hosts.cpu[place]) // cpu * 2 * count * milli))
    return lost


def test_waste_is_what_tasks_cannot_use_with_the_cpus_that_are_free():
    rng = Random(9)
    common = {kind: size for kind, size in TASKS.items() if size > 2}
    mix = Mix(TASKS, 2)
    for _ in range(50):
        hosts = draw(rng)
        plain = [waste_plainly(hosts, place, common) for place in range(len(hosts.cpu))]
        assert mix.waste(hosts).tolist() == plain


def test_tasks_go_where_their_gpus_have_the_cpus_that_they_need():
    mix, sizes = Mix({(8, 1, 1000, EVERY): 1, (2, 1, 1000, EVERY): 1}, 2), Sizes(32, 4000)

    def chosen(cpus: list[int], asked: int) -> int:
        hosts = Hosts(np.asarray(cpus), np.asarray([[1000] * 4] * 2), np.zeros(2, np.int64))
        return int(np.argmax(blend(hosts, Ask(asked, 1, 1000), mix, sizes)[0]))

    assert chosen([16, 32], 8) == 1
    assert chosen([6, 32], 2) == 0


def test_gpus_cost_as_much_as_those_want_that_have_no_others():
    tasks = {(1, 1, 1000, EVERY): 6, (1, 1, 1000, frozenset({1})): 2}
    assert Mix(tasks, 2).prices.tolist() == [0, 0]
    # A quarter of what is asked for wants half of the GPUs, or a tenth of them.
    assert Mix(tasks, 2, [4, 4]).prices.tolist() == [0, 500]
    assert Mix(tasks, 2, [9, 1]).prices.tolist() == [0, 1000]
    hosts = Hosts(np.asarray([8, 8]), np.asarray([[1000, 1000], [1000, 0]]), np.asarray([0, 1]))
    scores, _ = blend(hosts, Ask(1, 1, 1000), Mix(tasks, 2, [4, 4]), Sizes(8, 2000))
    assert int(np.argmax(scores)) == 0
