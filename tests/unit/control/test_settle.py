from xce.control.settle import SettleWindow


def test_it_is_over_when_every_expected_host_has_joined_once():
    window = SettleWindow(["h1", "h2"], until_us=100)
    assert window.is_open([], 1)
    assert window.is_open(["h1"], 2)
    assert not window.is_open(["h2"], 3)


def test_it_is_over_after_its_longest_time_for_good():
    window = SettleWindow(["h1"], until_us=100)
    assert window.is_open([], 99)
    assert not window.is_open([], 100)
    assert not window.is_open([], 99)


def test_without_hosts_there_is_nothing_to_wait_for():
    assert not SettleWindow([], until_us=100).is_open([], 0)
