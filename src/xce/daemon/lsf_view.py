"""The files that readers of LSF's configuration look for: ``lsf.conf`` and ``lsb.params``.

``xce env`` names their directory in ``LSF_ENVDIR``. They are written from the configuration that is
in effect whenever a controller starts, and read by nobody in XCE.
"""

import os

from xce.client.version import VERSION
from xce.config.lsf_parameters import view_files
from xce.daemon.paths import Layout
from xce.model.config import ClusterConfig


def store_lsf_view(layout: Layout, config: ClusterConfig) -> None:
    """Write the files, each in one step.

    Raises:
        OSError: They cannot be written.
    """
    mode = 0o755 if os.geteuid() == 0 else 0o700
    files = view_files(config, view_dir=str(layout.lsf), version=VERSION)
    (layout.lsf / "work").mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        path = layout.lsf / name
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}")
        aside.write_text(text, encoding="utf-8")
        aside.replace(path)
    for directory in (layout.lsf, *layout.lsf.rglob("*")):
        if directory.is_dir():
            directory.chmod(mode)
        else:
            directory.chmod(mode & 0o644 | 0o600)
