import subprocess
import sys
from pathlib import Path

import pytest

from xce.cli.xce.launchers import each_lsf_command

SOURCE = Path(__file__).parents[4] / "src"
COMMANDS = tuple(each_lsf_command())
HEAVY = {
    "argparse",
    "asyncio",
    "collections",
    "datetime",
    "enum",
    "functools",
    "http",
    "http.client",
    "inspect",
    "json",
    "msgspec",
    "pathlib",
    "re",
    "signal",
    "socket",
    "subprocess",
    "typing",
    "urllib",
}


PROGRAM = (
    f'import sys; sys.path.insert(0, "{SOURCE}"); '
    "from xce.cli.lsf.bjobs import main; del sys.argv[1]; main()"
)


def launch(command, *words, environ=None):
    code = (
        f"import sys; sys.path.insert(0, {str(SOURCE)!r}); sys.argv[0] = {command!r}\n"
        f"from xce.cli.lsf.{command} import main\n"
        f"import os\n"
        f"os.write(2, b'modules: ' + ' '.join(sys.modules).encode() + b'\\n')\n"
        f"main()\n"
    )
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, *words],
        capture_output=True,
        text=True,
        env=environ or {"XCE_DIR": "/nonexistent"},
        timeout=30,
        check=False,
    )


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_starts_without_heavy_modules(command):
    result = launch(command, "-h")
    assert result.returncode == 0
    first, _, rest = result.stderr.partition("\n")
    assert set(first.removeprefix("modules: ").split()) & HEAVY == set()
    assert rest.startswith(f"Usage: {command}")
    assert result.stdout == ""


def test_a_closed_pipe_and_an_unreachable_cluster_end_without_a_traceback():
    result = launch("bjobs", "--wait-daemon", "0")
    assert result.returncode == 255
    assert "Cannot connect to XCE at /nonexistent/run/api.sock" in result.stderr
    assert "Traceback" not in result.stderr
    result = launch("bkill", "-l", "-V")
    assert result.returncode == 0
    assert result.stderr.splitlines()[-1].startswith("XCE ")


def test_closed_streams_do_not_mix_with_the_connection():
    script = f"{sys.executable} -I -S -c '{PROGRAM}' bjobs -h <&- >&- 2>&-"
    result = subprocess.run(["/bin/sh", "-c", script], timeout=30, check=False)
    assert result.returncode == 0
