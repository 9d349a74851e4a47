"""`xceadmin sim`: run scenarios and job logs on a virtual clock."""

import argparse
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from xce.cli.xceadmin.journal import open_found
from xce.cli.xceadmin.scenario_words import CommandWords
from xce.daemon.config_directory import load_texts
from xce.daemon.paths import find_layout
from xce.daemon.settings import SettingsError, load_settings
from xce.model.errors import XceError
from xce.sim.chart import read_chart
from xce.sim.gpu_trace import ARRIVALS, DEMAND_MAX, TraceOptions, render_trace, run_trace
from xce.sim.gpu_trace import POLICIES as GPU_POLICIES
from xce.sim.plot import Plotter
from xce.sim.report import FORMATS, render_document
from xce.sim.scenario_file import Base, load_scenario
from xce.sim.scenario_journal import run_scenario
from xce.sim.snapshot_run import load_state, run_snapshot
from xce.sim.swf_core import BACKFILLS, POLICIES
from xce.sim.swf_run import SwfOptions, run_swf

OK, FAILED, USAGE, NOT_FOUND, DENIED = range(5)


def add_sim(names: "argparse._SubParsersAction[Any]") -> None:
    """Add the command line of `xceadmin sim`."""
    sim = names.add_parser("sim", help="run scenarios and job logs on a virtual clock")
    kinds = sim.add_subparsers(dest="kind", required=True, metavar="KIND")
    _add_run(kinds)
    _add_swf(kinds)
    _add_snapshot(kinds)
    _add_gpu_trace(kinds)


def _add_run(kinds: "argparse._SubParsersAction[Any]") -> None:
    run = kinds.add_parser(
        "run",
        help="run scenario files",
        description="Runs scenarios: 0 when all that they expect holds, 1 when not, 2: a bad file.",
    )
    run.add_argument("files", nargs="+", type=Path, metavar="FILE")
    run.add_argument("-o", dest="form", choices=FORMATS, default="table")
    run.add_argument("--journal", type=Path, metavar="DIR", help="keep the journal of the run")
    run.add_argument("--seed", type=int, default=0, metavar="N", help="for run times in a range")
    _add_plot(run)
    run.add_argument("--trace", type=Path, metavar="DIR", help="write what sessions decided there")


def _add_swf(kinds: "argparse._SubParsersAction[Any]") -> None:
    swf = kinds.add_parser(
        "swf",
        help="run a job log in Standard Workload Format",
        description="Runs a log on a machine that is nothing but processors.",
    )
    swf.add_argument("log", type=Path, metavar="LOG", help="packed with gzip or not")
    swf.add_argument("--procs", type=_count, default=0, help="(default: what the header says)")
    swf.add_argument("--hosts", type=_count, default=1, help="spread evenly over them (default 1)")
    swf.add_argument("--policy", choices=POLICIES, default="fcfs", help="order of the queue")
    swf.add_argument("--backfill", choices=BACKFILLS, default="easy")
    swf.add_argument("--limit", type=_count, default=0, metavar="JOBS", help="only the first")
    swf.add_argument("--clean", choices=("strict", "model"), default="strict")
    swf.add_argument("--size", choices=("max", "req"), default="max")
    swf.add_argument("--estimates", choices=("requested", "actual"), default="requested")
    swf.add_argument("--same-second", choices=("batch", "event"), default="batch")
    swf.add_argument("--jobs", action="store_true", help="list every job, too")
    _add_plot(swf)
    swf.add_argument("-o", dest="form", choices=FORMATS, default="table")


def _add_snapshot(kinds: "argparse._SubParsersAction[Any]") -> None:
    snapshot = kinds.add_parser(
        "snapshot",
        help="run on from where a cluster is now",
        description="What would happen next on a cluster, perhaps changed; it is not touched.",
    )
    snapshot.add_argument("--dir", help="state directory (default: $XCE_DIR, else ~/.xce)")
    snapshot.add_argument("--change", type=Path, metavar="FILE", help="a scenario on top of it")
    snapshot.add_argument("--seed", type=int, default=0, metavar="N")
    _add_plot(snapshot)
    snapshot.add_argument("-o", dest="form", choices=FORMATS, default="table")


def _add_gpu_trace(kinds: "argparse._SubParsersAction[Any]") -> None:
    trace = kinds.add_parser(
        "gpu-trace",
        help="fill a cluster of GPUs with the tasks of a trace",
        description="How much of a cluster's GPUs gets allocated when more is asked for than is.",
    )
    trace.add_argument("nodes", type=Path, metavar="NODES.csv")
    trace.add_argument("pods", type=Path, metavar="PODS.csv", help="packed with gzip or not")
    trace.add_argument("--policy", choices=GPU_POLICIES, default="default")
    trace.add_argument("--arrivals", choices=ARRIVALS, default="shuffle")
    trace.add_argument("--seed", type=int, default=0, metavar="N", help="of shuffled arrivals")
    trace.add_argument(
        "--demand", type=_demand, default=130, metavar="X", help="times the GPUs (default 1.3)"
    )
    trace.add_argument("-o", dest="form", choices=FORMATS, default="table")


def _demand(text: str) -> int:
    """Return how much is asked for in percent of the cluster's GPUs."""
    whole, _, rest = text.partition(".")
    if not (whole + rest).isdecimal() or len(rest) > 2 or len(whole) > 3:
        raise argparse.ArgumentTypeError(f"{text!r} is no factor such as 1.3")
    percent = int((whole or "0") + rest.ljust(2, "0"))
    if not 1 <= percent <= DEMAND_MAX * 100:
        raise argparse.ArgumentTypeError(f"{text!r} is out of range: up to {DEMAND_MAX}")
    return percent


def _gpu_trace(options: argparse.Namespace) -> int:
    wanted = TraceOptions(
        nodes=options.nodes,
        pods=options.pods,
        policy=options.policy,
        arrivals=options.arrivals,
        seed=options.seed,
        demand_percent=options.demand,
    )
    try:
        document = run_trace(wanted)
    except XceError as error:
        print(f"xceadmin sim gpu-trace: {error}", file=sys.stderr)
        return USAGE
    table = options.form == "table"
    print(render_trace(document) if table else render_document(document, options.form))
    return OK


def _add_plot(kind: argparse.ArgumentParser) -> None:
    kind.add_argument(
        "--plot",
        type=Path,
        metavar="PATH",
        help="draw it: a file (.svg, .png), or a directory for a file each panel",
    )


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= 10**9:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


def run_sim(options: argparse.Namespace) -> int:
    """Run a simulation; return 0 when all holds that is expected, else 1; 2: wrong input."""
    if options.kind == "swf":
        return _swf(options)
    if options.kind == "gpu-trace":
        return _gpu_trace(options)
    if options.kind == "snapshot":
        with _utc():
            return _snapshot(options)
    for name in ("journal", "trace"):
        if getattr(options, name) is not None and len(options.files) > 1:
            print(f"xceadmin sim run --{name} takes one FILE", file=sys.stderr)
            return USAGE
    if options.plot is not None and options.plot.suffix and len(options.files) > 1:
        print("xceadmin sim run --plot takes one FILE, or a directory", file=sys.stderr)
        return USAGE
    with _utc():
        return max([_scenario(path, options) for path in options.files])


def _plotter(path: Path | None) -> Plotter | None:
    """Return what draws, before anything is run: it may not be there."""
    return None if path is None else Plotter(path)


def _draw(plotter: Plotter | None, *documents: dict[str, Any], titles: Sequence[str] = ()) -> None:
    """Draw runs side by side, where that is wanted, and tell the files."""
    if plotter is None:
        return
    named = zip(documents, titles or ("",) * len(documents), strict=True)
    for path in plotter.draw([read_chart(document, title=title) for document, title in named]):
        print(f"plotted: {path}", file=sys.stderr)


@contextmanager
def _utc() -> Iterator[None]:
    """Let times of day (``bsub -b 8:00``) be those of UTC, wherever a scenario is run."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = "UTC"
    time.tzset()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()


def _scenario(path: Path, options: argparse.Namespace) -> int:
    """Run one file and print what it came to."""
    plot = options.plot
    if plot is not None and len(options.files) > 1:
        plot = plot / path.stem
    try:
        plotter = _plotter(plot)
        scenario = load_scenario(path, load_texts)
        document = run_scenario(
            scenario,
            CommandWords(),
            seed=options.seed,
            journal=options.journal,
            traces=options.trace,
        )
        _draw(plotter, document)
    except XceError as error:
        print(error, file=sys.stderr)
        return USAGE
    print(render_document(document, options.form))
    failed = [item for item in document["expect"] if not item["ok"]]
    if options.form != "table":
        for item in failed:
            text = f"{path}:{item['line']}: expected {item['text']}: {item['found']}"
            print(text, file=sys.stderr)
    return FAILED if failed else OK


def _snapshot(options: argparse.Namespace) -> int:
    """Run a cluster's state on and print what it comes to."""
    try:
        plotter = _plotter(options.plot)
        layout = find_layout(load_settings(options.dir).state_dir)
        reader = open_found(layout)
        if isinstance(reader, int):
            return reader
        try:
            state = load_state(reader)
        finally:
            reader.close()
        change = None
        if options.change is not None:
            base = Base(state.config, load_texts(layout.config))
            change = load_scenario(options.change, load_texts, base=base)
        # A cluster that is up goes on with time, though no entry may have come for a while.
        now_us = time.time_ns() // 1_000 if layout.controller_socket.exists() else 0
        document = run_snapshot(state, CommandWords(), change, seed=options.seed, now_us=now_us)
        if "baseline" in document:
            titles = ("as it is", f"with {options.change}")
            _draw(plotter, document["baseline"], document, titles=titles)
        else:
            _draw(plotter, document)
    except PermissionError as error:
        print(f"xceadmin sim: {error.filename} is closed to you", file=sys.stderr)
        return DENIED
    except (XceError, SettingsError) as error:
        print(f"xceadmin sim: {error}", file=sys.stderr)
        return USAGE
    if "baseline" in document and options.form == "table":
        print(render_document(document["baseline"], options.form))
    print(render_document(document, options.form))
    return OK if all(item["ok"] for item in document["expect"]) else FAILED


def _swf(options: argparse.Namespace) -> int:
    wanted = SwfOptions(
        log=options.log,
        procs=options.procs,
        hosts=options.hosts,
        policy=options.policy,
        backfill=options.backfill,
        limit=options.limit,
        model=options.clean == "model",
        field8_only=options.size == "req",
        actual=options.estimates == "actual",
        each_event=options.same_second == "event",
        with_jobs=options.jobs or options.plot is not None,
    )
    try:
        plotter = _plotter(options.plot)
        document = run_swf(wanted)
        _draw(plotter, document)
        if not options.jobs:
            document.pop("jobs", None)
    except XceError as error:
        print(f"xceadmin sim swf: {error}", file=sys.stderr)
        return USAGE
    print(render_document(document, options.form))
    return OK
