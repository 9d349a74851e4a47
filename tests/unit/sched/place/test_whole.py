"""Compound requests on a certain first host."""

from types import SimpleNamespace

import numpy as np
import pytest

from xce.sched.place import whole
from xce.sched.place.compound import Candidates
from xce.sched.place.domains import Trail


@pytest.mark.parametrize(("gives_up", "tried"), [(False, whole.LEADS_MAX), (True, whole.CUTS_MAX)])
def test_no_more_first_hosts_are_tried_once_searches_have_given_up(monkeypatch, gives_up, tried):
    looks = []

    def find(_shape, _ground, _places, trail, _steps):
        looks.append(trail)
        trail.is_cut = gives_up

    monkeypatch.setattr(whole, "_find", find)
    everyone = np.ones(whole.LEADS_MAX + 1, np.bool_)
    shape = SimpleNamespace(
        tasks_min=2, tasks_max=2, leads=everyone, inner=(SimpleNamespace(), SimpleNamespace())
    )
    places = Candidates((everyone, everyone), (np.arange(len(everyone)),) * 2)
    trail = Trail()
    assert whole.find_whole(shape, None, places, trail) is None
    assert (len(looks), trail.is_cut) == (tried, True)
