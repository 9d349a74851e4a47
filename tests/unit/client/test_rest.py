import time

import pytest
from fake_api import FakeApi

from xce.client import rest
from xce.client.rest import (
    Api,
    ProblemError,
    UnreachableError,
    make_key,
    quote,
    render_query,
)
from xce.client.seen import SeenSeq
from xce.client.socket_path import socket_path


def ask(api, *words, **options):
    with api:
        return api.call(*words, **options)


def read(api, path):
    with api:
        return b"".join(api.stream(path))


def test_an_answer_with_a_length_is_read_whole():
    with FakeApi({"GET /cluster": {"cluster": "c", "text": "x" * 300_000}}) as fake:
        assert ask(Api(fake.path), "GET", "/cluster")["text"] == "x" * 300_000


def test_one_connection_serves_all_requests():
    with FakeApi({"GET /cluster": {}}) as fake:
        api = Api(fake.path)
        for _ in range(5):
            api.call("GET", "/cluster")
        api.close()
        assert fake.connections == 1


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_a_chunked_answer_is_put_together_wherever_it_is_cut(cut):
    text = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        b'5;ext=1\r\n{"a":\r\n1\r\n1\r\n1\r\n}\r\n0\r\nTrailer: x\r\n\r\n'
    )
    parts = [text[place : place + cut] for place in range(0, len(text), cut)]

    class Slow(FakeApi):
        def _answer(self, connection, request):
            for part in parts:
                connection.sendall(part)
                time.sleep(0.0005)
            return True

    with Slow() as fake:
        api = Api(fake.path)
        assert api.call("GET", "/x") == {"a": 1}
        assert api.call("GET", "/x") == {"a": 1}
        api.close()


def test_a_body_without_length_ends_with_the_connection():
    with FakeApi({"GET /x": b"HTTP/1.1 200 OK\r\n\r\n[1,2]"}) as fake:
        api = Api(fake.path)
        assert api.call("GET", "/x") == [1, 2]
        assert ask(api, "GET", "/x") == [1, 2]


def test_interim_answers_are_skipped():
    text = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    with FakeApi({"GET /x": text}) as fake:
        assert ask(Api(fake.path), "GET", "/x") == {}


def test_an_answer_without_a_body_is_none():
    with FakeApi({"GET /x": (204, {}, None)}) as fake:
        assert ask(Api(fake.path), "GET", "/x") is None


def test_a_refusal_carries_code_and_texts():
    document = {"code": "unknown-queue", "lsf": "No such queue", "detail": "there is no queue q"}
    with (
        FakeApi({"POST /jobs": (404, {}, document)}) as fake,
        pytest.raises(ProblemError) as caught,
    ):
        ask(Api(fake.path), "POST", "/jobs", (), {})
    assert (caught.value.status, caught.value.code) == (404, "unknown-queue")
    assert (caught.value.lsf, caught.value.text) == ("No such queue", "there is no queue q")


def test_an_answer_that_is_no_json_is_a_problem():
    with FakeApi({"GET /x": (500, {}, b"<html>")}) as fake, pytest.raises(ProblemError):
        ask(Api(fake.path), "GET", "/x")


def test_a_submit_whose_connection_is_lost_is_repeated_with_the_same_key():
    answers = iter([OSError, {"results": []}])
    with FakeApi({"POST /jobs": lambda _: next(answers)}) as fake:
        ask(Api(fake.path, wait_s=10), "POST", "/jobs", (), {"command": "x"}, key="k1")
        first, second = fake.requests
        assert first.headers["idempotency-key"] == second.headers["idempotency-key"] == "k1"
        assert first.body == second.body


def test_a_write_that_may_not_be_repeated_is_sent_once():
    with FakeApi({"POST /jobs/actions": OSError}) as fake:
        with pytest.raises(UnreachableError, match="not known"):
            ask(Api(fake.path, wait_s=10), "POST", "/jobs/actions", (), {}, repeatable=False)
        assert len(fake.requests) == 1


def test_a_busy_cluster_is_asked_again():
    answers = iter([(503, {}, {"code": "starting"}), (503, {}, b"?"), {"ok": 1}])
    with FakeApi({"GET /x": lambda _: next(answers)}) as fake:
        assert ask(Api(fake.path, wait_s=10), "GET", "/x") == {"ok": 1}


def test_a_write_that_may_not_be_repeated_is_not_sent_again_to_a_busy_cluster():
    away = (503, {}, {"code": "controller-away", "detail": "it starts."})
    with FakeApi({"POST /x": away, "GET /x": away}) as fake:
        with pytest.raises(ProblemError, match="it starts"):
            ask(Api(fake.path, wait_s=30), "POST", "/x", (), {}, repeatable=False)
        assert len(fake.requests) == 1
        with pytest.raises(UnreachableError, match=r": it starts\. 'xce up'"):
            ask(Api(fake.path, wait_s=0), "GET", "/x")


def test_who_is_told_to_come_later_comes_later_also_with_what_may_not_be_repeated(monkeypatch):
    slept = []
    monkeypatch.setattr(rest.time, "sleep", slept.append)
    later = (429, {"Retry-After": "3"}, {"code": "too-many-requests", "detail": "slowly"})
    for method, repeatable in (("GET", True), ("POST", False)):
        answers = iter([later, {"ok": 1}])
        with FakeApi({f"{method} /x": lambda _, answers=answers: next(answers)}) as fake:
            document = None if method == "GET" else {}
            found = ask(Api(fake.path, wait_s=30), method, "/x", (), document,
                        repeatable=repeatable)  # fmt: skip
            assert found == {"ok": 1}
    assert slept == [3.0, 3.0]


def test_who_gives_up_on_a_cluster_with_too_much_to_do_hears_what_it_said():
    full = (429, {"Retry-After": "1"}, {"code": "overloaded", "detail": "the memory is used up"})
    told = pytest.raises(UnreachableError, match=r"^The memory is used up$")
    with FakeApi({"POST /jobs": full}) as fake, told:
        ask(Api(fake.path, wait_s=0), "POST", "/jobs", (), {})


def test_a_stream_that_is_told_to_come_later_comes_later(monkeypatch):
    slept = []
    monkeypatch.setattr(rest.time, "sleep", slept.append)
    answers = iter([(429, {"Retry-After": "2"}, {"code": "too-many-requests"}), (200, {}, b"ab")])
    with (
        FakeApi({"GET /x": lambda _: next(answers)}) as fake,
        Api(fake.path, wait_s=30) as api,
    ):
        assert b"".join(api.stream("/x")) == b"ab"
    assert slept == [2.0]


def test_a_full_journal_is_a_refusal_and_not_waited_for():
    refusal = (503, {}, {"code": "journal-full", "detail": "full"})
    with FakeApi({"POST /jobs": refusal}) as fake:
        with pytest.raises(ProblemError, match="full"):
            ask(Api(fake.path, wait_s=30), "POST", "/jobs", (), {})
        assert len(fake.requests) == 1


def test_a_cluster_that_comes_up_late_is_found_and_the_wait_is_told():
    told = []
    fake = FakeApi({"GET /x": {"ok": 1}})

    def hear(text):
        told.append(text)
        fake.start()

    try:
        assert ask(Api(fake.path, wait_s=20, progress=hear), "GET", "/x") == {"ok": 1}
    finally:
        fake.__exit__()
    assert told == ["Cannot connect to XCE. Please wait ..."]


def test_an_unreachable_cluster_is_an_error_that_names_the_socket(tmp_path):
    with pytest.raises(UnreachableError, match=r"run/api\.sock"):
        ask(Api(f"{tmp_path}/run/api.sock", wait_s=0), "GET", "/x")


def test_a_socket_whose_path_is_too_long_is_reached_through_its_link(tmp_path):
    with FakeApi({"GET /x": {"ok": 1}}) as fake:
        deep = tmp_path / ("d" * 120)
        deep.mkdir()
        (deep / "run").symlink_to(fake.directory)
        assert ask(Api(f"{deep}/run/api.sock"), "GET", "/x") == {"ok": 1}
    with pytest.raises(UnreachableError, match="too long"):
        ask(Api(f"{deep}/none/api.sock", wait_s=0), "GET", "/x")


def test_reads_ask_for_the_seq_of_the_last_write_and_writes_keep_it(tmp_path):
    with FakeApi({"GET /x": {}, "POST /jobs": {}}) as fake:
        seen = SeenSeq(f"{tmp_path}/seen", fake.path)
        fake.seq = 41
        ask(Api(fake.path, seen=seen), "POST", "/jobs", (), {})
        fake.seq = 60
        ask(Api(fake.path, seen=seen), "GET", "/x")
        assert [r.headers.get("xce-min-seq") for r in fake.requests] == [None, "41"]
        assert seen.load() == 41


def test_a_cluster_made_anew_lowers_the_kept_seq(tmp_path):
    with FakeApi({"GET /x": {}}) as fake:
        seen = SeenSeq(f"{tmp_path}/seen", fake.path)
        seen.store(1000)
        fake.seq = 3
        ask(Api(fake.path, seen=seen), "GET", "/x")
        assert seen.load() == 3


def test_a_seq_that_cannot_be_had_is_not_asked_for_again(tmp_path):
    def answer(request):
        return (503, {}, {}) if "xce-min-seq" in request.headers else {"ok": 1}

    with FakeApi({"GET /x": answer}) as fake:
        seen = SeenSeq(f"{tmp_path}/seen", fake.path)
        seen.store(1000)
        assert ask(Api(fake.path, wait_s=10, seen=seen), "GET", "/x") == {"ok": 1}
        assert seen.load() == 7


def test_a_stream_is_passed_on_part_by_part():
    text = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    with FakeApi({"GET /o": text}) as fake:
        assert read(Api(fake.path), "/o") == b"abcde"
    broken = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n"
    with FakeApi({"GET /o": broken}) as fake, pytest.raises(UnreachableError):
        read(Api(fake.path), "/o")
    with FakeApi({"GET /o": (404, {}, {"detail": "gone"})}) as fake, pytest.raises(ProblemError):
        read(Api(fake.path), "/o")


def test_something_else_on_the_socket_is_told_apart():
    with FakeApi({"GET /x": b"SSH-2.0-x\r\n\r\n"}) as fake, pytest.raises(UnreachableError):
        ask(Api(fake.path, wait_s=0), "GET", "/x")


def test_queries_are_quoted():
    assert quote("a b&c=é[1]*/,") == "a%20b%26c%3D%C3%A9%5B1%5D%2A/,"
    assert render_query([]) == ""
    assert render_query([("ids", "1,2"), ("name", "x y")]) == "?ids=1,2&name=x%20y"


def test_the_socket_is_found_by_the_environment():
    assert socket_path({"XCE_API_SOCKET": "/s", "XCE_DIR": "/d"}) == "/s"
    assert socket_path({"XCE_DIR": "/d/"}) == "/d/run/api.sock"


def test_keys_begin_with_the_time_and_are_never_alike():
    keys = {make_key() for _ in range(100)}
    assert len(keys) == 100
    head, _, tail = keys.pop().partition("-")
    assert abs(int(head) - time.time()) < 5
    assert len(tail) == 16
    assert set(tail) <= set("0123456789abcdef")


def test_a_state_directory_that_is_a_file_is_an_error_at_once(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UnreachableError, match="XCE_DIR must name a directory"):
        ask(Api(f"{tmp_path}/file/run/api.sock", wait_s=60), "GET", "/cluster")


def test_an_undecided_write_tells_why_while_it_waits_and_when_it_gives_up():
    problem = {
        "detail": "the journal cannot be written: no space; undecided.",
        "code": "undecided",
        "status": 503,
    }
    told = []
    with FakeApi({"POST /jobs": (503, {}, problem)}) as fake:
        api = Api(fake.path, wait_s=1.5, progress=told.append)
        with pytest.raises(UnreachableError, match="^The journal cannot be written: no space"):
            ask(api, "POST", "/jobs", (), {}, key="1-a")
    assert told == ["The journal cannot be written: no space; undecided. Please wait ..."]


def test_a_history_that_is_away_is_waited_for_and_not_told_as_a_cluster_that_is():
    problem = {"detail": "the history cannot be read now: its database is away", "status": 503}
    told = []
    with FakeApi({"GET /history/jobs": (503, {}, problem)}) as fake:
        api = Api(fake.path, wait_s=2.5, progress=told.append)
        with pytest.raises(UnreachableError, match=r"^The history cannot .* is away$"):
            ask(api, "GET", "/history/jobs")
    assert told == ["The history cannot be read now: its database is away. Please wait ..."]


def test_the_cluster_is_found_by_lsf_envdir_alone(tmp_path):
    (tmp_path / "run").mkdir()
    view = f"{tmp_path}/lsf/conf"
    assert socket_path({"LSF_ENVDIR": view}) == f"{tmp_path}/run/api.sock"
    assert socket_path({"LSF_ENVDIR": f"{view}/"}) == f"{tmp_path}/run/api.sock"
    assert socket_path({"LSF_ENVDIR": view, "XCE_DIR": "/d"}) == "/d/run/api.sock"
    for other in ("/etc", "/nowhere/lsf/conf"):
        assert socket_path({"LSF_ENVDIR": other}) == socket_path({})
