"""Log lines: one a decision, each a line, as text or as JSON."""

import json
import logging
import re
from collections.abc import Iterator

import pytest

from adapter.cli.logs import set_up_logs


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root, ours, servers = logging.getLogger(), logging.getLogger("adapter"), logging.getLogger("uvicorn.error")
    before = root.handlers, root.level, ours.level, servers.level
    yield
    root.handlers, level, ours_level, servers_level = before
    root.setLevel(level)
    ours.setLevel(ours_level)
    servers.setLevel(servers_level)


def test_text_line_has_time_in_utc_level_and_event(capsys: pytest.CaptureFixture[str]) -> None:
    """Milliseconds and a Z, then the message as it is; nothing on stdout."""
    set_up_logs("text")
    logging.getLogger("adapter.x").info("config_loaded path=%s rules=%d", "/etc/a.yaml", 3)
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO config_loaded path=/etc/a\.yaml rules=3\n", err)


def test_json_line_has_event_and_fields(capsys: pytest.CaptureFixture[str]) -> None:
    """One object a line, fields as text, the whole message besides."""
    set_up_logs("json")
    logging.getLogger("adapter.x").warning('config_warning rule=depth text="two words" rest of it')
    line = json.loads(capsys.readouterr().err)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line == {
        "level": "WARNING",
        "event": "config_warning",
        "fields": {"rule": "depth", "text": "two words"},
        "message": 'config_warning rule=depth text="two words" rest of it',
    }


def test_json_stays_one_line_with_a_traceback_and_odd_characters(capsys: pytest.CaptureFixture[str]) -> None:
    """Whoever reads lines gets whole objects."""
    set_up_logs("json")
    try:
        raise ValueError("a\nb\x00é")  # noqa: TRY301
    except ValueError:
        logging.getLogger("adapter.x").exception("request_failed path=%r", "/a\nb")
    (line,) = capsys.readouterr().err.splitlines()
    assert json.loads(line)["event"] == "request_failed"
    assert "ValueError: a\nb\x00é" in json.loads(line)["traceback"]


def test_o6_libraries_are_heard_from_warnings_up_and_the_server_from_errors_up(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """O6: nothing for each request or odd client."""
    set_up_logs()
    logging.getLogger("httpx").info("HTTP Request: GET")
    logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
    logging.getLogger("uvicorn.access").info("GET /")
    assert capsys.readouterr().err == ""
    logging.getLogger("uvicorn.error").error("a fault")
    logging.getLogger("kubernetes").warning("odd")
    assert len(capsys.readouterr().err.splitlines()) == 2
