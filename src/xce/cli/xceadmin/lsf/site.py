"""The parts of an LSF site that others refer to: hosts, groups of hosts and users, resources."""

import re
from typing import Any, Final

from xce.cli.xceadmin.lsf.files import Section, list_words
from xce.cli.xceadmin.lsf.report import Findings, Verdict
from xce.cli.xceadmin.lsf.verdicts import HOST, USER, find_reason
from xce.config.names import HOST_NAME, RESERVED_RESOURCES, RESOURCE_NAME, expand_names
from xce.model.errors import TextError

BUILT_IN: Final = RESERVED_RESOURCES
EACH_OTHER: Final = "each of the others has them, not all together"
_AMOUNT: Final = re.compile(r"([^@\s]+)@\[([^\]]*)\]|\[([^\]]*)\]")


class Site:
    """What hosts, groups and resources there are.

    Args:
        findings: The report.
    """

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.hosts: dict[str, dict[str, Any]] = {}
        """By name: ``slots``, ``attributes``, ``labels``, counters."""
        self.host_groups: dict[str, list[str]] = {}
        self.user_groups: dict[str, list[str]] = {}
        self.user_shares: dict[str, list[tuple[str, int]]] = {}
        self.resources: dict[str, dict[str, str]] = {}
        self.pools: dict[str, int] = {}
        self.levels: list[str] = []
        self._units: list[tuple[str, str, list[str]]] = []

    # lsf.cluster.NAME and lsf.shared

    def add_host(self, section: Section) -> None:
        """Take a row of the cluster file's Host section."""
        name, add = section.text("HOSTNAME"), self.findings.add
        if section.text("server") == "0":
            add(section, "HOSTNAME", Verdict.NONE, "it runs no jobs: users log in there", of=name)
            return
        if not HOST_NAME.fullmatch(name):
            add(section, "HOSTNAME", Verdict.NONE, "it is no name of a host", of=name)
            return
        host = self.hosts.setdefault(name, {"attributes": {}, "counters": {}, "labels": {}})
        add(section, "HOSTNAME", Verdict.TAKEN, "a host of hosts.yaml", of=name)
        for key in ("type", "model"):
            value = section.text(key)
            if value in ("", "!"):
                continue
            host["attributes"][key] = value
            add(section, key, Verdict.TAKEN, f"its attribute {key}", of=name)
        for key in section.cells:
            if key in ("HOSTNAME", "type", "model", "server", "RESOURCES"):
                continue
            if section.text(key):
                add(section, key, Verdict.NONE, find_reason(HOST, key), of=name)
        if section.text("RESOURCES"):
            self._add_host_resources(section, name, host)

    def _add_host_resources(self, section: Section, name: str, host: dict[str, Any]) -> None:
        taken, left = [], []
        for word in list_words(section.text("RESOURCES")):
            key, equals, value = word.partition("=")
            kind = self.resources.get(key, {}).get("kind", "")
            if kind == "boolean" and not equals:
                host["attributes"][key] = True
                taken.append(word)
            elif kind == "string" and equals:
                host["attributes"][key] = value
                taken.append(word)
            elif kind == "counter" and value.isdecimal():
                host["counters"][key] = int(value)
                taken.append(word)
            else:
                left.append(word)
        if taken:
            text = f"attributes and counters: {' '.join(taken)}"
            if left:
                text += f"; not {' '.join(left)}: lsf.shared does not declare them so"
            verdict = Verdict.PARTLY if left else Verdict.TAKEN
            self.findings.add(section, "RESOURCES", verdict, text, of=name)
        else:
            text = f"lsf.shared does not declare {' '.join(left)} so"
            self.findings.add(section, "RESOURCES", Verdict.NONE, text, of=name)

    def add_resource(self, section: Section) -> None:
        """Take a row of the Resource section of ``lsf.shared``."""
        name, kind = section.text("RESOURCENAME"), section.text("TYPE").lower()
        add = self.findings.add
        if name in BUILT_IN:
            add(section, "RESOURCENAME", Verdict.TAKEN, "the built-in resource", of=name)
            return
        if not RESOURCE_NAME.fullmatch(name):
            add(section, "RESOURCENAME", Verdict.NONE, "it is no name of a resource", of=name)
            return
        found = {"numeric": "number", "boolean": "boolean", "string": "string"}.get(kind)
        if found is None:
            add(section, "TYPE", Verdict.NONE, f"{kind!r} is no kind of resource", of=name)
            return
        consumable = section.text("CONSUMABLE").upper().startswith("Y")
        if found == "number" and consumable:
            found = "counter"
        self.resources[name] = {
            "kind": found, "description": section.text("DESCRIPTION").strip("()"),
        }  # fmt: skip
        if section.text("INTERVAL"):
            text = f"a {found} of resources.yaml; its values do not change by themselves: no elim"
            add(section, "RESOURCENAME", Verdict.PARTLY, text, of=name)
        else:
            add(section, "RESOURCENAME", Verdict.TAKEN, f"a {found} of resources.yaml", of=name)

    def add_location(self, section: Section) -> None:
        """Take a row of the ResourceMap section."""
        name, text = section.text("RESOURCENAME"), section.text("LOCATION")
        add = self.findings.add
        kind = self.resources.get(name, {}).get("kind", "")
        if not kind:
            why = "lsf.shared does not declare the resource, or it is built in"
            add(section, "LOCATION", Verdict.NONE, why, of=name)
            return
        places = [(a or "", (b or c).split()) for a, b, c in _AMOUNT.findall(text.strip("()"))]
        amounts = [(int(amount), hosts) for amount, hosts in places if amount.isdecimal()]
        is_shared = len(amounts) == 1 and amounts[0][1] == ["all"]
        if kind in ("counter", "number") and is_shared and self.resources[name]["kind"] != "string":
            self.resources[name]["kind"] = "pool"
            self.pools[name] = amounts[0][0]
            add(section, "LOCATION", Verdict.TAKEN, f"a pool of {amounts[0][0]} in supply.yaml",
                of=name)  # fmt: skip
            return
        single = [(amount, hosts[0]) for amount, hosts in amounts if len(hosts) == 1]
        if kind == "counter" and len(single) == len(places) and single:
            for amount, host in single:
                if host in self.hosts:
                    self.hosts[host]["counters"][name] = amount
            add(section, "LOCATION", Verdict.TAKEN, "counters of these hosts", of=name)
            return
        if text.strip("()") == "[default]":
            why = "each host has its own; give the amounts in hosts.yaml"
            add(section, "LOCATION", Verdict.PARTLY, why, of=name)
            return
        why = "an amount that some hosts share is not built yet: a pool is of the whole cluster"
        add(section, "LOCATION", Verdict.NONE, why, of=name)

    # lsb.hosts and lsb.users

    def add_batch_host(self, section: Section) -> None:
        """Take a row of the Host section of ``lsb.hosts``."""
        name, most, add = section.text("HOST_NAME"), section.text("MXJ"), self.findings.add
        for key in section.cells:
            if key not in ("HOST_NAME", "MXJ") and section.text(key):
                add(section, key, Verdict.NONE, find_reason(HOST, key), of=name)
        names = list(self.hosts) if name == "default" else self.expand_hosts([name])
        names = [one for one in names if one in self.hosts]
        if not names:
            add(section, "HOST_NAME", Verdict.NONE, "the cluster file has no such host", of=name)
            return
        if most == "!":
            text = "slots: the CPUs that its worker finds, as without the key"
            add(section, "MXJ", Verdict.TAKEN, text, of=name)
        elif most.isdecimal() and int(most) > 0:
            for one in names:
                if name != "default" or "slots" not in self.hosts[one]:
                    self.hosts[one]["slots"] = int(most)
            add(section, "MXJ", Verdict.TAKEN, f"slots: {most}", of=name)
        elif most == "0":
            for one in names:
                self.hosts[one]["state"] = "closed"
            add(section, "MXJ", Verdict.TAKEN, "state: closed", of=name)
        elif most:
            add(section, "MXJ", Verdict.NONE, "it is no number of slots", of=name)
        elif "MXJ" in section.cells:
            why = "a host has as many slots as CPUs unless hosts.yaml says another number"
            add(section, "MXJ", Verdict.NONE, why, of=name)

    def add_host_group(self, section: Section) -> None:
        """Take a group of hosts: it is expanded wherever it is named."""
        name = section.text("GROUP_NAME")
        self.host_groups[name] = list_words(section.text("GROUP_MEMBER"))
        text = "the hosts themselves, wherever it is named"
        self.findings.add(section, "GROUP_MEMBER", Verdict.TAKEN, text, of=name)
        for key in section.cells:
            if key not in ("GROUP_NAME", "GROUP_MEMBER") and section.text(key):
                self.findings.add(section, key, Verdict.NONE, "groups are expanded", of=name)

    def add_unit(self, section: Section) -> None:
        """Take a compute unit: a domain of the topology."""
        name, level = section.text("NAME"), section.text("TYPE")
        self._units.append((level, name, list_words(section.text("MEMBER"))))
        self.findings.add(section, "MEMBER", Verdict.TAKEN, f"the label {level}: {name}", of=name)

    def add_user_group(self, section: Section) -> None:
        """Take a group of users: it is expanded wherever it is named."""
        name = section.text("GROUP_NAME")
        self.user_groups[name] = list_words(section.text("GROUP_MEMBER"))
        text = "the users themselves, wherever it is named"
        self.findings.add(section, "GROUP_MEMBER", Verdict.TAKEN, text, of=name)
        for key in section.cells:
            if key in ("GROUP_NAME", "GROUP_MEMBER") or not section.text(key):
                continue
            shares = parse_shares(section.text(key)) if key == "USER_SHARES" else []
            if shares:
                self.user_shares[name] = shares
                text = "the shares of its members in every fairshare tree that names the group"
                if "others" in dict(shares):
                    self.findings.add(
                        section, key, Verdict.PARTLY, f"{text}; {EACH_OTHER}", of=name
                    )
                else:
                    self.findings.add(section, key, Verdict.TAKEN, text, of=name)
            else:
                self.findings.add(section, key, Verdict.NONE, find_reason(USER, key), of=name)

    def settle_units(self, types: list[str]) -> None:
        """Give hosts their labels; ``types`` are LSF's compute unit types, the widest last."""
        used = {level for level, _, _ in self._units}
        self.levels = [level for level in types if level in used] or sorted(used)
        members = {name: words for _, name, words in self._units}
        for level, name, words in self._units:
            names: list[str] = []
            for word in words:
                inner = members.get(word.rstrip("/"))
                names += self.expand_hosts(inner if inner is not None else [word])
            for host in names:
                if host in self.hosts:
                    self.hosts[host]["labels"][level] = name

    def expand_hosts(self, words: list[str], seen: frozenset[str] = frozenset()) -> list[str]:
        """Return the hosts that names, patterns, groups, ``all`` and ``~`` mean."""
        names: dict[str, None] = {}
        gone: set[str] = set()
        for raw in words:
            word = raw.split("+")[0].rstrip("!/")
            if word.startswith("~"):
                gone.update(self.expand_hosts([word[1:]], seen))
            elif word in ("all", "others", "allremote"):
                names.update(dict.fromkeys(self.hosts))
            elif word in self.host_groups and word not in seen:
                inner = self.expand_hosts(self.host_groups[word], seen | {word})
                names.update(dict.fromkeys(inner))
            else:
                names.update(dict.fromkeys(self._matching(word)))
        return [name for name in names if name not in gone]

    def _matching(self, word: str) -> list[str]:
        if word in self.hosts:
            return [word]
        if "*" in word:
            pattern = re.compile(re.escape(word).replace(r"\*", ".*"))
            return [name for name in self.hosts if pattern.fullmatch(name)]
        if "[" in word:
            try:
                return [name for name in expand_names(word) if name in self.hosts]
            except TextError:
                return []
        return []

    def expand_users(self, words: list[str], seen: frozenset[str] = frozenset()) -> list[str]:
        """Return the users that names and groups mean."""
        names: dict[str, None] = {}
        for raw in words:
            word = raw.rstrip("@/")
            if word in self.user_groups and word not in seen:
                inner = self.expand_users(self.user_groups[word], seen | {word})
                names.update(dict.fromkeys(inner))
            else:
                names[word] = None
        return list(names)


def parse_shares(text: str) -> list[tuple[str, int]]:
    """Return names and shares of ``([u1, 4] [g@, 2] [default, 1])``."""
    return [
        (name, int(shares))
        for name, shares in re.findall(r"\[\s*([\w.@/-]+)\s*,\s*(\d+)\s*\]", text)
        if int(shares) > 0
    ]
