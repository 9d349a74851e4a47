"""Whatever comes over a connection is a message, or ends it; the controller lives."""

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from xce.control.controller import Input
from xce.model.certificate import CERTIFICATE_BYTES_MAX, parse_certificate
from xce.model.command import ProposePlan, SubmitJobs
from xce.model.errors import TextError
from xce.model.observation import (
    AttemptEnded,
    AttemptSeen,
    AttemptStarted,
    HostJoined,
    Reported,
    SuspensionSeen,
)
from xce.model.plan import BulkStart, Plan
from xce.net.allowlist import Gate
from xce.net.frame import FrameReader, WireError, encode_frame
from xce.net.message import Hello, Message, Observe, Ping
from xce.sim.certificates import make_certificate
from xce.state.check import check_state
from xce.state.snapshot import digest, dump, load
from xce.testing.builders import ALICE, cluster, replayed, submission

FRAMES = [
    encode_frame(Hello(2, "worker", "h1", "0.1.0", 1)),
    encode_frame(Ping(7)),
    encode_frame(Observe(HostJoined("h1", "boot", 4, 1024, (AttemptSeen(1, 0, 1, True),)))),
    encode_frame(Observe(Reported("h1", 1, (AttemptStarted(1, 0, 1, 7, 5),)))),
]
LARGE = st.one_of(
    st.integers(-3, 12),
    st.sampled_from([2**31, 2**32, 2**40, 2**53, 2**62, 2**63 - 1, -(2**63), 2**64 - 1]),
)
TEXTS = st.one_of(st.text(max_size=6), st.sampled_from(["x" * 600, "\0", "\x1b[2J", "\ud7ff"]))
VALUES = st.one_of(LARGE, TEXTS, st.booleans())


def feed(content: bytes) -> list[Message]:
    reader = FrameReader(frame_max=1 << 20)
    try:
        return reader.feed(content)
    except WireError:
        return []


@given(st.binary(max_size=200))
def test_rubbish_is_no_message(content):
    assert feed(content) == [] or len(content) > 4


@given(frame=st.sampled_from(FRAMES), at=st.integers(4, 100), byte=st.integers(0, 255))
def test_a_frame_with_one_wrong_byte_is_a_message_or_an_error(frame, at, byte):
    broken = bytearray(frame)
    broken[min(at, len(frame) - 1)] = byte
    for message in feed(bytes(broken)):
        Gate("worker", "h1").refuse(message)


@pytest.mark.parametrize("depth", [100, 1_000, 100_000])
def test_a_deep_value_is_refused_and_costs_nothing(depth):
    payload = b"\x91" * depth + b"\x00"
    with pytest.raises(WireError):
        FrameReader().feed(len(payload).to_bytes(4, "big") + payload)
    head = msgspec.msgpack.encode(["observe"])[:1].replace(b"\x91", b"\x92")
    payload = head + msgspec.msgpack.encode("observe") + b"\x91" * depth + b"\x00"
    with pytest.raises(WireError):
        FrameReader().feed(len(payload).to_bytes(4, "big") + payload)


@pytest.mark.parametrize("kind", [b"\xdd", b"\xdf", b"\xc6"])
def test_a_length_that_is_a_lie_allocates_nothing(kind):
    head = kind + b"\xff" * 4
    with pytest.raises(WireError):
        FrameReader().feed((len(head)).to_bytes(4, "big") + head)


FLAGS = st.booleans()
PLACES = (LARGE, LARGE, LARGE)


def some(*parts):
    """Return tuples of up to three."""
    return st.lists(*parts, max_size=3).map(tuple)


joins = st.builds(
    HostJoined,
    host=st.sampled_from(["h1", "h2", "h9"]),
    boot_id=TEXTS,
    cpus=LARGE,
    mem_mib=LARGE,
    attempts=some(st.builds(AttemptSeen, *PLACES, FLAGS)),
    unreported=some(st.tuples(*PLACES)),
    isolation=TEXTS,
    version=TEXTS,
    attributes=st.dictionaries(TEXTS, VALUES, max_size=3),
)
ends = st.builds(
    AttemptEnded,
    *PLACES,
    exit_code=LARGE,
    signal=LARGE,
    host_fault=FLAGS,
    detail=TEXTS,
    started_age_us=LARGE,
    ended_age_us=LARGE,
    user_us=LARGE,
    system_us=LARGE,
    max_mem_kib=LARGE,
    max_processes=LARGE,
    max_threads=LARGE,
)
reports = st.builds(
    Reported,
    host=st.just("h1"),
    number=LARGE,
    started=some(st.builds(AttemptStarted, *PLACES, LARGE, LARGE)),
    ended=some(ends),
    suspended=some(st.builds(SuspensionSeen, *PLACES, FLAGS)),
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(st.lists(st.one_of(joins, reports), min_size=1, max_size=6))
def test_a_host_that_was_taken_over_does_not_bring_the_controller_down(seen):
    """What its gate lets through is decided, and leaves a state that is whole."""
    controller = cluster(hosts={"h1": 4, "h2": 4})
    controller.tell(SubmitJobs(ALICE, (submission(), submission())))
    start = BulkStart(1, [1, 2], [0, 0], [0, 0], [0, 1], [1, 1])
    controller.tell(
        ProposePlan(Plan(controller.state.seq, controller.state.config_version, 0, (start,)))
    )
    gate = Gate("worker", "h1")
    for observation in seen:
        try:
            (message,) = FrameReader().feed(encode_frame(Observe(observation)))
        except (WireError, OverflowError, ValueError, UnicodeError):
            continue
        if gate.refuse(message) == "":
            controller.step([Input(message.observation, "host h1")], controller.now_us + 1_000)
    state = controller.state
    check_state(state)
    assert digest(load(dump(state))) == digest(state)
    assert digest(replayed(controller.entries)) == digest(state)
    assert state.attempt(2, 0) is not None, "it ended a job of another host"


@given(st.binary(max_size=1200))
def test_rubbish_is_no_certificate(content):
    with pytest.raises(TextError):
        parse_certificate(content)


@given(key=st.binary(min_size=32, max_size=32), at=st.integers(0, 300), byte=st.integers(0, 255))
def test_a_certificate_with_one_wrong_byte_is_read_strictly(key, at, byte):
    good = make_certificate(key)
    assert parse_certificate(good).public_key == key
    broken = bytearray(good)
    broken[min(at, len(good) - 1)] = byte
    try:
        found = parse_certificate(bytes(broken))
    except TextError:
        return
    assert len(found.public_key) == 32
    assert len(broken) <= CERTIFICATE_BYTES_MAX


@given(key=st.binary(min_size=32, max_size=32), cut=st.integers(1, 200))
def test_a_cut_certificate_is_none(key, cut):
    with pytest.raises(TextError):
        parse_certificate(make_certificate(key)[:-cut])
