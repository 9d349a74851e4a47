import io
import json
import logging

from xce.daemon.logs import JsonLines


def test_a_log_line_is_one_json_object_with_its_keys() -> None:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    log = logging.Logger("controller")  # noqa: LOG001 - one of its own
    log.addHandler(handler)
    log.info("batch-committed", extra={"seq_last": 12, "host": "ü\n"})
    try:
        1 / 0  # noqa: B018
    except ZeroDivisionError:
        log.exception("step-failed")
    first, second = map(json.loads, stream.getvalue().splitlines())
    assert first["event"] == "batch-committed"
    assert (first["component"], first["level"]) == ("controller", "info")
    assert (first["seq_last"], first["host"]) == (12, "ü\n")
    assert first["at"][10] == "T"
    assert first["at"].endswith("Z")
    assert "ZeroDivisionError" in second["exception"]
