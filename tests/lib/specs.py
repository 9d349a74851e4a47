"""A small cluster for jobspecs, and what becomes of a document on it."""

from xce.jobspec.compile import Asked, compile_spec
from xce.jobspec.document import read_spec
from xce.model.config import ClusterConfig, HostConfig
from xce.testing.builders import config

LEVELS = ("switch", "block")
HOSTS = (
    HostConfig(name="h1", slots=4, labels={"switch": "s1", "block": "b1"}),
    HostConfig(name="h2", slots=4, labels={"switch": "s2", "block": "b1"}),
)


def site() -> ClusterConfig:
    return config(HOSTS, levels=LEVELS)


def asked(text: str, *, group: str = "") -> Asked:
    """Return what a document asks for."""
    return compile_spec(read_spec(text, file="spec.yaml"), site(), unit="MB", group=group)


def with_relations(*relations: str, roles: str = "a: 2, b: 2, c: 1", more: str = "") -> str:
    """Return a document with these roles and relations; ``more``: other lines."""
    lines = ["version: 1", "command: run", more, "roles:"]
    for role in roles.split(", "):
        name, _, count = role.partition(": ")
        lines.append(f"  - {{name: {name}, count: {count or 1}}}")
    lines += ["relations:", *(f"  - {{{relation}}}" for relation in relations)]
    return "\n".join(line for line in lines if line)
