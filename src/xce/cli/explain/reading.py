"""From what is asked for to what was understood: one value, and where each part of it is from."""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from xce.cli.explain.asked import INTERACTIVE, Asked
from xce.cli.explain.cluster import OFFLINE, Cluster
from xce.cli.explain.requirement import REFUSED, read_hosts, read_requirement
from xce.cli.lsf.bsub import OPTIONS as BSUB
from xce.cli.lsf.checkpoint import parse_checkpoints
from xce.cli.lsf.environment import split_items
from xce.cli.lsf.gpu_value import mib, parse_gpu
from xce.cli.lsf.process_limits import MEMBERS as LIMITS
from xce.cli.lsf.process_limits import own_limits, parse_limits
from xce.cli.lsf.submission import add_warning, bare_unit, read_transfers, submission_directory
from xce.cli.lsf.values import (
    BadValueError,
    parse_begin,
    parse_count,
    parse_deadline,
    parse_duration_s,
    parse_size_kib,
    parse_tasks,
)
from xce.resreq.array import parse_job_name
from xce.resreq.dependency import parse_dependency, render_dependency

JOB: Final = "1234"
"""The job id in ``expanded``."""
ELEMENT: Final = "7"
"""The array index in ``expanded``; 0 for a job that is no array."""
_UNIT_VARIABLE: Final = "LSF_UNIT_FOR_LIMITS"
_UNITS: Final = ("KB", "MB", "GB", "TB", "classic")


class Reader:
    """Reads the options of one submission; ``result`` grows by one member for each."""

    def __init__(
        self, asked: Asked, cluster: Cluster, environ: Mapping[str, str], now_s: float
    ) -> None:
        self.asked = asked
        self.options = asked.options
        self.cluster = cluster
        self.environ = environ
        self.now_s = now_s
        self.result: dict[str, Any] = {}
        self.origin: dict[str, dict[str, str]] = {}
        self.warnings: list[str] = list(asked.warnings)
        self.unit, self.unit_from = self._unit()

    def read(self) -> dict[str, Any]:
        """Return everything that was understood.

        Raises:
            BadValueError: A value cannot be taken.
            LanguageError: A text in one of LSF's small languages cannot be read.
        """
        if self.cluster.trouble:
            self.warnings.insert(0, f"{OFFLINE} ({self.cluster.trouble.rstrip('.')})")
        self.requirement()
        self.limits()
        self.identity()
        self.when()
        self.files()
        self.run()
        self.surroundings()
        self.reporting()
        self.note_refused()
        return {**self.result, "origin": self.origin, "warnings": self.warnings}

    # --- where values come from --------------------------------------------------------------

    def _unit(self) -> tuple[str, str]:
        """Return the unit of bare sizes and who says so."""
        named = self.environ.get(_UNIT_VARIABLE, "")
        if named:
            bare_unit(named)
            by_capitals = {unit.upper(): unit for unit in _UNITS}
            return by_capitals[named.strip().upper()], f"{_UNIT_VARIABLE} in the environment"
        if self.cluster.trouble:
            return "MB", "the default, since no cluster answered"
        return self.cluster.config.lsf_unit_for_limits, "the cluster's lsf.unit_for_limits"

    def note(self, member: str, option: str, read: str = "", **more: str) -> None:
        """Note where a member of the result is from."""
        text = ", ".join(self.options.given.get(option, []))
        entry = {"option": option, "from": self.asked.places.get(option, "command line")}
        if text:
            entry["text"] = text
        if read:
            entry["read"] = read
        self.origin[member] = {**entry, **more}

    def text(self, member: str, option: str, variable: str = "", default: str | None = None) -> str:
        """Set a member to an option's text, else a variable's; return it, empty where not given."""
        value = self.options.value(option)
        if self.options.has(option):
            self.note(member, option)
        elif variable and self.environ.get(variable):
            value = self.environ[variable]
            self.origin[member] = {"from": f"{variable} in the environment", "text": value}
        else:
            self.result[member] = default
            return ""
        self.result[member] = value
        return value

    # --- the parts ---------------------------------------------------------------------------

    def requirement(self) -> None:
        """Read ``-n -R -m -x``."""
        texts = self.options.given.get("-R", [])
        place: dict[str, str] = {}
        if not texts and self.environ.get("LSB_DEFAULT_RESREQ"):
            texts = [self.environ["LSB_DEFAULT_RESREQ"]]
            place = {"from": "LSB_DEFAULT_RESREQ in the environment", "text": texts[0]}
        tasks = None
        if self.options.has("-n"):
            least, most = parse_tasks(self.options.value("-n"))
            tasks = (least, most)
            self.note("n", "-n", f"{least} to {most} tasks")
        nodes = 0
        if self.options.has("-nnodes"):
            nodes = parse_count(self.options.value("-nnodes"), option="-nnodes")
            self.result["nodes"] = nodes
            self.note("nodes", "-nnodes", f"{nodes} whole hosts, with all their slots")
        found = read_requirement(texts, tasks, self.unit, self.cluster, nodes)
        self.result |= {
            "n": list(found.n),
            "resreq": found.resreq,
            "roles": [_members(role) for role in found.roles],
        }
        if found.alternatives:
            self.result["alternatives"] = [
                {**_members(choice), "roles": [_members(role) for role in choice.roles]}
                for choice in found.alternatives
            ]
        if texts:
            unit = "MB" if self.unit == "classic" else self.unit
            self.note(
                "resreq", "-R",
                unit=f"mem and swp without a unit are in {unit} ({self.unit_from}), tmp in MB; "
                "resreq has MiB; amounts without /host or /job are for each task",
            )  # fmt: skip
            self.origin["resreq"].update(place)
        if tasks is None and texts and found.n != (1, 1):
            self.origin["n"] = {"from": "the parts of the requirement"}
        self.warnings += found.warnings
        if self.options.has("-m"):
            self.result["hosts"], warnings = read_hosts(self.options.value("-m"), self.cluster)
            self.note("hosts", "-m")
            self.warnings += warnings
        self.flag("exclusive", "-x")

    def limits(self) -> None:
        """Read ``-W -We -M``, and those of `xce.cli.lsf.process_limits`."""
        for member, option in (("run_limit_s", "-W"), ("run_estimate_s", "-We")):
            if self.options.has(option):
                text, slash, model = self.options.value(option).partition("/")
                self.result[member] = parse_duration_s(text, option=option)
                self.note(member, option, "[hours:]minutes")
                if slash:
                    self.warnings.append(f"{REFUSED}{option} scaled by the speed of {model}")
        if self.options.has("-M"):
            self.size("mem_limit_mib", "-M")
        letter = bare_unit(self.unit)
        for name, value in parse_limits(self.options, lambda: letter, own_limits).items():
            member = f"{name.removesuffix('_kib')}_mib" if name.endswith("_kib") else name
            self.result[member] = mib(value) if member != name else value
            option = next((one for one, known in LIMITS.items() if known == name), "")
            if not self.options.has(option):
                self.note(member, "-ul")
            elif member == name:
                self.note(member, option)
            else:
                bare = self.options.value(option).strip()[-1:].isdigit()
                unit = f"{letter}B ({self.unit_from})" if bare else "as written"
                self.note(member, option, unit=unit)
        for member in ("run_limit_s", "mem_limit_mib"):
            self.result.setdefault(member, None)

    def size(self, member: str, option: str) -> None:
        """Read a memory limit; ``!`` (enforced at once) is read, though not taken by a submit."""
        text = self.options.value(option)
        plain = text.strip().removesuffix("!")
        kib = parse_size_kib(plain, option=option)
        if kib is None:
            letter = bare_unit(self.unit)
            kib = parse_size_kib(plain, option=option, bare_unit=letter)
            self.note(member, option, unit=f"{letter}B ({self.unit_from})")
        else:
            self.note(member, option, unit="as written")
        self.result[member] = mib(kib or 0)
        if plain != text.strip():
            self.warnings.append(f"{REFUSED}the ! of {option} {text}")

    def identity(self) -> None:
        """Read ``-J -q -P -G -g -app -sp``."""
        queue = self.text("queue", "-q", "LSB_DEFAULTQUEUE")
        for name in queue.split():
            if not self.cluster.trouble and name not in self.cluster.queues:
                self.warnings.append(f"no queue is called {name!r}")
        self.result |= {"name": None, "array": None}
        if self.options.has("-J"):
            text = self.options.value("-J")
            name, array, indices = parse_job_name(text, max_size=self.cluster.config.max_array_size)
            self.result["name"] = name
            self.note("name", "-J")
            if array is not None:
                self.result["array"] = {"indices": [_run(item) for item in indices.split(",")]}
                if array.limit:
                    self.result["array"]["limit"] = array.limit
                self.note("array", "-J", f"{array.count} elements")
        for member, option, variable in (
            ("project", "-P", "LSB_DEFAULTPROJECT"),
            ("user_group", "-G", "LSB_DEFAULT_USERGROUP"),
            ("job_group", "-g", "LSB_DEFAULT_JOBGROUP"),
            ("app", "-app", "LSB_DEFAULT_APPLICATION"),
        ):
            if self.options.has(option) or self.environ.get(variable):
                self.text(member, option, variable)
        if not self.result.get("job_group", "/").startswith("/"):
            raise BadValueError(f"Bad job group name: -g {self.result['job_group']}: / comes first")
        app = self.result.get("app")
        if app and app not in self.cluster.applications and not self.cluster.trouble:
            self.warnings.append(f"no application profile is called {app!r}")
        if self.options.has("-sp"):
            self.result["priority"] = _number(self.options.value("-sp"), "-sp", "user priority")
            self.note("priority", "-sp")

    def when(self) -> None:
        """Read ``-w -ti -b -t -H -r -rn -Q``."""
        self.result["dependency"] = None
        if self.options.has("-w"):
            text = self.options.value("-w")
            self.note("dependency", "-w")
            self.result["dependency"] = render_dependency(parse_dependency(text))
        if self.options.has("-b"):
            at_s = parse_begin(self.options.value("-b"), self.now_s)
            self.result["begin"] = _iso(at_s)
            self.note("begin", "-b", "local time")
        if self.options.has("-t"):
            self.result["deadline_at"] = _iso(parse_deadline(self.options.value("-t"), self.now_s))
            self.note("deadline_at", "-t", "local time")
        self.flag("hold", "-H", given_only=True)
        self.flag("ends_as_orphan", "-ti", given_only=True)
        if self.options.has("-r") or self.options.has("-rn"):
            self.result["rerunnable"] = self.options.has("-r")
            self.note("rerunnable", "-r" if self.options.has("-r") else "-rn")
        if self.options.has("-Q"):
            self.result["requeue_codes"] = _exit_codes(self.options.value("-Q"))
            self.note("requeue_codes", "-Q")

    def files(self) -> None:
        """Read ``-i -is -o -oo -e -eo``, and what the paths become."""
        expanded = {}
        index = ELEMENT if self.result["array"] else "0"
        for member, kinds in (
            ("input", {"-i": False, "-is": False}),
            ("output", {"-o": True, "-oo": False}),
            ("error", {"-e": True, "-eo": False}),
        ):
            self.result[member] = None
            for option, append in kinds.items():
                if self.options.has(option):
                    path = self.options.value(option)
                    if not path or "\0" in path:
                        raise BadValueError(f"Bad file name: {option} names no file")
                    self.result[member] = {"path": path, "append": append}
                    if option == "-is":
                        self.result[member]["spooled"] = True
                    self.note(member, option)
                    if option != "-is":
                        path = path.replace("%J", JOB).replace("%I", index)
                    expanded[member] = path
        if expanded:
            self.result["expanded"] = expanded

    def run(self) -> None:
        """Read the command, and ``-gpu -I... -tty -K -E -Ep -L``."""
        self.result["gpu"] = None
        if self.options.has("-gpu"):
            letter = "M" if self.unit == "classic" else bare_unit(self.unit)
            self.result["gpu"] = parse_gpu(self.options.value("-gpu"), letter)
            self.note("gpu", "-gpu", unit=f"gmem without a unit is in {letter}B; gpu has MiB")
        self.result["command"] = self.asked.command or None
        self.origin["command"] = {"from": "command line"}
        if self.asked.script:
            self.result["script"] = self.asked.script
            self.origin["command"] = {"from": self.asked.script}
            if self.asked.args:
                self.result["args"] = self.asked.args
        for option in INTERACTIVE:
            if self.options.has(option):
                self.result["interactive"] = option[1:]
                self.note("interactive", option)
        self.flag("tty", "-tty", given_only=True)
        self.flag("wait", "-K", given_only=True)
        warning: dict[str, Any] = {}
        add_warning(warning, self.options)
        self.result.update(warning)
        for member in warning:
            self.note(member, "-wt" if member == "warning_s" else "-wa")
        for member, option in (
            ("pre_exec", "-E"), ("post_exec", "-Ep"), ("login_shell", "-L"), ("description", "-Jd"),
        ):  # fmt: skip
            if self.options.has(option):
                self.text(member, option)

    def surroundings(self) -> None:
        """Read ``-cwd -outdir -f -k -env``."""
        if self.options.has("-cwd") or self.environ.get("LSB_JOB_CWD"):
            self.text("cwd", "-cwd", "LSB_JOB_CWD")
        if self.options.has("-outdir"):
            self.text("outdir", "-outdir")
        if self.options.has("-f"):
            cwd = submission_directory(self.environ)
            self.result["transfers"] = [one[:3] for one in read_transfers(self.options, cwd)]
            self.note("transfers", "-f")
        if self.options.has("-k"):
            cwd = submission_directory(self.environ)
            found = parse_checkpoints(self.options.value("-k"), cwd, self.environ)
            self.result["checkpoints"] = found
            self.note("checkpoints", "-k")
        if self.options.has("-env"):
            items = [item for text in self.options.given["-env"] for item in split_items(text)]
            self.result["env"] = _environment(items)
            self.note("env", "-env")

    def reporting(self) -> None:
        """Read ``-B -N -Ne -u -notify``."""
        mail = {
            member: True
            for member, option in (("start", "-B"), ("end", "-N"), ("exit", "-Ne"))
            if self.options.has(option)
        }
        if mail:
            self.result["mail"] = mail
            for option in ("-Ne", "-N", "-B"):
                if self.options.has(option):
                    self.note("mail", option)
        if self.options.has("-u"):
            self.result["mail_to"] = self.options.value("-u").replace(",", " ").split()
            self.note("mail_to", "-u")
        if self.options.has("-notify"):
            words = self.options.value("-notify").split()
            if not words or not set(words) <= {"exit", "done", "start", "suspend"}:
                raise BadValueError(
                    f"Bad notification: -notify {' '.join(words)}: expected exit, done, start or "
                    "suspend"
                )
            self.result["notify"] = words
            self.note("notify", "-notify")

    def flag(self, member: str, option: str, *, given_only: bool = False) -> None:
        """Set a member to whether an option was given."""
        if self.options.has(option):
            self.note(member, option)
        if self.options.has(option) or not given_only:
            self.result[member] = self.options.has(option)

    def note_refused(self) -> None:
        """Warn of options that are understood here and that a submit refuses."""
        for option in self.options.given:
            if option in BSUB.refused:
                why = BSUB.refused[option] or "this option of LSF is not in XCE"
                self.warnings.append(f"{REFUSED}{option}: {why}")


def explain(
    asked: Asked,
    cluster: Cluster,
    environ: Mapping[str, str],
    *,
    clock: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """Return everything that a submission says, as members of one JSON object.

    Raises:
        BadValueError: A value cannot be taken.
        LanguageError: A text in one of LSF's small languages cannot be read.
    """
    return Reader(asked, cluster, environ, clock()).read()


def _members(value: object) -> dict[str, Any]:
    found = {name: getattr(value, name) for name in value.__struct_fields__}  # type: ignore[attr-defined]
    if "n" in found and isinstance(found["n"], tuple):
        found["n"] = list(found["n"])
    return found


def _run(item: str) -> list[int]:
    """Return first, last and step of one item of an index list that was found to be right."""
    span, _, step = item.partition(":")
    first, _, last = span.partition("-")
    return [int(first), int(last or first), int(step or 1)]


def _number(text: str, option: str, what: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:12]) < 1 << 31:
        raise BadValueError(f"Bad {what}: {option} {text} is no whole number above 0")
    return int(text)


def _exit_codes(text: str) -> list[int | str]:
    """Return the words of ``-Q``, numbers as such."""
    wrong = BadValueError(
        f"Bad requeue exit values: -Q {text}: expected exit codes 0 to 255, or all ~code ..., "
        "perhaps with EXCLUDE(code ...)"
    )
    head, bracket, tail = text.partition("EXCLUDE(")
    found: list[int | str] = []
    words = head.split()
    is_all = words[:1] == ["all"]
    for word in words[is_all:]:
        number = word.removeprefix("~") if is_all else word
        if not _is_exit_code(number) or (is_all and not word.startswith("~")):
            raise wrong
        found.append(word if is_all else int(word))
    if is_all:
        found.insert(0, "all")
    if bracket:
        inner = tail.strip()
        codes = inner[:-1].replace(",", " ").split()
        if not inner.endswith(")") or not codes or not all(map(_is_exit_code, codes)):
            raise wrong
        found.append(f"EXCLUDE({' '.join(codes)})")
    if not found:
        raise wrong
    return found


def _is_exit_code(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 3 and int(text) <= 255


def _environment(items: list[str]) -> dict[str, Any]:
    """Return what the items of ``-env`` say."""
    found: dict[str, Any] = {"mode": "all" if "all" in items else "none"}
    for item in items:
        if item in {"all", "none"}:
            continue
        name, equals, value = item.partition("=")
        if not name.strip("~") or any(mark.isspace() for mark in name):
            raise BadValueError(f"Bad environment specification: -env: {item!r} names no variable")
        if item.startswith("~"):
            found.setdefault("unset", []).append(item[1:])
        elif equals:
            found.setdefault("set", {})[name] = value
        else:
            found.setdefault("keep", []).append(name)
    return found


def _iso(at_s: int) -> str:
    """Return an instant in local time with its offset."""
    text = time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(at_s))
    return f"{text[:-2]}:{text[-2:]}"
