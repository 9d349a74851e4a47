"""Becoming the starter of the MPI that is installed."""

import pytest

from xce.cli.launch import mpi
from xce.client.launching import LaunchError


def test_a_starter_that_does_not_say_which_one_it_is_is_not_waited_for(monkeypatch, tmp_path):
    path = tmp_path / "mpirun"
    path.write_text("#!/bin/sh\nexec sleep 60\n")
    path.chmod(0o755)
    monkeypatch.setattr(mpi, "_VERSION_S", 0.2)
    with pytest.raises(LaunchError, match="mpirun --version does not answer within 0.2 s"):
        mpi.run_mpi([], ["a"], {"PATH": f"{tmp_path}:/usr/bin:/bin"}, is_one_machine=True)
