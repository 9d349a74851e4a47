"""Hosts whose controllers are replaced by those of restored journals."""

from collections.abc import Iterable

import msgspec

from xce.model.command import Accepted, AdoptStrangers
from xce.model.device import Device
from xce.model.effect import Effect, Launch
from xce.model.ids import SECOND_US, Seq
from xce.model.observation import HostJoined, ReignBegan, Reported
from xce.model.refusal import Refusal
from xce.testing.recorded import RecordedController, replayed
from xce.worker.action import (
    Action,
    Ended,
    Key,
    Listing,
    News,
    Present,
    Spawn,
    Started,
    Suspend,
    Suspended,
)
from xce.worker.core import HostState

GPUS = tuple(Device(number, f"GPU-{number}", "NVIDIA H100", 81_920) for number in range(4))
_NOTES = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Launch)


class Site:
    """Real host state machines, whose controllers may be replaced by those of restored journals."""

    def __init__(self, controller: RecordedController) -> None:
        self.now_us = 100 * SECOND_US
        self.machines = {name: HostState() for name in controller.state.hosts.names}
        self.controller = controller
        self._seen = 0
        self._epoch = 1
        self.tell()

    def tell(self) -> None:
        """Let hosts and controller hear each other until there is no more to say."""
        while self.tell_hosts() + self._tell_controller():
            self.now_us += 1_000

    def tell_hosts(self) -> int:
        effects: list[tuple[str, Effect]] = []
        if self._seen < self._steps:
            effects = self.controller.effects(self._seen)
        self._seen = self._steps
        for name, effect in effects:
            machine = self.machines[name]
            self._do(machine, machine.take_effects(self._epoch, [effect], self.now_us))
        return len(effects)

    @property
    def _steps(self) -> int:
        return len(self.controller.steps)

    def _do(self, machine: HostState, actions: Iterable[Action]) -> None:
        for action in actions:
            news: list[News] = []
            if isinstance(action, Spawn):
                news = [
                    Started(action.launch.job, index, attempt, 7_000 + index, self.now_us)
                    for index, attempt in action.elements
                ]
            elif isinstance(action, Suspend):
                key = action.job, action.index, action.attempt
                news = [Suspended(*key, action.suspended)]
            machine.take_news(news, self.now_us)

    def _tell_controller(self) -> int:
        told = 0
        for name, machine in self.machines.items():
            while machine.has_reports:
                batch = machine.reports(self.now_us)
                self.controller.tell(Reported(name, *batch), by=f"host {name}")
                machine.acknowledged(batch.number, self.now_us)
                told += 1
        return told

    def restore(self, seq: Seq, *, hosts: tuple[str, ...] = ()) -> RecordedController:
        """Have a controller on the journal up to an entry; the workers are started anew."""
        whole = self.controller
        for name, machine in self.machines.items():
            self.machines[name] = self.reborn(machine)
        self.controller = RecordedController(
            replayed(whole.entries[:seq]), now_us=whole.now_us + SECOND_US
        )
        self.controller.entries = whole.entries[:seq]
        self.controller.tell(ReignBegan(is_restored=True), by="controller")
        self.follow(self.controller, *(hosts or self.machines))
        return self.controller

    def follow(self, controller: RecordedController, *hosts: str) -> None:
        """Have another controller, which hosts join."""
        self.controller = controller
        self._seen, self._epoch = 0, self._epoch + 1
        for name in hosts or self.machines:
            self.join(name)
        self.tell()

    def reborn(self, machine: HostState) -> HostState:
        """Return the machine of a worker that finds on its host what another one left."""
        listed = []
        for seen in machine.joined()[0]:
            live = machine.live_of((seen.job, seen.index, seen.attempt))
            note = _NOTES.encode(live.launch).decode()
            present = Present(
                *live.key, note, live.pid, live.started_us, live.suspended_us, live.stopped_us,
                live.number, 0, 0, 0, False, is_part=live.is_part,
            )  # fmt: skip
            listed.append(Listing(present, _DECODER.decode(note), None))
        again = HostState()
        again.take_list(listed, self.now_us)
        return again

    def join(self, name: str) -> None:
        """Let the worker of a host connect."""
        table, machine = self.controller.state.hosts, self.machines[name]
        number = table.number[name]
        attempts, unreported = machine.joined()
        seen = HostJoined(
            name, "boot-1", 4, 8192, attempts, unreported,
            devices=table.devices.reported[number] or GPUS,
        )  # fmt: skip
        machine.disconnected()
        self.controller.tell(seen, by=f"host {name}")

    def adopt(self, *hosts: str, by: str = "root") -> list[Accepted | Refusal]:
        """Have what is strange on hosts taken up."""
        command = AdoptStrangers(by, hosts, is_admin=by == "root")
        results = self.controller.tell(command, by=by)
        self.tell()
        return list(results)

    def end(self, host: str, key: Key, exit_code: int = 0) -> None:
        """Let an attempt end by itself."""
        machine = self.machines[host]
        started_us = machine.live_of(key).started_us
        machine.take_news(
            [Ended(*key, started_us, self.now_us, exit_code=exit_code)], self.now_us
        )  # fmt: skip
        self.tell()

    def refusals(self) -> list[str]:
        """Return why attempts were not taken up."""
        found = self.controller.state.hosts.unadopted
        return [why for reasons in found.values() for why in reasons.values()]
