"""ipyparallel: engines are elements of a job array."""

import sys

import ipyparallel


def main() -> None:
    cluster = ipyparallel.Cluster(n=2, engines="lsf", controller_ip="127.0.0.1", cluster_id="")
    client = cluster.start_and_connect_sync()
    client.wait_for_engines(2, timeout=120)
    print("cubes", client[:].map_sync(lambda number: number**3, range(4)))
    client.close()
    # Not both at once: it takes a bkill of engines that left with their controller for a failure.
    cluster.stop_engines_sync()
    cluster.stop_controller_sync()


if __name__ == "__main__":
    sys.exit(main())
