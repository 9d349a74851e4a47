"""``docs/protocol.md``, made from the code: frames, handshake, roles, every struct on the wire."""

import ast
import enum
import functools
import inspect
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path

import msgspec

from xce.model.command import Command
from xce.model.effect import Effect
from xce.model.observation import Observation
from xce.net import doorway, handshake, tls
from xce.net import message as m
from xce.net.allowlist import ALLOWED, WORKER_FRAME_MAX
from xce.net.frame import HEAD_BYTES

PAGE = Path(__file__).resolve().parents[2] / "docs" / "protocol.md"
SINCE = {m.Enrol: 2, m.Enrolled: 2, m.ControllerKeys: 2, m.ListKeys: 2, m.KeyList: 2,
         m.ListPeers: 2, m.PeerList: 2, m.TerminalAsk: 2, m.TerminalPiece: 2,
         m.TaskAsk: 2, m.TaskPiece: 2}  # fmt: skip
"""Kinds of messages that a protocol before did not have."""
HEAD = """\
# Protocol between components

How controllers and those who dial them speak. This page is made from the code
(`tests/lib/protocol_page.py`), and a test holds that it is true. The REST interface of users is
another one.

## Frames

A connection carries frames, both ways: a length of {head} bytes in network byte order
(big-endian), then so many bytes of one MessagePack value. A frame has at most {frame} MiB, one of
a worker {worker} MiB; the first one, before the other side is known, at most {hello} KiB. A
longer frame, or one that is no message, ends the connection. There is no compression, and nothing
between frames.

A value is an array: first the tag of the message, a text, then its fields in the order given
below. Numbers are integers; bytes are MessagePack `bin`; instants are microseconds since the
epoch; what has a default may be missing at the end of the array. A receiver takes a longer array
than it knows and ignores what is behind.

## Connections

* On one machine: a unix socket in a directory of mode 700. The kernel says whose process dials;
  it must be of the controller's own user or root.
* Between machines: TCP with TLS 1.3, nothing older, no renegotiation, no session tickets. Both
  sides show a self-signed certificate of an Ed25519 key; it is good when that very key is trusted
  ([Hosts and keys](security.md)). Names and times in certificates mean nothing. The server name
  that a client sends is `{name}`.
* A side that dials shows no certificate only to enrol, and then says `enrol` and nothing else.
* Who has not said who he is after {patience:.0f} s is cut off. One address may have {per_address}
  such connections, all together {half_open}. TCP probes (keep-alive) find out within about
  {silent} s that a machine is gone.
* `mode: test` takes frames without TLS from the controller's own machine, at a loopback address.

## Handshake and versions

The side that dials says `hello` with the newest protocol that it speaks and the oldest that it
understands. The answer is `welcome` with the newest that both speak, or `refused` with the
reason, and the end. This release speaks protocol {protocol} and understands {oldest}: a component
of one release before is served. Within a protocol, structs only grow: new fields at the end, with
defaults. A new kind of message makes a new protocol, and is sent to nobody who speaks an older
one. Those who follow the journal (scheduler, apiservers, history) read records too: one that
meets a kind which it does not know ends with a word about it, so they are upgraded together with
the controller; workers need not be.

## Who may say what

A message, command or observation that is not in the row of the peer's role ends the connection.

| role | messages | commands in `ask` | observations in `observe` |
|---|---|---|---|
"""


def render_page() -> str:
    """Return the page."""
    text = HEAD.format(
        head=HEAD_BYTES, frame=m.FRAME_MAX // 2**20, worker=WORKER_FRAME_MAX // 2**20,
        hello=handshake.HELLO_MAX_BYTES // 1024,
        name=tls.SERVER_NAME, patience=handshake.HANDSHAKE_S,
        per_address=doorway.PER_ADDRESS_MAX, half_open=doorway.HALF_OPEN_MAX,
        silent=tls.SILENT_S, protocol=m.PROTOCOL, oldest=m.PROTOCOL_OLDEST,
    )  # fmt: skip
    for role, rights in ALLOWED.items():
        cells = (_tags(rights.messages), _tags(rights.commands), _tags(rights.observations))
        text += f"| `{role}` | {' | '.join(cells)} |\n"
    parts = [text]
    seen: dict[type, None] = {}
    for title, union in (
        ("Messages", m.Message), ("Commands", Command), ("Observations", Observation),
        ("Effects", Effect),
    ):  # fmt: skip
        kinds = sorted(typing.get_args(union), key=tag_of)
        seen.update(dict.fromkeys(kinds))
        parts.append(f"## {title}\n\n" + "\n".join(render_struct(kind) for kind in kinds))
    inner = dict.fromkeys(kind for top in list(seen) for kind in reach(top) if kind not in seen)
    parts.append(
        "## What they are made of\n\nWithout a tag, unless one is given.\n\n"
        + "\n".join(render_struct(kind) for kind in sorted(inner, key=lambda kind: kind.__name__))
    )
    return "\n".join(part.rstrip() + "\n" for part in parts)


def tag_of(kind: type) -> str:
    """Return the tag of a struct on the wire; empty: it has none."""
    return str(kind.__struct_config__.tag or "")


def _tags(kinds: tuple[type, ...]) -> str:
    return ", ".join(f"`{tag_of(kind)}`" for kind in kinds)


def render_struct(kind: type) -> str:
    """Return what a page says of one struct or enumeration."""
    doc = " ".join((inspect.getdoc(kind) or "").split("\n\n")[0].split())
    if issubclass(kind, enum.Enum):
        values = ", ".join(f"`{item.value}` {item.name.lower()}" for item in kind)
        return f"### {kind.__name__}\n\n{_plain(doc)} Values: {values}.\n"
    tag = tag_of(kind)
    since = f" Since protocol {SINCE[kind]}." if kind in SINCE and "Since" not in doc else ""
    head = f"### {kind.__name__}{f' `{tag}`' if tag else ''}\n\n{_plain(doc)}{since}\n"
    fields = msgspec.structs.fields(kind)
    if not fields:
        return head
    said = field_docs(kind)
    hints = typing.get_type_hints(kind)
    rows = ["| field | type | default | |", "|---|---|---|---|"]
    for field in fields:
        default = "" if field.required else f"`{_default(field)}`"
        what = _plain(said.get(field.name, ""))
        rows.append(f"| `{field.name}` | {_type(hints[field.name])} | {default} | {what} |")
    shape = "" if kind.__struct_config__.array_like else "\nA map of its fields by name.\n"
    return f"{head}{shape}\n" + "\n".join(rows) + "\n"


def _plain(text: str) -> str:
    return text.replace("``", "`").replace("|", "\\|").replace("`X-", "X-")


def _default(field: msgspec.structs.FieldInfo) -> str:
    if field.default is not msgspec.NODEFAULT:
        return repr(field.default.value if isinstance(field.default, enum.Enum) else field.default)
    return repr(field.default_factory())


def _type(hint: object) -> str:
    """Return a type for people."""
    if hint is type(None):
        return "nil"
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        for union, name in ((Command, "command"), (Observation, "observation"), (Effect, "effect")):
            if set(args) == set(typing.get_args(union)):
                return name
        return " or ".join(map(_type, args))
    if origin in (list, frozenset) or (origin is tuple and args[-1:] == (Ellipsis,)):
        return f"list of {_type(args[0])}"
    if origin is tuple:
        return "(" + ", ".join(map(_type, args)) + ")"
    if origin is dict:
        return f"map of {_type(args[0])} to {_type(args[1])}"
    name = {int: "integer", str: "text", bool: "flag", bytes: "bytes"}.get(hint)
    if name is None and isinstance(hint, typing.ForwardRef):
        return hint.__forward_arg__
    return name or getattr(hint, "__name__", str(hint))


def reach(kind: type) -> Iterator[type]:
    """Yield the structs and enumerations that a struct is made of, at any depth."""
    yield from _reached(kind)


@functools.cache
def _reached(kind: type) -> tuple[type, ...]:
    found: dict[type, None] = {}
    todo: list[object] = [kind]
    while todo:
        hint = todo.pop()
        args = typing.get_args(hint)
        todo.extend(args)
        if isinstance(hint, type) and not args and hint not in found:
            if issubclass(hint, msgspec.Struct):
                found[hint] = None
                todo.extend(typing.get_type_hints(hint).values())
            elif issubclass(hint, enum.Enum):
                found[hint] = None
    return tuple(found)


@functools.cache
def _classes(module: str) -> dict[str, dict[str, str]]:
    """Return what stands below each field of each class of a module."""
    tree = ast.parse(Path(str(sys.modules[module].__file__)).read_text())
    found: dict[str, dict[str, str]] = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            said = found[node.name] = {}
            for one, after in zip(node.body, node.body[1:], strict=False):
                match one, after:
                    case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(
                        value=ast.Constant(value=str(text))
                    ):
                        said[name] = " ".join(text.split())
    return found


def field_docs(kind: type) -> dict[str, str]:
    """Return what is said of each field of a struct."""
    return _classes(kind.__module__).get(kind.__name__, {})
