"""From launches to spawn orders: what must be here first, and what the shepherd needs to know.

A launch whose script, environment, input or account is not at hand is held until it is; orders
about a held attempt wait behind it, but an order to end it ends it at once: it has not begun.
"""

import errno
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final, TypeVar

import msgspec

from xce.model.effect import Launch
from xce.model.ids import Index, Micros
from xce.model.job import EndCause
from xce.step.plan import encode_plan
from xce.worker import streams
from xce.worker.accounts import Accounts, NoAccountError
from xce.worker.action import Ended, Key, SetLimit, Signal, Spawn, Suspend
from xce.worker.bindings import affinity_hostfile, binding_order
from xce.worker.environ import (
    Account,
    HostFiles,
    base_environment,
    element_environment,
    launch_environment,
)
from xce.worker.launch_command import command_of, launch_programs
from xce.worker.launch_desk import LaunchDoor
from xce.worker.mps import mps_code, quit_command, share_order
from xce.worker.order import Order, ShareOrder, SpawnItem, SpawnOrder, SpawnShared
from xce.worker.process_limits import limit_code
from xce.worker.ranks import hostfile_text, is_parallel, rankfile_text
from xce.worker.step_plan import plan_of
from xce.worker.store import Store, digest_of, is_digest
from xce.worker.transfers import transfer_steps

_ENVIRONMENTS_MAX: Final = 256
"""Submitted environments that are kept in memory."""
_Made = TypeVar("_Made", str, list[str], ShareOrder)
_NOTES: Final = msgspec.json.Encoder()


class _Held:
    """Elements of a launch that wait."""

    def __init__(self, launch: Launch, elements: list[tuple[Index, int]]) -> None:
        self.launch = launch
        self.elements = elements
        self.later: list[Signal | Suspend | SetLimit] = []


class Prepared(msgspec.Struct):
    """What came of launches."""

    orders: list[Order]
    ends: list[Ended]
    """Elements that cannot be started."""
    bases: dict[str, dict[str, str]]
    """Environments that the orders name."""


class Launcher:
    """Prepares launches of one host."""

    def __init__(
        self, host: str, store: Store, accounts: Accounts, door: LaunchDoor | None = None
    ) -> None:
        self._door = door
        self._host = host
        self._store = store
        self._accounts = accounts
        self._environments: OrderedDict[str, bytes] = OrderedDict()
        self._bases: OrderedDict[str, tuple[Account, dict[str, str]]] = OrderedDict()
        self._held: list[_Held] = []
        self._missing: set[str] = set()
        """Blobs that the controller was asked for and has not."""
        self._damaged: set[str] = set()
        """Those of them that it has, but not as they were."""

    def prepare(self, spawn: Spawn, prepared: Prepared, now_us: Micros) -> None:
        """Add what a launch comes to; hold it if something is not here."""
        held = _Held(spawn.launch, spawn.elements)
        spec = spawn.launch.spec
        named = [name for name in (spec.script, spec.env, spec.files.input_blob) if name]
        if not all(map(is_digest, named)):
            detail = "the job's script, input or environment has no proper name"
            self._fail(held, detail, prepared, now_us, host_fault=False)
        elif not self._try(held, prepared, now_us):
            self._held.append(held)

    def hold_back(
        self, order: Signal | Suspend | SetLimit, prepared: Prepared, now_us: Micros
    ) -> bool:
        """Keep an order about a held attempt; False: it is not held."""
        for held in self._held:
            if held.launch.job != order.job or (order.index, order.attempt) not in held.elements:
                continue
            if isinstance(order, Signal) and order.step:
                held.elements.remove((order.index, order.attempt))
                key = (order.job, order.index, order.attempt)
                prepared.ends.append(Ended(*key, 0, now_us, cause=order.cause))
            else:
                held.later.append(order)
            return True
        return False

    def wanted_blobs(self) -> tuple[str, ...]:
        """Return the blobs that held launches wait for."""
        wanted = dict.fromkeys(
            digest for held in self._held for digest in self._lacking(held.launch)
        )
        return tuple(digest for digest in wanted if digest not in self._missing)

    def wanted_accounts(self) -> list[Launch]:
        """Return a launch for each owner that must be looked up."""
        wanted = {
            held.launch.owner.uid: held.launch
            for held in self._held
            if self._accounts.known(held.launch.owner) is None
        }
        return list(wanted.values())

    def take_blobs(
        self, asked: Iterable[str], blobs: Iterable[tuple[str, bytes]], damaged: Iterable[str],
        prepared: Prepared, now_us: Micros,
    ) -> None:  # fmt: skip
        """Keep blobs that came, and go on with what waited for them."""
        # What is not what its name says is not used.
        came = {digest: content for digest, content in blobs if digest_of(content) == digest}
        self._damaged = set(damaged)
        self._missing = {digest for digest in asked if digest not in came}
        for held in self._held:
            spec = held.launch.spec
            try:
                if spec.script in came:
                    self._store.store_script(spec.script, came[spec.script])
                if spec.files.input_blob in came:
                    self._store.store_input(spec.files.input_blob, came[spec.files.input_blob])
            except OSError as error:
                self._fail(held, f"cannot store the job's files: {error}", prepared, now_us)
            if spec.env in came:
                self._environments[spec.env] = came[spec.env]
                self._environments.move_to_end(spec.env)
        while len(self._environments) > _ENVIRONMENTS_MAX:
            self._environments.popitem(last=False)
        self.go_on(prepared, now_us)

    def go_on(self, prepared: Prepared, now_us: Micros) -> None:
        """Try again what is held."""
        held, self._held = self._held, []
        for one in held:
            if self._missing.intersection(self._lacking(one.launch)):
                detail = self._loss(one.launch)
                self._fail(one, detail, prepared, now_us, host_fault=False)
            elif not self._try(one, prepared, now_us):
                self._held.append(one)
        self._missing = set()
        self._damaged = set()

    def fail_account(self, uid: int, reason: str, prepared: Prepared, now_us: Micros) -> None:
        """Let held launches of a user without an account here fail: the host is to blame."""
        for held in [one for one in self._held if one.launch.owner.uid == uid]:
            self._fail(held, reason, prepared, now_us)
        self._held = [one for one in self._held if one.elements]

    def clear(self) -> None:
        """Forget what is held: it will be wanted again."""
        self._held.clear()
        self._missing = set()
        self._damaged = set()

    def _loss(self, launch: Launch) -> str:
        """Return what of a launch the cluster cannot give, for people."""
        spec = launch.spec
        lost = self._missing.intersection(self._lacking(launch))
        what = [
            text
            for digest, text in (
                (spec.script, "script"),
                (spec.env, "environment"),
                (spec.files.input_blob, "input"),
            )
            if digest in lost
        ]
        if lost & self._damaged:
            return f"the stored {' and '.join(what)} of the job is damaged; submit it again"
        return f"the job's {' and '.join(what)} is not stored any more; submit it again"

    def _lacking(self, launch: Launch) -> list[str]:
        spec = launch.spec
        lacking = []
        if spec.script and self._store.way_of(spec.script) is None:
            lacking.append(spec.script)
        if spec.env and spec.env not in self._environments:
            lacking.append(spec.env)
        if spec.files.input_blob and not self._store.has_input(spec.files.input_blob):
            lacking.append(spec.files.input_blob)
        return lacking

    def _fail(
        self, held: _Held, detail: str, prepared: Prepared, now_us: Micros,
        *, host_fault: bool = True,
    ) -> None:  # fmt: skip
        for index, attempt in held.elements:
            key: Key = (held.launch.job, index, attempt)
            prepared.ends.append(
                Ended(
                    *key, 0, now_us, exit_code=1, cause=EndCause.START_FAILED,
                    host_fault=host_fault, detail=detail,
                )
            )  # fmt: skip
        held.elements.clear()

    def _try(self, held: _Held, prepared: Prepared, now_us: Micros) -> bool:
        """Add the orders of a launch; False: something is not here yet."""
        launch = held.launch
        if not held.elements:
            return True
        account = self._accounts.known(launch.owner)
        if account is None or self._lacking(launch):
            return False
        try:
            self._order(held, account, prepared)
        except OSError as error:
            # No room for the host list, or the script went between look and use.
            reason = error.strerror or errno.errorcode.get(error.errno or 0, "error")
            self._fail(held, f"cannot prepare the job: {reason}", prepared, now_us)
        except NoAccountError as error:
            self._fail(held, str(error), prepared, now_us)
        return True

    def _order(self, held: _Held, account: Account, prepared: Prepared) -> None:
        launch = held.launch
        spec = launch.spec
        base = self._base(spec.env, account, prepared)
        files = self._host_files(launch)
        script = self._store.script_path(spec.script)
        note = _NOTES.encode(launch).decode()
        way = self._store.way_of(spec.script)
        assert way is not None
        command, way = command_of(spec, script, way)
        for elements in _by_directory(launch, held.elements):
            cwd, make_cwd = streams.working_directory(launch, elements[0][0], self._host)
            hooks = (
                *transfer_steps(launch, cwd, makes_cwd=make_cwd),
                *((hook.kind, hook.command, hook.origin) for hook in launch.hooks),
            )
            shared = SpawnShared(
                note=note,
                base=base,
                env=launch_environment(
                    launch, cwd=cwd, script=script, files=files, submit_cwd=spec.cwd
                ),
                uid=account.uid,
                gid=account.gid,
                groups=account.groups,
                cwd=cwd,
                make_cwd=make_cwd,
                umask=spec.umask,
                script=command,
                way=way,
                limit_kib=spec.mem_limit_kib,
                login=spec.login_shell,
                hooks=hooks,
                hook_limit_us=launch.hook_limit_us,
                requeue_codes=launch.requeue_codes,
                outer=base_environment(b"", account, self._host) if hooks else {},
                bindings=_bindings(launch, elements),
                before=_named(elements, partial(mps_code, launch, host=self._host)),
                last=_named(elements, partial(quit_command, launch, host=self._host)),
                shares=_named(
                    elements, partial(share_order, launch, host=self._host, home=account.home)
                ),
                says=spec.runs_by_roles,
                limit_code=limit_code(spec.limits),
                is_counted=spec.limits.is_counted,
                output_dir=streams.output_directory(launch, elements[0][0], self._host),
                terminal=spec.terminal.mode if spec.terminal is not None else "",
                window=(
                    (spec.terminal.rows, spec.terminal.columns)
                    if spec.terminal is not None
                    else (0, 0)
                ),
            )
            items = [self._item(launch, cwd, index, attempt) for index, attempt in elements]
            prepared.orders.append(SpawnOrder(shared, items))
        prepared.orders += held.later

    def _host_files(self, launch: Launch) -> HostFiles:
        grouped = self._store.hostfile(hostfile_text(launch, grouped=True))
        if not is_parallel(launch):
            return HostFiles(grouped, grouped)
        ranked = self._store.hostfile(hostfile_text(launch, grouped=False))
        return HostFiles(grouped, ranked, self._store.hostfile(rankfile_text(launch)))

    def _item(self, launch: Launch, cwd: str, index: Index, attempt: int) -> SpawnItem:
        spooled = launch.spec.files.input_blob
        found = streams.streams_of(
            launch.spec.files, cwd=cwd, job=launch.job, index=index,
            input_path=self._store.input_path(spooled) if spooled else "",
            output_dir=streams.output_directory(launch, index, self._host),
        )  # fmt: skip
        env = element_environment(launch, index, attempt)
        if launch.spec.runs_by_roles:
            env["XCE_STEP_PLAN"] = self._plan_file(launch, index)
            env |= launch_programs()
        if len(launch.hosts) > 1:
            env["XCE_LAUNCH_HOST"] = self._host
        # A step that copies a file may have to ask the host of the submission.
        if self._door is not None and (len(launch.hosts) > 1 or launch.spec.transfers):
            env |= self._door.environment((launch.job, index, attempt))
        if launch.bindings:
            text = affinity_hostfile(launch, index)
            env["LSB_AFFINITY_HOSTFILE"] = self._store.hostfile(text)
        return (launch.job, index, attempt, env, found.input, found.output, found.error)

    def _plan_file(self, launch: Launch, index: Index) -> str:
        script = self._store.load_script(launch.spec.script)
        return self._store.hostfile(encode_plan(plan_of(launch, index, script)))

    def _base(self, digest: str, account: Account, prepared: Prepared) -> str:
        """Return the name of a base environment, which is sent along."""
        name = f"{digest}.{account.uid}"
        if name in prepared.bases:
            return name
        known = self._bases.get(name)
        if known is None or known[0] != account:
            blob = self._environments.get(digest, b"")
            known = (account, base_environment(blob, account, self._host))
            self._bases[name] = known
            if len(self._bases) > _ENVIRONMENTS_MAX:
                self._bases.popitem(last=False)
        prepared.bases[name] = known[1]
        return name


def _bindings(
    launch: Launch, elements: list[tuple[Index, int]]
) -> dict[str, tuple[list[int], list[int], bool]]:
    """Return what elements are bound to on this host."""
    orders = ((index, binding_order(launch, index)) for index, _ in elements)
    return {str(index): order for index, order in orders if order is not None}


def _named(
    elements: list[tuple[Index, int]], make: Callable[[Index], _Made | None]
) -> dict[str, _Made]:
    """Return by index what is made of elements, where that is anything."""
    made = ((index, make(index)) for index, _ in elements)
    return {str(index): one for index, one in made if one}


def _by_directory(
    launch: Launch, elements: list[tuple[Index, int]]
) -> list[list[tuple[Index, int]]]:
    """Return the elements in groups that share a working directory."""
    if streams.directory_has_index(launch):
        return [[element] for element in elements]
    return [elements]
