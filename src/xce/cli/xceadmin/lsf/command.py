"""`xceadmin import-lsf DIR`: LSF's files in, our files and a report out."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from xce.cli.xceadmin.lsf.applications import ApplicationImport
from xce.cli.xceadmin.lsf.files import Section, list_words, parse_sections, parse_settings
from xce.cli.xceadmin.lsf.queues import QueueImport
from xce.cli.xceadmin.lsf.report import Findings, Verdict
from xce.cli.xceadmin.lsf.site import Site
from xce.cli.xceadmin.lsf.verdicts import (
    LSB_PARAMS,
    LSF_CONF,
    RESOURCES,
    UNKNOWN,
    USER,
    find_reason,
)
from xce.config.parse import parse_config
from xce.config.schema import REQUEUES_LIMIT
from xce.model.errors import ConfigError

READ: Final = (
    "lsf.conf", "lsf.shared", "lsb.params", "lsb.users", "lsb.hosts", "lsb.queues",
    "lsb.applications", "lsb.resources",
)  # fmt: skip
REPORT: Final = "import-report.txt"
_HALF_LIFE: Final = 0.30103
"""An hour of use counts 0.1 hours after HIST_HOURS: it halves in log 2 / log 10 of that."""


class Import:
    """One import.

    Args:
        texts: The files of LSF by name.
    """

    def __init__(self, texts: dict[str, str]) -> None:
        self.findings = Findings()
        self._texts = texts
        self._site = Site(self.findings)
        self._cluster: dict[str, Any] = {}
        self._lsf: dict[str, Any] = {}
        self._default = ""
        self._types: list[str] = []
        self._queues: QueueImport | None = None
        self._apps: list[dict[str, Any]] = []

    def run(self) -> dict[str, str]:
        """Return our files by name."""
        self._read_conf()
        for section in self._sections("lsf.shared"):
            self._take_shared(section)
        for name in sorted(self._texts):
            if name.startswith("lsf.cluster."):
                self._read_cluster(name)
        for section in self._sections("lsb.users"):
            self._take_users(section)
        for section in self._sections("lsb.hosts"):
            self._take_hosts(section)
        self._read_params()
        self._site.settle_units(self._types)
        self._read_queues()
        apps = ApplicationImport(self.findings, self._unit)
        for section in self._sections("lsb.applications"):
            apps.add(section)
        self._apps = apps.apps
        for section in self._sections("lsb.resources"):
            reason = RESOURCES.get(section.name.lower(), UNKNOWN)
            for key in section.cells:
                self.findings.add(section, key, Verdict.NONE, reason, of=section.text("NAME"))
        return self._render()

    def _sections(self, file: str) -> Iterator[Section]:
        text = self._texts.get(file)
        if text is None:
            return
        found, odd = parse_sections(file, text, self._texts.get)
        for one in odd:
            self.findings.note(one)
        yield from found

    def _read_conf(self) -> None:
        section = parse_settings("lsf.conf", self._texts.get("lsf.conf", ""))
        add = self.findings.add
        unit = section.text("LSF_UNIT_FOR_LIMITS").upper()
        if unit in ("KB", "MB", "GB", "TB"):
            self._lsf["unit_for_limits"] = unit
        else:
            self._lsf["unit_for_limits"] = "classic"
        for key in section.cells:
            if key == "LSF_UNIT_FOR_LIMITS":
                if unit == self._lsf["unit_for_limits"]:
                    add(section, key, Verdict.TAKEN, f"lsf: unit_for_limits: {unit}")
                else:
                    add(section, key, Verdict.NONE, "sizes are in KB, MB, GB or TB")
            elif key == "LSB_BSUB_PARSE_SCRIPT":
                flag = section.text(key).lower() in ("y", "yes")
                self._lsf["parse_script"] = flag
                add(section, key, Verdict.TAKEN, f"lsf: parse_script: {str(flag).lower()}")
            else:
                add(section, key, Verdict.NONE, find_reason(LSF_CONF, key))
        if "LSF_UNIT_FOR_LIMITS" not in section.cells:
            text = "lsf: unit_for_limits: classic, as LSF without it: -M in KB, rusage in MB"
            add(section, "LSF_UNIT_FOR_LIMITS (not set)", Verdict.TAKEN, text)

    def _take_shared(self, section: Section) -> None:
        match section.name.lower():
            case "resource":
                self._site.add_resource(section)
            case "cluster":
                text = "the name of lsf.cluster.NAME counts"
                self.findings.add(section, "ClusterName", Verdict.TAKEN, text)
            case "hosttype":
                of = section.text("TYPENAME")
                text = "types need no declaration"
                self.findings.add(section, "TYPENAME", Verdict.TAKEN, text, of=of)
            case "hostmodel":
                of = section.text("MODELNAME")
                text = "models need no declaration; run times are not scaled by CPUFACTOR"
                self.findings.add(section, "MODELNAME", Verdict.PARTLY, text, of=of)
            case _:
                for key in section.cells:
                    self.findings.add(section, key, Verdict.NONE, UNKNOWN)

    def _read_cluster(self, name: str) -> None:
        sections = list(self._sections(name))
        self._cluster.setdefault("cluster_name", name.removeprefix("lsf.cluster."))
        for section in sections:
            match section.name.lower():
                case "clusteradmins":
                    for key in section.cells:
                        admins = list_words(section.text(key))
                        if key.lower() == "administrators":
                            self._cluster["admins"] = admins
                            self.findings.add(section, key, Verdict.TAKEN, "admins of xce.yaml")
                        else:
                            self.findings.add(section, key, Verdict.NONE, UNKNOWN)
                case "host":
                    self._site.add_host(section)
                case "resourcemap":
                    self._site.add_location(section)
                case _:
                    for key in section.cells:
                        reason = find_reason(LSF_CONF, key)
                        self.findings.add(section, key, Verdict.NONE, reason)

    def _take_users(self, section: Section) -> None:
        if section.name.lower() == "usergroup":
            self._site.add_user_group(section)
            return
        of = section.text("USER_NAME")
        for key in section.cells:
            if key != "USER_NAME" and section.text(key):
                self.findings.add(section, key, Verdict.NONE, find_reason(USER, key), of=of)

    def _take_hosts(self, section: Section) -> None:
        match section.name.lower():
            case "host":
                self._site.add_batch_host(section)
            case "hostgroup":
                self._site.add_host_group(section)
            case "computeunit":
                self._site.add_unit(section)
            case _:
                why = "shares are of users in queues, not of hosts"
                for key in section.cells:
                    self.findings.add(section, key, Verdict.NONE, why)

    def _read_params(self) -> None:
        self._cluster["orphan_grace_s"] = "forever"
        for section in self._sections("lsb.params"):
            for key in section.cells:
                text = section.text(key)
                said = self._take_param(key, text)
                if said:
                    self.findings.add(section, key, Verdict.TAKEN, said)
                else:
                    reason = find_reason(LSB_PARAMS, key)
                    self.findings.add(section, key, Verdict.NONE, reason)

    def _take_param(self, key: str, text: str) -> str:
        """Take a parameter of ``lsb.params``; return as what, or nothing."""
        seconds = {
            "CLEAN_PERIOD": "clean_period_s",
            "JOB_TERMINATE_INTERVAL": "kill_interval_s",
            "ORPHAN_JOB_TERM_GRACE_PERIOD": "orphan_grace_s",
        }.get(key)
        if seconds and text.isdecimal():
            self._cluster[seconds] = int(text)
            return f"{seconds}: {text}"
        times = {
            "MAX_JOB_REQUEUE": "max_requeues",
            "MAX_PREEXEC_RETRY": "pre_exec_tries",
            "LOCAL_MAX_PREEXEC_RETRY": "pre_exec_tries",
        }.get(key)
        if times and text.isdecimal() and 0 < int(text) <= REQUEUES_LIMIT:
            self._cluster[times] = int(text)
            return f"{times}: {text}"
        match key:
            case "DEFAULT_QUEUE":
                self._default = text.split(maxsplit=1)[0] if text.split() else ""
                return f"default: true of queue {self._default}"
            case "JOB_POSTPROC_TIMEOUT" if text.isdecimal():
                self._cluster["hook_limit_s"] = int(text) * 60
                return f"hook_limit_s: {int(text) * 60}"
            case "DEFAULT_APPLICATION":
                self._cluster["default_application"] = text
                return f"default_application: {text}"
            case "DEFAULT_PROJECT":
                self._cluster["default_project"] = text
                return f"default_project: {text}"
            case "MAX_JOB_ARRAY_SIZE" if text.isdecimal() and 0 < int(text) <= 1_000_000_000:
                self._cluster["max_array_size"] = int(text)
                return f"max_array_size: {text}"
            case "HIST_HOURS" if text.isdecimal() and int(text) > 0:
                self._cluster["fairshare_half_life_s"] = round(int(text) * 3600 * _HALF_LIFE)
                return f"fairshare_half_life_s: {self._cluster['fairshare_half_life_s']}"
            case "COMPUTE_UNIT_TYPES":
                self._types = [word.rstrip("!") for word in text.split()]
                return "the levels of topology.yaml, as far as compute units have them"
        return ""

    @property
    def _unit(self) -> str:
        """The unit of sizes without one."""
        unit: str = self._lsf["unit_for_limits"]
        return "K" if unit == "classic" else unit[0]

    def _read_queues(self) -> None:
        self._queues = QueueImport(self._site, self.findings, self._unit)
        for section in self._sections("lsb.queues"):
            self._queues.add(section)
        self._queues.settle(self._default)

    # Our files.

    def _render(self) -> dict[str, str]:
        site, queues = self._site, self._queues.queues if self._queues is not None else []
        files = {"xce.yaml": _yaml({**self._cluster, "lsf": self._lsf})}
        if site.levels:
            files["topology.yaml"] = _yaml({"levels": site.levels})
        resources = [
            {"name": name, "kind": found["kind"], **_described(found)}
            for name, found in site.resources.items()
        ]
        if resources:
            files["resources.yaml"] = _list(resources)
        if site.pools:
            files["supply.yaml"] = _yaml({"pools": site.pools})
        if site.hosts:
            files["hosts.yaml"] = _list(_host_entries(site.hosts))
        if queues:
            files["queues.yaml"] = _list(queues)
        if self._apps:
            files["applications.yaml"] = _list(self._apps)
        return files


def _described(found: dict[str, str]) -> dict[str, str]:
    return {"description": found["description"]} if found["description"] else {}


def _host_entries(hosts: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the entries of ``hosts.yaml``; hosts that are alike share one."""
    found: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for name, host in hosts.items():
        entry = _host(host)
        found.setdefault(_flow(entry), ([], entry))[0].append(name)
    return [{"names": ",".join(names), **entry} for names, entry in found.values()]


def _host(host: dict[str, Any]) -> dict[str, Any]:
    entry: dict[str, Any] = {}
    if "slots" in host:
        entry["slots"] = host["slots"]
    if "state" in host:
        entry["state"] = host["state"]
    entry |= host["counters"]
    if host["attributes"]:
        entry["attributes"] = host["attributes"]
    if host["labels"]:
        entry["labels"] = host["labels"]
    return entry


def _yaml(values: dict[str, Any]) -> str:
    return "".join(f"{key}: {_flow(value)}\n" for key, value in values.items())


def _list(items: list[dict[str, Any]]) -> str:
    """Return a list of mappings; each value is JSON, which YAML reads as it is."""
    text = ""
    for item in items:
        lead = "- "
        for key, value in item.items():
            text += f"{lead}{key}: {_flow(value)}\n"
            lead = "  "
    return text


def _flow(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def load_lsf(directory: Path) -> dict[str, str]:
    """Return the files of LSF's configuration by name, wherever below a directory they lie.

    Raises:
        OSError: One cannot be read.
    """
    texts: dict[str, str] = {}
    for path in sorted(directory.rglob("*")):
        name = path.name
        known = name in READ or (name.startswith("lsf.cluster.") and name.count(".") >= 2)
        if (known or name.endswith(".include")) and path.is_file() and name not in texts:
            texts[name] = path.read_text(encoding="utf-8", errors="replace")
    return texts


def run_import(directory: Path, target: Path) -> int:
    """Read LSF's files, write ours beside a report; return the exit status."""
    try:
        texts = load_lsf(directory)
    except OSError as error:
        print(f"xceadmin import-lsf: {error}", file=sys.stderr)
        return 1
    if not any(name.startswith(("lsb.queues", "lsf.cluster.")) for name in texts):
        text = f"{directory} has neither lsb.queues nor lsf.cluster.NAME"
        print(f"xceadmin import-lsf: {text}", file=sys.stderr)
        return 3
    if target.exists() and any(target.iterdir()):
        print(f"xceadmin import-lsf: {target} is not empty", file=sys.stderr)
        return 2
    work = Import(texts)
    files = work.run()
    report = work.findings.render()
    target.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (target / name).write_text(text, encoding="utf-8")
    # Not in the directory itself: there, every file is configuration.
    beside = target.with_name(f"{target.name}-{REPORT}")
    beside.write_text(report, encoding="utf-8")
    print(report, end="")
    print(f"written: {', '.join(sorted(files))} in {target}; this report: {beside}")
    try:
        parse_config(files)
    except ConfigError as error:
        print(f"{error}\nthe files need your hand before they can be used", file=sys.stderr)
        return 1
    print("no problems found: 'xceadmin check' accepts the files")
    return 0
