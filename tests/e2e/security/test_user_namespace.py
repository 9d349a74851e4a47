"""Without root the same cluster runs in a user namespace, where the machine allows one."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
INSIDE = 'mount -t tmpfs tmpfs /run && exec "$@"'
UNSHARE = ("unshare", "--user", "--map-root-user", "--net", "--mount", "sh", "-c", INSIDE, "-")


def why_not() -> str:
    if os.geteuid() == 0:
        return "root needs no user namespace: test_three_hosts.py has run"
    if shutil.which("unshare") is None:
        return "unshare is not installed"
    tried = subprocess.run(
        [*UNSHARE, "true"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    return f"no user namespaces: {tried.stderr.strip()}" if tried.returncode else ""


@pytest.mark.skipif(bool(why_not()), reason=why_not())
def test_three_hosts_run_in_a_user_namespace(tmp_path):
    words = [
        sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider",
        f"--basetemp={tmp_path / 'inner'}", "tests/e2e/security/test_three_hosts.py",
        "-k", "join or own_role or revoked_loses or thousand",
    ]  # fmt: skip
    done = subprocess.run(
        [*UNSHARE, *words],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout.splitlines()[-1], done.stdout
