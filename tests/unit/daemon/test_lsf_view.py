import stat

from xce.cli.xce.environment import render_env
from xce.daemon.lsf_view import store_lsf_view
from xce.daemon.paths import open_layout
from xce.daemon.settings import Settings
from xce.model.config import ClusterConfig


def test_clients_find_the_files_where_the_environment_says(tmp_path):
    layout = open_layout(tmp_path / "state")
    settings = Settings(layout.root, is_default=True)
    assert not any("LSF_ENVDIR" in line for line in render_env(settings, tmp_path, path=""))
    store_lsf_view(layout, ClusterConfig(cluster_name="lab"))
    store_lsf_view(layout, ClusterConfig(cluster_name="lab", lsf_unit_for_limits="GB"))
    (line,) = [line for line in render_env(settings, tmp_path, path="") if "LSF_ENVDIR" in line]
    assert line == f"export LSF_ENVDIR={layout.lsf}/conf"
    conf = layout.lsf / "conf" / "lsf.conf"
    assert "LSF_UNIT_FOR_LIMITS=GB\n" in conf.read_text()
    assert f"LSF_CONFDIR={layout.lsf}/conf\n" in conf.read_text()
    assert (layout.lsf / "conf/lsbatch/lab/configdir/lsb.params").is_file()
    assert (layout.lsf / "work").is_dir()
    assert stat.S_IMODE(conf.stat().st_mode) & 0o111 == 0
    assert sorted(path.name for path in conf.parent.iterdir()) == ["lsbatch", "lsf.conf"]
