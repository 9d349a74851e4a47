import asyncio
import gzip
import json
import logging

from rest_cluster import run_rest

from xce.apiserver.call import Call
from xce.apiserver.openapi import render_openapi
from xce.apiserver.routes.table import PREFIX, ROUTES


def test_a_path_that_does_not_exist_is_a_problem_and_so_is_a_wrong_method():
    async def story(rest):
        status, document = await rest.get("/nothing")
        assert (status, document["code"]) == (404, "no-route")
        assert rest.headers["Content-Type"] == "application/problem+json"
        status, document = await rest.call("PUT", "/jobs")
        assert (status, document["code"]) == (405, "method-not-allowed")
        assert "GET, POST" in document["detail"]
        status, document = await rest.call("DELETE", "/jobs/7")
        assert (status, document["code"]) == (405, "method-not-allowed")

    run_rest(story)


def test_a_fault_of_ours_shows_no_traceback_and_is_logged(monkeypatch, caplog):
    async def story(rest):
        monkeypatch.setattr(rest.backend, "replica", None)
        with caplog.at_level(logging.ERROR):
            status, document = await rest.get("/jobs")
        assert (status, document["code"]) == (500, "internal")
        assert "Traceback" not in json.dumps(document)
        assert any(record.exc_info for record in caplog.records)

    run_rest(story)


def test_the_description_names_every_route_and_every_type():
    async def story(rest):
        status, document = await rest.get("/openapi.json")
        assert status == 200
        assert document["openapi"].startswith("3.1")
        for route in ROUTES:
            operation = document["paths"][PREFIX + route.path][route.method.lower()]
            assert operation["summary"]
            assert operation["responses"]["default"]
        text = json.dumps(document)
        names = {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}
        assert names <= set(document["components"]["schemas"])
        assert "SubmissionBody" in names

    run_rest(story)


def test_the_description_is_the_same_each_time():
    assert render_openapi(ROUTES, "1") == render_openapi(ROUTES, "1")


async def raw(rest, request, awaited=None):
    """Send bytes; return what comes back until it holds what is awaited, else until it ends."""
    reader, writer = await asyncio.open_unix_connection(rest.socket)
    writer.write(request)
    said = b""
    async with asyncio.timeout(30):
        while part := await reader.read(65536):
            said += part
            if awaited is not None and awaited in said:
                break
    writer.close()
    await writer.wait_closed()
    return said


def test_what_is_no_http_gets_a_400_without_a_traceback():
    async def story(rest):
        answer = await raw(rest, b"\x16\x03\x01 this is no http\r\n\r\n")
        assert b" 400 " in answer
        assert b"Traceback" not in answer
        assert b'File "' not in answer
        status, _ = await rest.get("/ready")
        assert status == 200

    run_rest(story)


def test_a_client_that_asks_first_is_told_to_go_on():
    async def story(rest):
        head = (
            b"POST /xce/v1/jobs HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
            b"Content-Length: 18\r\n\r\n"
        )
        answer = await raw(rest, head + b'{"command":"true"}', b" 201 ")
        assert answer.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 ")

    run_rest(story)


def test_a_body_that_says_that_it_is_too_large_is_not_read():
    async def story(rest):
        answer = await raw(
            rest,
            b"POST /xce/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
            b'"code":"too-large"',
        )
        assert b" 413 " in answer
        assert b'"code":"too-large"' in answer

    run_rest(story)


def test_a_client_that_leaves_while_it_waits_is_forgotten():
    async def story(rest):
        job = await rest.submit()
        _, writer = await asyncio.open_unix_connection(rest.socket)
        writer.write(f"GET /xce/v1/jobs/{job}/wait HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        await rest.until(lambda: len(rest.backend.waits))
        writer.close()
        await writer.wait_closed()
        await rest.until(lambda: not len(rest.backend.waits))

    run_rest(story)


def test_a_parameter_that_a_route_does_not_take_is_refused_by_name():
    async def story(rest):
        job = await rest.submit()
        for route in ROUTES:
            path = route.path.replace("{id}", str(job))
            status, problem = await rest.call(route.method, path, nonsense="1")
            assert (status, problem["code"]) == (400, "bad-request"), route.path
            assert "no parameter 'nonsense'" in problem["detail"]
            for parameter in route.parameters:
                assert parameter.name in problem["detail"]
        status, problem = await rest.get("/jobs", usr="alice")
        assert problem["detail"] == (
            "GET /jobs has no parameter 'usr'; known are: user, name, finished, queue, host, "
            "group, app, state, host_names, usage, ids, fields, limit, cursor, at"
        )

    run_rest(story)


def test_a_body_is_the_same_whether_it_comes_with_the_head_or_in_pieces():
    async def story(rest):
        head = b"POST /xce/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n"
        body = b'{"command":"true"}'
        reader, writer = await asyncio.open_unix_connection(rest.socket)
        for pieces in ((head + body,), (head, body), (head + body[:5], body[5:]), (head + body,)):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0.02)
            answer = await reader.readuntil(b"\r\n\r\n")
            assert answer.startswith(b"HTTP/1.1 201 "), answer
            length = int(answer.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            assert b'"jobid"' in await reader.readexactly(length)
        writer.close()
        await writer.wait_closed()

    run_rest(story)


def test_a_body_that_is_small_only_while_it_is_packed_is_too_large_all_the_same(monkeypatch):
    async def story(rest):
        packed = gzip.compress(b'{"command":"' + b"x" * 100_000 + b'"}')
        assert len(packed) < 1_000
        monkeypatch.setattr(Call.body, "__defaults__", (50_000,))
        answer = await raw(
            rest,
            b"POST /xce/v1/jobs HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (len(packed), packed),
            b'"code":"too-large"',
        )
        assert b" 413 " in answer
        assert b'"code":"too-large"' in answer

    run_rest(story)
