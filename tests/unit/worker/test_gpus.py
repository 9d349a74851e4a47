"""What jobs are told of their GPUs, and what the driver's library tells of a machine."""

from pathlib import Path

from msgspec.structs import replace

from xce.model.device import NO_LINK, Device, DeviceGrant, GpuWish
from xce.model.effect import Launch
from xce.model.job import JobSpec, Owner
from xce.worker.environ import Account, base_environment, element_environment
from xce.worker.gpus import gpu_environment
from xce.worker.nvml import find_devices


def launch(gpu: GpuWish | None, *grants: tuple[DeviceGrant, ...]) -> Launch:
    return Launch(
        7, [0], [1], JobSpec(command="x"), Owner("ann", 1, 1), "normal", "default", "c",
        (("h1", 2), ("h2", 1)), 3, 0, 0, 0, 0, devices=[tuple(grants)] if grants else [], gpu=gpu,
    )  # fmt: skip


def test_uuids_name_gpus_and_indices_where_there_are_none():
    given = launch(
        GpuWish(2, per="host"),
        (DeviceGrant(3, "GPU-abc"), DeviceGrant(5)),
        (DeviceGrant(0, "GPU-def"), DeviceGrant(1)),
    )
    found = element_environment(given, 0, 1)
    assert found["CUDA_VISIBLE_DEVICES"] == "GPU-abc,5"
    assert found["LSB_GPU_ALLOC"] == "h1 2 h2 2"
    assert found["XCE_GPU_COUNT"] == "2"
    assert gpu_environment(given, 0, 1)["CUDA_VISIBLE_DEVICES"] == "GPU-def,1"
    assert "CUDA_VISIBLE_DEVICES0" not in found


def test_each_task_is_told_its_own():
    given = launch(GpuWish(2), tuple(DeviceGrant(index) for index in (4, 5, 6, 7)), ())
    found = gpu_environment(given, 0)
    assert found["CUDA_VISIBLE_DEVICES"] == "4,5,6,7"
    assert (found["CUDA_VISIBLE_DEVICES0"], found["CUDA_VISIBLE_DEVICES1"]) == ("4,5", "6,7")


def test_blocks_of_neighbours_share_the_gpus_of_a_host():
    given = launch(GpuWish(2, per="host", is_blocked=True), (DeviceGrant(4), DeviceGrant(6)), ())
    given = replace(given, hosts=(("h1", 5), ("h2", 1)))
    found = gpu_environment(given, 0)
    assert [found[f"CUDA_VISIBLE_DEVICES{task}"] for task in range(5)] == ["4", "4", "4", "6", "6"]
    assert found["CUDA_VISIBLE_DEVICES"] == "4,6"
    # Where there are as many GPUs as tasks, nothing is split.
    given = replace(given, hosts=(("h1", 2), ("h2", 1)))
    assert "CUDA_VISIBLE_DEVICES0" not in gpu_environment(given, 0)


def test_amds_driver_is_told_by_its_own_variable():
    model = "AMD Instinct MI300X"
    grants = tuple(DeviceGrant(index, model=model) for index in (2, 3))
    found = gpu_environment(launch(GpuWish(1, vendor="amd"), grants, ()), 0)
    assert found["ROCR_VISIBLE_DEVICES"] == "2,3"
    assert (found["ROCR_VISIBLE_DEVICES0"], found["ROCR_VISIBLE_DEVICES1"]) == ("2", "3")
    assert found["XCE_GPU_COUNT"] == "2"
    # HIP reads CUDA's variable, too, and would count among what is left of ROCR's.
    assert not [name for name in found if "CUDA" in name or "NVIDIA" in name]


def test_a_share_says_how_much_it_is_and_whether_it_is_more_than_advice():
    found = gpu_environment(launch(GpuWish(1, 250), (DeviceGrant(1, milli=250),), ()), 0)
    assert found["XCE_GPU_SHARE"] == "0.25"
    assert found["XCE_GPU_SHARE_KIND"] == "advisory"
    assert "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE" not in found
    enforced = DeviceGrant(1, milli=250, is_enforced=True)
    found = gpu_environment(launch(GpuWish(1, 250), (enforced,), ()), 0)
    assert found["XCE_GPU_SHARE_KIND"] == "enforced"
    assert found["CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"] == "25"


def test_nothing_is_said_to_a_job_without_gpus_and_none_are_inherited():
    assert gpu_environment(launch(None), 0) == {}
    account = Account("ann", 1, 1, (), "/home/ann", "/bin/sh")
    base = base_environment(b"CUDA_VISIBLE_DEVICES=0\0CUDA_VISIBLE_DEVICES1=1\0A=b", account, "h")
    assert "CUDA_VISIBLE_DEVICES" not in base
    assert "CUDA_VISIBLE_DEVICES1" not in base
    assert base["A"] == "b"


class FakeNvml:
    """The driver's library on a machine with four GPUs: two pairs, one of them divided."""

    class NVMLError(Exception):
        """What it raises."""

    class Plain:
        """A struct."""

        def __init__(self, **members: object) -> None:
            self.__dict__.update(members)

    def nvmlInit(self):  # noqa: N802 - the library's name
        pass

    def nvmlShutdown(self):  # noqa: N802 - the library's name
        pass

    def nvmlDeviceGetCount(self):  # noqa: N802 - the library's name
        return 4

    def nvmlDeviceGetHandleByIndex(self, index):  # noqa: N802 - the library's name
        return index

    def nvmlDeviceGetPciInfo(self, handle):  # noqa: N802 - the library's name
        return self.Plain(busId=f"0000000{handle // 3}:0{handle}:00.0".encode())

    def nvmlDeviceGetUUID(self, handle):  # noqa: N802 - the library's name
        return f"GPU-{handle}" if isinstance(handle, int) else f"MIG-{handle[1]}"

    def nvmlDeviceGetName(self, handle):  # noqa: N802 - the library's name
        return "NVIDIA A100" if isinstance(handle, int) else "NVIDIA A100 MIG 3g.20gb"

    def nvmlDeviceGetMemoryInfo(self, handle):  # noqa: N802 - the library's name
        return self.Plain(total=40 << 30 if isinstance(handle, int) else 20 << 30)

    def nvmlDeviceGetNvLinkState(self, handle, link):  # noqa: N802 - the library's name
        if link > 1 or handle == 3:
            raise self.NVMLError
        return link == 0

    def nvmlDeviceGetNvLinkRemotePciInfo(self, handle, _link):  # noqa: N802 - the library's name
        return self.nvmlDeviceGetPciInfo({0: 1, 1: 0, 2: 9}[handle])

    def nvmlDeviceGetMigMode(self, handle):  # noqa: N802 - the library's name
        if handle != 3:
            raise self.NVMLError
        return 1, 1

    def nvmlDeviceGetMaxMigDeviceCount(self, _handle):  # noqa: N802 - the library's name
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle, number):  # noqa: N802 - the library's name
        if number > 1:
            raise self.NVMLError
        return handle, number


def test_the_drivers_library_tells_of_gpus_links_and_instances(tmp_path: Path):
    (tmp_path / "0000:01:00.0").mkdir()
    (tmp_path / "0000:01:00.0" / "numa_node").write_text("1\n")
    found = find_devices(FakeNvml(), pci=tmp_path)
    assert found[:4] == (
        Device(0, "GPU-0", "NVIDIA A100", 40960, 0),
        Device(1, "GPU-1", "NVIDIA A100", 40960, 0, 1),
        Device(2, "GPU-2", "NVIDIA A100", 40960, 1),
        Device(3, "GPU-3", "NVIDIA A100", 40960, NO_LINK),
    )
    assert found[4:] == tuple(
        Device(
            4 + number, f"MIG-{number}", "NVIDIA A100", 20480, NO_LINK, -1, 3, "3g.20gb",
            is_enforced=True,
        )
        for number in (0, 1)
    )  # fmt: skip


def test_a_machine_without_the_library_has_no_gpus():
    class Broken(FakeNvml):
        def nvmlInit(self):  # noqa: N802 - the library's name
            raise self.NVMLError

    assert find_devices(Broken()) == ()
