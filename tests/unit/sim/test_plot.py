import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from xce.sim.chart import Chart, Run, make_chart
from xce.sim.plot import PANELS, PlotError, Plotter


def chart(title: str = "one", *, count: int = 3, slots: int = 8) -> Chart:
    runs = [
        Run(f"j{number}", number * 5, number * 5 + 40, (("h1", 1), ("h2", 2)))
        for number in range(count)
    ]
    queue = [(run.start - 2, 1) for run in runs] + [(run.start, -1) for run in runs]
    last = max((run.end for run in runs), default=0)
    waits = [2.0] * len(runs)
    return make_chart(title, slots=slots, first=0, last=last, runs=runs, waits=waits, queue=queue)


def texts(path: Path) -> set[str]:
    root = ET.parse(path).getroot()
    return {"".join(item.itertext()) for item in root.iter("{http://www.w3.org/2000/svg}text")}


def test_a_file_has_all_panels_and_its_text_is_text(tmp_path: Path) -> None:
    path = tmp_path / "new" / "run.svg"
    assert Plotter(path).draw([chart()]) == [path]
    told = texts(path)
    assert {"one: utilisation", "queue", "waits", "gantt", "h1", "h2"} <= told
    assert "share of 8 slots" in told


def test_a_directory_gets_a_file_for_each_panel(tmp_path: Path) -> None:
    files = Plotter(tmp_path / "all").draw([chart()])
    assert [path.name for path in files] == [f"{name}.svg" for name in PANELS]
    assert all(path.stat().st_size for path in files)


def test_runs_stand_side_by_side_on_one_scale(tmp_path: Path) -> None:
    path = tmp_path / "both.svg"
    Plotter(path).draw([chart("as it is"), chart("changed", count=9)])
    assert {"as it is: utilisation", "changed: utilisation"} <= texts(path)


def test_the_same_run_gives_the_same_file(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        Plotter(tmp_path / name).draw([chart()])
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def test_png_and_runs_without_anything(tmp_path: Path) -> None:
    path = tmp_path / "empty.png"
    Plotter(path).draw([chart(count=0, slots=0)])
    assert path.read_bytes().startswith(b"\x89PNG")


def test_many_bars_are_a_picture_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "many.svg"
    Plotter(path).draw([chart(count=1_500)])
    assert "<image" in path.read_text()
    assert path.stat().st_size < 1_000_000


def test_another_ending_is_refused_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(PlotError, match=r"plots end in \.svg or \.png"):
        Plotter(tmp_path / "run.gif")


def test_without_the_library_it_is_told_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(PlotError, match=r"not installed: pip install 'xce\[plots\]'"):
        Plotter(tmp_path / "run.svg")


def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PlotError, match="file"):
        Plotter(tmp_path / "file" / "run.svg").draw([chart()])
