"""Plots of runs: utilisation, queue length, waits, and who ran where (Gantt), as SVG or PNG.

`matplotlib` draws. It is an optional extra, imported when somebody wants a plot.
"""

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from xce.model.errors import XceError
from xce.sim.chart import Bar, Chart, Curve, gantt, queue_length, utilisation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMS: Final = (".svg", ".png")
INSTALL: Final = "pip install 'xce[plots]'"
_UNITS: Final = ((86_400, "days"), (3_600, "hours"), (60, "minutes"), (1, "seconds"))
_WAIT_TICKS: Final = (
    (0, "0"), (1, "1 s"), (10, "10 s"), (60, "1 min"), (600, "10 min"), (3_600, "1 h"),
    (21_600, "6 h"), (86_400, "1 d"), (604_800, "7 d"), (2_592_000, "30 d"),
)  # fmt: skip
_PANEL_INCHES: Final = (9.0, 2.6)
_BARS_AS_SHAPES: Final = 2_000
"""With more of them the picture of a Gantt chart is drawn as points inside of the SVG."""
_HOSTS_NAMED: Final = 40
_COLOURS: Final = 20
_STYLE: Final = {"svg.hashsalt": "xce", "svg.fonttype": "none", "path.simplify": True}
"""The same run gives the same file, and text in it stays text."""
_Panel: TypeAlias = "Callable[[Axes, Chart, tuple[int, str]], None]"


class PlotError(XceError):
    """Nothing can be drawn; the message says what to do."""


class Plotter:
    """Draws into a file, or into several in a directory.

    Args:
        path: A name that ends in ``.svg`` or ``.png``: one file with all panels. Without an
            ending: a directory, which gets an SVG file for each panel.

    Raises:
        PlotError: The ending is another one, or what draws is not installed.
    """

    def __init__(self, path: Path) -> None:
        if path.suffix and path.suffix not in FORMS and not path.is_dir():
            raise PlotError(f"{path}: plots end in {' or '.join(FORMS)}, or name a directory")
        self._path = path
        self._is_file = path.suffix in FORMS and not path.is_dir()
        try:
            self._matplotlib: Any = importlib.import_module("matplotlib")
            self._figures: Any = importlib.import_module("matplotlib.figure")
        except ImportError as error:
            raise PlotError(f"plots need matplotlib, which is not installed: {INSTALL}") from error

    def draw(self, charts: Sequence[Chart]) -> list[Path]:
        """Draw runs, several of them side by side; return the files.

        Raises:
            PlotError: A file cannot be written.
        """
        try:
            with self._matplotlib.rc_context(_STYLE):
                if self._is_file:
                    self._path.parent.mkdir(parents=True, exist_ok=True)
                    return [self._draw(charts, tuple(PANELS), self._path)]
                self._path.mkdir(parents=True, exist_ok=True)
                return [self._draw(charts, (name,), self._path / f"{name}.svg") for name in PANELS]
        except OSError as error:
            raise PlotError(f"{error.filename or self._path}: {error.strerror}") from error

    def _draw(self, charts: Sequence[Chart], names: Sequence[str], path: Path) -> Path:
        width, height = _PANEL_INCHES
        figure: Figure = self._figures.Figure(
            figsize=(width * len(charts), height * len(names)), layout="constrained"
        )
        grid = figure.subplots(len(names), len(charts), squeeze=False)
        for column, chart in enumerate(charts):
            unit = _unit(max(one.last - one.first for one in charts))
            for row, name in enumerate(names):
                axes = grid[row][column]
                PANELS[name](axes, chart, unit)
                axes.set_title(f"{chart.title}: {name}" if row == 0 else name, loc="left")
        for row in range(len(names)):
            _share_limits(grid[row])
        # No date: the same run gives the same file.
        metadata = {"Date": None} if path.suffix == ".svg" else {}
        figure.savefig(path, metadata=metadata, dpi=120)
        return path


def _unit(span_s: float) -> tuple[int, str]:
    """Return a unit of time of which the span has several."""
    for size, name in _UNITS:
        if span_s >= 3 * size:
            return size, name
    return _UNITS[-1]


def _share_limits(row: "Sequence[Axes]") -> None:
    """Let panels beside one another have the same scales, so that they can be compared."""
    for limits, apply in (("get_xlim", "set_xlim"), ("get_ylim", "set_ylim")):
        pairs = [getattr(axes, limits)() for axes in row]
        for axes in row:
            getattr(axes, apply)(min(low for low, _ in pairs), max(high for _, high in pairs))


def _draw_curve(axes: "Axes", curve: Curve, chart: Chart, unit: tuple[int, str]) -> None:
    size, name = unit
    times = [(at - chart.first) / size for at in curve.times]
    axes.fill_between(times, curve.values, step="post", alpha=0.25, linewidth=0)
    axes.step(times, curve.values, where="post", linewidth=0.8)
    axes.set_xlim(0, max(times[-1], 1e-9))
    axes.set_xlabel(f"time ({name})")


def _draw_utilisation(axes: "Axes", chart: Chart, unit: tuple[int, str]) -> None:
    _draw_curve(axes, utilisation(chart), chart, unit)
    axes.set_ylim(0, 1.05)
    axes.set_ylabel(f"share of {chart.slots} slots")


def _draw_queue(axes: "Axes", chart: Chart, unit: tuple[int, str]) -> None:
    curve = queue_length(chart)
    _draw_curve(axes, curve, chart, unit)
    axes.set_ylim(0, max(1.0, *curve.values) * 1.05)
    axes.set_ylabel("jobs that wait")


def _draw_waits(axes: "Axes", chart: Chart, unit: tuple[int, str]) -> None:
    """Draw how many waited how long; the classes double."""
    edges = [0.0, 1.0]
    while edges[-1] <= max(chart.waits, default=0):
        edges.append(edges[-1] * 2)
    axes.hist(chart.waits, bins=edges, edgecolor="white", linewidth=0.5)
    axes.set_xscale("symlog", base=2, linthresh=1)
    ticks = [(at, text) for at, text in _WAIT_TICKS if at <= edges[-1]]
    axes.set_xticks([at for at, _ in ticks], [text for _, text in ticks])
    axes.set_xlabel("wait")
    axes.set_ylabel("jobs")


def _draw_gantt(axes: "Axes", chart: Chart, unit: tuple[int, str]) -> None:
    """Draw each run as a bar on its slots; hosts lie above one another."""
    collections = importlib.import_module("matplotlib.collections")
    bars = gantt(chart)
    heights: dict[str, int] = {}
    for bar in bars:
        heights[bar.host] = max(heights.get(bar.host, 0), bar.slot + bar.slots)
    floors: dict[str, int] = {}
    total = 0
    for host in sorted(heights, key=_natural):
        floors[host] = total
        total += heights[host]
    size, name = unit
    shapes = [_corners(bar, floors[bar.host], chart.first, size) for bar in bars]
    palette = importlib.import_module("matplotlib").colormaps["tab20"]
    axes.add_collection(
        collections.PolyCollection(
            shapes,
            facecolors=[palette(bar.number % _COLOURS) for bar in bars] or "none",
            edgecolors="white" if len(bars) <= _BARS_AS_SHAPES else "none",
            linewidths=0.4,
            rasterized=len(bars) > _BARS_AS_SHAPES,
        )
    )
    axes.set_xlim(0, max((chart.last - chart.first) / size, 1e-9))
    axes.set_ylim(0, max(total, 1))
    axes.set_xlabel(f"time ({name})")
    if len(floors) > _HOSTS_NAMED:
        axes.set_ylabel(f"slots of {len(floors)} hosts")
        return
    for floor in floors.values():
        axes.axhline(floor, color="grey", linewidth=0.3)
    axes.set_yticks([floors[host] + heights[host] / 2 for host in floors], list(floors))


def _corners(bar: Bar, floor: int, first: float, size: int) -> list[tuple[float, float]]:
    left, right = (bar.start - first) / size, (bar.end - first) / size
    low, high = floor + bar.slot, floor + bar.slot + bar.slots
    return [(left, low), (right, low), (right, high), (left, high)]


def _natural(host: str) -> tuple[str, int, str]:
    """Return a key by which h2 stands before h10."""
    stem = host.rstrip("0123456789")
    number = host[len(stem) :]
    return stem, int(number or 0), host


PANELS: Final[dict[str, _Panel]] = {
    "utilisation": _draw_utilisation,
    "queue": _draw_queue,
    "waits": _draw_waits,
    "gantt": _draw_gantt,
}
