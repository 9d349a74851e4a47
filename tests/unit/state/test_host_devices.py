"""The devices of a host keep their places while anything runs there."""

from xce.model.device import Device, is_model, is_profile
from xce.state.device_columns import DeviceColumns
from xce.state.devices import DeviceTable
from xce.state.host_devices import HostDevices, merge_devices

A, B, C = Device(0, "GPU-a"), Device(1, "GPU-b"), Device(2, "GPU-c")


def test_configuration_wins_and_the_worker_fills_in():
    seen = (Device(0, "GPU-a", "H100", 81559, 3, 1), Device(1, "GPU-b"))
    assert merge_devices(None, seen) == seen
    assert merge_devices((), seen) == ()
    (one,) = merge_devices((Device(0, model="Own"),), seen)
    assert one == Device(0, "GPU-a", "Own", 81559, 3, 1)


def test_a_device_keeps_its_place_and_a_gone_one_is_never_given_out():
    host = HostDevices()
    host.take((A, B), is_idle=True)
    host.take((B, C), is_idle=False)
    assert host.devices == [A, B, C]
    assert host.gone == [0]
    assert [host.is_usable(place) for place in range(3)] == [False, True, True]
    assert host.find("GPU-c") == 2
    assert host.find("0") is None
    host.take((A, B, C), is_idle=False)
    assert host.gone == []
    host.take((B, C), is_idle=True)
    assert host.devices == [B, C]


def test_what_was_closed_stays_closed_under_another_place():
    host = HostDevices()
    host.take((A, B), is_idle=True)
    host.closed[1] = "ECC errors"
    host.take((B,), is_idle=True)
    assert host.closed == {0: "ECC errors"}


def test_a_divided_gpu_is_given_out_in_its_instances_only():
    parts = [Device(2, parent=0, profile="3g.40gb"), Device(3, parent=0, profile="1c.4g.40gb")]
    host = HostDevices([Device(0), Device(1), *parts])
    assert [host.is_usable(place) for place in range(4)] == [False, True, True, True]
    columns = DeviceColumns([host], 4)
    assert columns.usable[:, 0].tolist() == [False, True, True, True]


def test_models_are_found_by_full_brand_and_short_name():
    model = "NVIDIA H100 80GB HBM3"
    for asked in ("H100", "nvidia", "NVIDIAH10080GBHBM3", "H100_80GB", "h100 80gb hbm3", ""):
        assert is_model(asked, model), asked
    for asked in ("H10", "A100", "80GB H100"):
        assert not is_model(asked, model), asked


def test_profiles_are_found_by_their_slices():
    assert is_profile("3", "3g.40gb")
    assert is_profile("4/1", "1c.4g.40gb")
    assert not is_profile("4", "1c.4g.40gb")
    assert not is_profile("1", "3g.40gb")


def test_columns_are_laid_out_again_only_when_a_host_has_others():
    table = DeviceTable()
    table.add()
    for devices in ((A, B), (A, B), (B,)):
        table.reported[0] = devices
        before = table.columns
        table.settle(0, None, is_idle=True)
        assert (table.columns is before) == (before.width == len(devices))
    before = table.columns
    table.set_open(0, [0], is_open=False, comment="ECC errors")
    assert not table.columns.usable.any()
