"""Processors of several parts on one host: how long it may take to find them."""

import numpy as np
from processors import layout

from xce.model.processor import words_of
from xce.resreq.affinity import parse_affinity
from xce.sched import processor_mix
from xce.sched.processor_mix import Mix
from xce.sched.processor_room import ProcessorShape
from xce.sched.processors import choices, count_choices

FOUND = layout(2, 4, 1)


def test_choices_of_domains_are_counted_as_they_are_tried():
    for text in ("core(1)", "core(1):distribute=pack(socket=1)", "core(1):distribute=pack(core=3)"):
        wish = parse_affinity(text)
        tried = choices(wish, FOUND, FOUND.all) if wish.distribute_count else []
        assert count_choices(wish, FOUND) == len(tried)


def test_one_search_gives_up_when_it_has_tried_many_sets_of_domains(monkeypatch):
    monkeypatch.setattr(processor_mix, "TRIES_MAX", 1000)
    monkeypatch.setattr(processor_mix, "STEPS_MAX", 100)
    looks = []
    in_order = processor_mix._in_order
    monkeypatch.setattr(
        processor_mix, "_in_order", lambda *of: (looks.append(of), in_order(*of))[1]
    )
    wish = parse_affinity("core(1):distribute=pack(core=3)")  # 56 sets
    shape = ProcessorShape(wish, np.zeros(8, np.int64), (FOUND,), 0, 1, {})
    free = np.asarray([words_of(FOUND.all & ~(1 << host), 1) for host in range(8)]).T
    mix = Mix([shape] * 3, free)
    wants = ((0, 3), (1, 3), (2, 3))
    assert [mix.place(host, wants) for host in range(8)] == [None] * 8
    assert mix.is_cut
    assert len(looks) == 1000 // (3 * 56)
