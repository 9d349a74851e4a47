"""GPUs of one host: whole domains, the smallest that fits, split as the last resort; shares."""

from itertools import permutations

import numpy as np
import pytest

from xce.model.device import Device, GpuWish
from xce.sched.certify_devices import _is_wanted
from xce.sched.devices import (
    attempts_by_devices,
    choose_domains,
    device_room,
    lay_out,
    pick_devices,
    pick_for_entries,
    rows_of_devices,
    tasks_by_devices,
)
from xce.state.devices import DeviceTable

ROW = 2
"""Slots and memory come before the devices."""


def table(*links: list[int], closed: dict[int, str] | None = None) -> DeviceTable:
    """Return hosts whose GPUs are in these NVLink domains."""
    found = DeviceTable()
    for number, of_host in enumerate(links):
        found.add()
        devices = tuple(Device(index, link=link) for index, link in enumerate(of_host))
        found.settle(number, devices, is_idle=True)
        found.set_open(number, closed or {}, is_open=False, comment="")
    return found


def free_of(*hosts: list[int]) -> np.ndarray:
    """Return what is free, along rows and hosts."""
    width = max(map(len, hosts))
    rows = np.full((ROW + width, len(hosts)), 100, np.int64)
    for number, amounts in enumerate(hosts):
        rows[ROW:, number] = amounts + [0] * (width - len(amounts))
    return rows


def picked(wish: GpuWish, links: list[int], free: list[int], tasks: int = 1, **options):
    shape = lay_out(wish, table(links).columns, ROW)
    assert shape is not None
    return pick_devices(shape, 0, tasks, list(free), **options)


W = 1000


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        (GpuWish(), [True, False, False, True]),
        (GpuWish(vendor="amd"), [False, True, True, False]),
        (GpuWish(model="MI25"), [False, False, True, False]),
        (GpuWish(model="H100", vendor="amd"), [False, False, False, False]),
    ],
)
def test_a_device_is_of_whom_its_model_says(wish, expected):
    models = (
        "NVIDIA H100 80GB HBM3",
        "AMD Instinct MI300X",
        "Advanced Micro Devices, Inc. Vega 10 [Radeon Instinct MI25]",
        "",
    )
    found = DeviceTable()
    found.add()
    devices = tuple(Device(index, model=model) for index, model in enumerate(models))
    found.settle(0, devices, is_idle=True)
    assert found.columns.match(wish)[:, 0].tolist() == expected
    assert [_is_wanted(wish, device) for device in devices] == expected


@pytest.mark.parametrize(
    ("count", "links", "free", "expected"),
    [
        (4, [0, 0, 0, 0, 1, 1, 1, 1], [W] * 8, [0, 1, 2, 3]),
        (4, [0, 0, 0, 0, 1, 1, 1, 1], [0, W, W, W, W, W, W, W], [4, 5, 6, 7]),
        (2, [0, 0, 0, 0, 1, 1, 1, 1], [0, 0, W, W, W, W, W, W], [2, 3]),
        (3, [0, 0, 0, 0, 1, 1, 1, 1], [0, W, W, W, W, W, W, W], [1, 2, 3]),
        (4, [0] * 8 + [1] * 4, [0, 0, 0, 0, W, W, W, W] + [W] * 4, [8, 9, 10, 11]),
        (6, [0, 0, 0, 0, 1, 1, 1, 1], [W] * 8, [0, 1, 2, 3, 4, 5]),
        (3, [0, 0, 1, 1], [0, W, W, W], [2, 3, 1]),
        (5, [0, 0, 0, 0, 1, 1, 1, 1], [W, W, W, W, 0, 0, 0, W], [0, 1, 2, 3, 7]),
        (3, [0, 0, 1, 1], [0, W, 0, W], None),
        (2, [-1, -1, -1], [W, 0, W], [0, 2]),
    ],
)
def test_whole_domains_come_first_then_the_smallest_that_fits(count, links, free, expected):
    assert picked(GpuWish(count), links, free) == expected


def test_linked_ones_wait_for_a_domain():
    wish = GpuWish(2, is_linked=True)
    assert picked(wish, [0, 0, 1, 1], [0, W, 0, W]) is None
    assert picked(wish, [-1, -1], [W, W]) is None
    assert picked(wish, [0, 0, 1, 1], [0, W, W, W]) == [2, 3]
    assert picked(wish, [0, 0, 0, 1, 1], [W] * 5, 2) == [0, 1, 3, 4]
    assert picked(wish, [0, 0, 0, 1, 1], [W] * 5, 3) is None


def test_each_task_is_kept_in_a_domain_where_there_is_room():
    assert picked(GpuWish(2), [0, 0, 0, 1, 1, 1, 1, 1], [W] * 8, 3) == [3, 4, 5, 6, 0, 1]
    assert picked(GpuWish(2), [0, 0, 0, 1, 1, 1, 1, 1], [W] * 8, 4) == [3, 4, 5, 6, 0, 1, 2, 7]


def test_shares_are_packed_on_the_fullest_that_has_room():
    wish = GpuWish(1, 400)
    assert picked(wish, [-1] * 3, [W, 500, 900]) == [1]
    assert picked(wish, [-1] * 3, [W, 300, 900], 3) == [2, 2, 0]
    assert picked(wish, [-1] * 2, [300, 399]) is None


def test_what_does_not_fit_leaves_everything_as_it_was():
    left = [900, 500]
    shape = lay_out(GpuWish(1, 400), table([-1, -1]).columns, ROW)
    assert shape is not None
    assert pick_devices(shape, 0, 4, left) is None
    assert left == [900, 500]


def test_once_for_the_job_means_on_its_first_host():
    wish = GpuWish(2, per="job")
    assert picked(wish, [0, 0], [W, W], 5, is_first=False) == []
    assert picked(wish, [0, 0], [W, W], 5) == [0, 1]
    assert picked(GpuWish(2, per="host"), [0, 0], [W, W], 5) == [0, 1]


def test_a_domain_may_be_named():
    assert picked(GpuWish(1), [0, 0, 1, 1], [W] * 4, domain=1) == [2]


def test_columns_count_what_can_be_picked():
    links = [[0, 0, 0, 1, 1], [0, 0, 0, 0], [-1]]
    free = free_of([W, 0, W, W, W], [W, 500, W, W], [W])
    columns = table(*links).columns
    for wish in (
        GpuWish(1), GpuWish(2), GpuWish(2, is_linked=True), GpuWish(1, 500), GpuWish(3),
    ):  # fmt: skip
        shape = lay_out(wish, columns, ROW)
        assert shape is not None
        rooms = tasks_by_devices(shape, free, is_first=True)
        for number in range(3):
            fits = [
                tasks
                for tasks in range(1, 12)
                if pick_devices(shape, number, tasks, free[ROW:, number].tolist()) is not None
            ]
            assert fits == list(range(1, int(rooms[number]) + 1))
    shape = lay_out(GpuWish(), columns, ROW)
    assert shape is not None
    room = device_room(shape, free)
    assert room.whole.tolist() == [4, 3, 1]
    assert room.largest.tolist() == [2, 3, 1]
    assert room.domains.tolist() == [[2, 2], [3, 0], [1, 0]]
    assert attempts_by_devices(shape, free, 2).tolist() == [2, 1, 0]


def test_closed_ones_and_other_kinds_are_not_given_out():
    hosts = table([0, 0], closed={0: "ECC"})
    shape = lay_out(GpuWish(2), hosts.columns, ROW)
    assert shape is not None
    assert pick_devices(shape, 0, 1, [W, W]) is None
    assert lay_out(None, hosts.columns, ROW) is None


def test_parts_that_share_a_host_share_its_devices():
    hosts = table([0, 0, 0, 0])
    one, two = (lay_out(GpuWish(count), hosts.columns, ROW) for count in (1, 3))
    free = free_of([W, W, W, W])
    assert pick_for_entries((one, two), [0, 0], [1, 1], [0, 1], free) == [[0], [1, 2, 3]]
    assert pick_for_entries((two, two), [0, 0], [1, 1], [0, 1], free) is None
    assert pick_for_entries((None, two), [0, 0], [1, 1], [0, 1], free) == [[], [0, 1, 2]]
    needs, rows = rows_of_devices([one, None, two], free)
    assert rows.tolist() == [[4000]]
    assert [need.per_task for need in needs] == [[1000], [0], [3000]]


def test_domains_for_groups_are_found_whenever_there_are_some():
    for free in ([4, 4], [3, 5], [8], [2, 2, 2], [1, 3, 4]):
        for groups in ([2], [2, 2], [4, 4], [3, 3], [5, 3], [2, 2, 2], [1, 3, 4], [3, 2, 2]):
            found = choose_domains(free, groups)
            assert (found is not None) == _exists(free, groups)
            if found is not None:
                left = list(free)
                for group, domain in zip(groups, found, strict=True):
                    left[domain] -= group
                assert min(left) >= 0
    assert choose_domains([4, 4], [4], 5) is None
    assert choose_domains([4, 4], [4], 4) == [0]


def _exists(free: list[int], groups: list[int]) -> bool:
    """Look at every way to deal the groups out, one domain after the other."""
    for order in permutations(groups):
        left, rest = list(free), list(order)
        for domain in range(len(left)):
            while rest and rest[0] <= left[domain]:
                left[domain] -= rest.pop(0)
        if not rest:
            return True
    return False
