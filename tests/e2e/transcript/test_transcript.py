"""Every command with its options and bad inputs, against kept transcripts.

``XCE_GOLDEN=write`` writes them anew; each line of the difference is then to be judged against
LSF's own behaviour. See `transcript` for the form of the scripts.
"""

import os
import shutil
import signal
from collections.abc import Iterator
from difflib import unified_diff
from pathlib import Path

import pytest
from transcript import Stage

from xce.cli.xce.down import find_shepherds
from xce.daemon.components import find_daemons
from xce.daemon.paths import find_layout

FOLDER = Path(__file__).parent
SCRIPTS = sorted(path.stem for path in (FOLDER / "scripts").glob("*.sh"))


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    made = Stage(tmp_path, FOLDER / "prelude.sh")
    yield made
    made.xce("down", "--jobs")
    for process in [*find_daemons(made.state).values(), *find_shepherds(find_layout(made.state))]:
        os.kill(process.pid, signal.SIGKILL)
    if (made.state / "run").is_symlink():
        shutil.rmtree(find_layout(made.state).run, ignore_errors=True)


@pytest.mark.parametrize("name", SCRIPTS)
def test_the_commands_say_what_is_kept(name: str, stage: Stage) -> None:
    found = stage.names.replace(stage.play(FOLDER / "scripts" / f"{name}.sh"))
    golden = FOLDER / "golden" / f"{name}.txt"
    if os.environ.get("XCE_GOLDEN") == "write":
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(found, encoding="utf-8")
    kept = stage.names.replace(golden.read_text(encoding="utf-8"))
    changed = list(unified_diff(kept.splitlines(), found.splitlines(), "kept", "found", n=4))
    assert not changed, "\n".join(changed)
