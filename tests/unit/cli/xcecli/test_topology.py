"""`xcecli topology`: domains as a tree and as a map."""

from xce.cli.xcecli.topology import build_tree, map_lines, tree_lines


def host(name, labels, *, used=0, gpus=(), status="ok"):
    devices = [
        {"index": index, "used": amount, "state": state, "nvlink": index // 2}
        for index, (amount, state) in enumerate(gpus)
    ]
    return {
        "name": name, "labels": labels, "status": status, "slots_max": 4, "njobs": used,
        "gpus": devices,
    }  # fmt: skip


HOSTS = [
    host("g1", {"switch": "s1", "block": "b1"}, used=2,
         gpus=[(1, "ok"), (0.25, "ok"), (0, "ok"), (0, "closed")]),
    host("g2", {"switch": "s2", "block": "b1"}, status="unavail"),
    host("c1", {}, used=4),
]  # fmt: skip


def test_a_tree_says_what_is_used_in_each_domain():
    assert tree_lines(build_tree(HOSTS, ["block", "switch"])) == [
        "|-- block b1 (2 hosts, 2/8 slots, 1.25/4 GPUs)",
        "|   |-- switch s1 (1 host, 2/4 slots, 1.25/4 GPUs)",
        "|   |   `-- host g1 (2/4 slots, 1.25/4 GPUs)",
        "|   `-- switch s2 (1 host, 0/4 slots)",
        "|       `-- host g2 (0/4 slots, unavail)",
        "`-- host c1 (4/4 slots)",
    ]


def test_a_map_has_a_sign_for_each_gpu_by_nvlink_domain():
    lines = map_lines(build_tree(HOSTS, ["block", "switch"]))
    assert lines[:3] == ["-      c1[==========]", "b1/s1  g1[#+|.x]", "b1/s2  g2[!----------]"]


def test_a_cluster_without_topology_is_a_list_of_hosts():
    tree = build_tree(HOSTS, [])
    assert [item["name"] for item in tree] == ["g1", "g2", "c1"]
    assert tree[0]["gpus_used"] == 1.25
