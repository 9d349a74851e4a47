import json
import logging

from rest_cluster import run_rest

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
