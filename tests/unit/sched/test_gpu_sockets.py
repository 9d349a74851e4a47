"""How many GPUs ``gtile`` allows, and which socket gives how many."""

import numpy as np
import pytest

from xce.sched.gpu_sockets import most_by_sockets, shares_of_sockets


@pytest.mark.parametrize(
    ("tile", "free", "most"),
    [
        (2, [2, 2], 4),
        (2, [3, 1], 3),
        (2, [1, 1], 1),
        (3, [2, 1], 2),
        (1, [4, 0], 1),
        (-1, [2, 2], 4),
        (-1, [4, 1], 3),
        (-1, [4, 0], 1),
        (-1, [0, 0], 0),
    ],
)
def test_the_most_that_a_host_can_give(tile, free, most):
    socket = np.array([[0]] * 4 + [[1]] * 4 + [[-1]])
    is_free = np.array([[place % 4 < free[place // 4]] for place in range(8)] + [[True]])
    kind = np.ones((9, 1), np.bool_)
    assert most_by_sockets(tile, socket, kind, is_free).tolist() == [most]
    for items in range(1, 9):
        shares = shares_of_sockets(tile, dict(enumerate(free)), items)
        assert (shares is not None) == (items <= most)


def test_the_socket_with_just_enough_gives_first():
    assert shares_of_sockets(2, {0: 4, 1: 2, 2: 1}, 3) == [(1, 2), (2, 1)]
    assert shares_of_sockets(2, {0: 4, 1: 2, 2: 0}, 3) == [(1, 2), (0, 1)]
    assert shares_of_sockets(-1, {0: 1, 1: 2, 2: 2}, 4) == [(0, 1), (1, 1), (2, 2)]


def test_where_nobody_said_where_gpus_are_there_are_none():
    nowhere = np.full((2, 3), -1)
    there = np.ones((2, 3), np.bool_)
    assert most_by_sockets(1, nowhere, there, there).tolist() == [0, 0, 0]
    assert shares_of_sockets(-1, {}, 1) is None
