"""A simulated user, who asks again before an earlier question is answered."""

from collections.abc import Mapping
from random import Random

from xce.model.command import Accepted
from xce.model.ids import Seq
from xce.model.job import Owner
from xce.model.refusal import Refusal, RefusalCode
from xce.net.message import Answer, Ask, Welcome
from xce.sim.client import Client
from xce.sim.faults import Faults
from xce.sim.forms import Forms, Named
from xce.sim.loop import Loop, Process
from xce.sim.network import Network, Wire
from xce.sim.oracles import Truth

SECOND_US = 1_000_000


class Asked(Process):
    """Stands for the controller, and hears what it is asked."""

    def __init__(self, loop: Loop) -> None:
        super().__init__(loop)
        self.ids: list[int] = []

    def hear(self, wire: Wire, message: object) -> None:
        """Take a question."""
        assert isinstance(message, Ask)
        self.ids.append(message.id)

    def lose(self, wire: Wire) -> None:
        """Learn nothing."""


class Told(Forms):
    """Keeps of each change since when it is looked for, and until when."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[tuple[Seq, Seq]] = []

    def check_told(
        self, named: Named, told: frozenset[str], wanted: Mapping[str, object], asked: Seq, seq: Seq
    ) -> None:
        """Note it."""
        self.spans.append((asked, seq))


def test_an_answer_is_judged_by_when_its_own_question_was_asked() -> None:
    """A full journal and a lost connection each have a user ask again, so two questions of one
    wish are open; the first one is obeyed before the second one is asked, and answered after."""
    loop, truth = Loop(), Truth()
    truth.forms = told = Told()
    network, controller = Network(loop, Random(1), Faults()), Asked(loop)
    network.listening, network.listener = controller, lambda *_: True
    alice = Owner("alice", 1001, 1001)
    client = Client(loop, network, Random(1), truth, owner=alice, wall_us=lambda: 0)

    def welcome() -> Wire:
        loop.run_until(loop.now_us + SECOND_US // 2)
        [wire] = network.wires
        wire.inject(0, Welcome(protocol=2, epoch=1, cluster="xce", version="sim", seq=0))
        return wire

    wire = welcome()
    client.modify((1, ()), run_limit_us=0)
    loop.run_until(loop.now_us + SECOND_US // 10)
    wire.inject(0, Answer(1, 0, (Refusal(RefusalCode.JOURNAL_FULL, "full"),)))
    truth.state.seq = 62
    wire.cut()
    wire = welcome()
    truth.state.seq = 64
    loop.run_until(loop.now_us + SECOND_US)
    assert controller.ids == [1, 2, 3]
    wire.inject(0, Answer(2, 64, (Accepted(1),)))
    wire.inject(0, Answer(3, 64, (Accepted(1),)))
    assert told.spans == [(62, 64), (64, 64)]
