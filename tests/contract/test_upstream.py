"""The Prometheus client over real sockets, against every fault of a backend that users have met."""

import asyncio
import gzip
import socket
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from types import TracebackType
from typing import Any

import pytest

from adapter.domain.backends import BackendSettings
from adapter.domain.samples import QueryResult, Sample
from adapter.errors import (
    BackendRefused,
    BackendUnavailable,
    BadQuery,
    DeadlineExceeded,
    MetricError,
    TooManySeries,
    WrongResultType,
)
from adapter.upstream.prometheus import ANSWER_LIMIT_BYTES
from tests.support.asking import NOW_S, Asker
from tests.support.fake_prometheus import (
    HANG,
    PROBE,
    Answer,
    FakePrometheus,
    error,
    matrix,
    native_histogram,
    page,
    redirect,
    scalar,
    string,
    vector,
)

FIVE = vector([({"__name__": "q", "queue": "a"}, "5")])
FIVE_RESULT = QueryResult(samples=(Sample(labels={"queue": "a"}, value="5", timestamp_s=NOW_S),))


@pytest.fixture
def fake() -> Iterator[FakePrometheus]:
    """A fake Prometheus that answers 5 to q."""
    with FakePrometheus() as server:
        server.set("q", FIVE)
        yield server


@pytest.fixture
def asker(fake: FakePrometheus) -> Iterator[Asker]:
    """A client of the fake."""
    with Asker(BackendSettings(name="default", url=fake.url)) as client:
        yield client


def catch(asker: Asker, promql: str = "q", *, timeout_s: float = 5.0) -> MetricError:
    """Return the error of a query."""
    with pytest.raises(MetricError) as caught:
        asker.query(promql, timeout_s=timeout_s)
    return caught.value


def test_query_is_a_form_with_time_timeout_and_own_headers(fake: FakePrometheus, asker: Asker) -> None:
    """The query goes out as a POSTed form, time in seconds, timeout as a Prometheus duration, under our own name."""
    asker.query("q", time_s=1_700_000_000.25, timeout_s=4.987)
    (request,) = fake.requests

    assert (request.method, request.path) == ("POST", "/api/v1/query")
    assert request.form == {"query": "q", "time": "1700000000.25", "timeout": "4987ms"}
    assert request.headers["user-agent"] == f"depthgauge/{version('depthgauge')}"
    assert request.headers["accept"] == "application/json"
    assert "authorization" not in request.headers


@pytest.mark.parametrize(
    "promql",
    ['q{a="\\"&=+%"}', "q{a='ü 漢'}", "q\n#comment", 'q{a="a+b c%20d"}'],
    ids=["punctuation", "unicode", "newline", "plus and percent"],
)
def test_query_text_arrives_unchanged(fake: FakePrometheus, asker: Asker, promql: str) -> None:
    """PromQL arrives letter by letter, whatever a form would make of it."""
    fake.set(promql, FIVE)

    assert asker.query(promql) == FIVE_RESULT


@pytest.mark.parametrize(
    ("prefix", "slash"),
    [("/prometheus", ""), ("/prometheus", "/"), ("/select/0/prometheus", ""), ("", "/"), ("/a%2Fb", "")],
)
def test_b3_path_prefix_is_kept_without_double_slash(prefix: str, slash: str) -> None:
    """The request goes to <base>/api/v1/query, with the prefix as configured and one slash."""
    with FakePrometheus(prefix=prefix) as fake, Asker(BackendSettings(name="b", url=fake.url + slash)) as asker:
        fake.set("q", FIVE)

        assert asker.query() == FIVE_RESULT
        assert fake.requests[0].path == f"{prefix}/api/v1/query"


def test_b13_params_are_escaped_and_cannot_replace_the_query(fake: FakePrometheus) -> None:
    """Extra parameters go with every query, escaped, and never stand in for query, time or timeout."""
    params = {"namespace": "app", "extra_filters[]": '{a="b&c=d"}', "dedup": "true", "query": "evil", "time": "1"}
    with Asker(BackendSettings(name="b", url=fake.url, params=params)) as asker:
        asker.query()
    (request,) = fake.requests

    assert request.fields == params | {"query": "q", "time": "1700000000", "timeout": "5000ms"}
    assert request.url_fields["namespace"] == "app"


def test_b11_headers_belong_to_their_backend(fake: FakePrometheus) -> None:
    """Two backends at one address send each its own tenant, also beyond ASCII."""
    for tenant in ("team-a", "täam"):
        with Asker(BackendSettings(name=tenant, url=fake.url, headers={"X-Scope-OrgID": tenant})) as asker:
            asker.query()

    sent = [request.headers["x-scope-orgid"].encode("latin-1").decode() for request in fake.requests]
    assert sent == ["team-a", "täam"]


def test_a9_proxy_variables_are_ignored(fake: FakePrometheus, monkeypatch: pytest.MonkeyPatch) -> None:
    """HTTP_PROXY and its kin do not come between the adapter and its backend."""
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with Asker(BackendSettings(name="b", url=fake.url)) as asker:
        assert asker.query() == FIVE_RESULT


def test_z9_scalar_is_one_sample(fake: FakePrometheus, asker: Asker) -> None:
    """A scalar is one sample without labels."""
    fake.set("q", scalar("5"))

    assert asker.query() == QueryResult(samples=(Sample({}, "5", NOW_S),), kind="scalar")


@pytest.mark.parametrize(
    ("answer", "got"),
    [
        pytest.param(matrix(), "matrix", id="Z10 matrix"),
        pytest.param(matrix(()), "matrix", id="Z10 empty matrix"),
        pytest.param(string(), "string", id="Z13 string"),
        pytest.param(native_histogram(), "native histogram", id="native histogram"),
    ],
)
def test_z10_z13_other_types_are_named(fake: FakePrometheus, asker: Asker, answer: Answer, got: str) -> None:
    """A result that is neither vector nor scalar is never a number."""
    fake.set("q", answer)
    caught = catch(asker)

    assert isinstance(caught, WrongResultType)
    assert caught.got == got


def test_p1_p2_warnings_and_partiality_are_carried_and_infos_are_not(fake: FakePrometheus, asker: Asker) -> None:
    """Warnings and isPartial come with the result for the guards to judge; infos leave no trace."""
    fake.set("q", vector([], warnings=["store 10.0.0.7 unavailable"], infos=["not a counter"], is_partial=True))
    fake.set("p2", vector([], infos=["metric might not be a counter"]))

    assert asker.query() == QueryResult(samples=(), warnings=("store 10.0.0.7 unavailable",), is_partial=True)
    assert asker.query("p2") == QueryResult(samples=())


LOGIN = page(200, "<html>" + "x" * 10_000, "text/html; charset=utf-8")
FAULTS = [
    pytest.param(page(403, "nope"), BackendRefused, "backend returned 403: nope", id="B1 403"),
    pytest.param(page(401, "who?"), BackendRefused, "backend returned 401: who?", id="B1 401"),
    pytest.param(page(401, "no org id\n"), BackendRefused, "no org id", id="B11 no tenant"),
    pytest.param(LOGIN, BackendRefused, "not a Prometheus JSON answer (text/html)", id="B2 login page"),
    pytest.param(
        error(400, "bad_data", '1:5: parse error: "sum" x'),
        BadQuery,
        'bad_data: 1:5: parse error: "sum" x',
        id="B4 bad_data",
    ),
    pytest.param(error(422, "execution", "too many samples"), BadQuery, "execution: too many", id="422 execution"),
    pytest.param(page(400, "bad request"), BadQuery, "400: bad request", id="400 text"),
    pytest.param(page(404, "404 page not found"), BackendRefused, "404 page not found", id="404"),
    pytest.param(page(405, ""), BackendRefused, "405", id="405"),
    pytest.param(redirect(), BackendRefused, "302, a redirect to /api/v1/query", id="endless redirect"),
    pytest.param(
        redirect("https://user:hunter2@sso.example.org/login?state=hunter2#hunter2", 307),
        BackendRefused,
        "307, a redirect to https://sso.example.org/login",
        id="redirect to a login",
    ),
    pytest.param(redirect("http://h:port/", 301), BackendRefused, "to an invalid url", id="broken redirect"),
    pytest.param(error(200, "internal", "boom"), BackendRefused, "internal: boom", id="status error with 200"),
    pytest.param(error(503, "timeout", "query timed out"), DeadlineExceeded, "query timed out", id="own timeout"),
    pytest.param(error(503, "canceled", "query was canceled"), BackendUnavailable, "canceled", id="canceled"),
    pytest.param(page(503, "no healthy upstream"), BackendUnavailable, "503: no healthy upstream", id="B6 503"),
    pytest.param(error(503, "unavailable", "starting"), BackendUnavailable, "unavailable: starting", id="503 JSON"),
    pytest.param(error(500, "internal", "boom"), BackendUnavailable, "500: internal: boom", id="500 JSON"),
    pytest.param(page(429, "slow down"), BackendUnavailable, "429: slow down", id="429"),
    pytest.param(page(502, "<html>", "text/html"), BackendUnavailable, "502: (text/html)", id="502 HTML"),
    pytest.param(page(503, "x" * 1_000_000), BackendUnavailable, "503: xxx", id="huge error"),
    pytest.param(Answer(body=b'{"status":"succ'), BackendRefused, "malformed answer: not JSON", id="half JSON"),
    pytest.param(Answer(body=b""), BackendRefused, "malformed answer: not JSON", id="empty body"),
    pytest.param(Answer(status=204), BackendRefused, "malformed answer", id="204"),
    pytest.param(Answer(body={"status": "success", "data": None}), BackendRefused, "malformed answer: data", id="null"),
    pytest.param(Answer(raw=b"-ERR unknown command\r\n\r\n"), BackendRefused, "not HTTP", id="garbage"),
    pytest.param(Answer(raw=bytes(range(256)) * 1000), BackendRefused, "not HTTP", id="binary garbage"),
    pytest.param(Answer(raw=b""), BackendUnavailable, "closed the connection", id="closed without an answer"),
    pytest.param(Answer(raw=b"HTTP/1.1 200 OK\r\nCont"), BackendUnavailable, "closed", id="closed in the head"),
    pytest.param(FIVE.but(cut_after_bytes=20), BackendUnavailable, "closed the connection", id="closed in the body"),
    pytest.param(
        Answer(raw=b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        BackendRefused,
        "not HTTP",
        id="broken chunk",
    ),
    pytest.param(
        Answer(body=b"not gzip", headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}),
        BackendRefused,
        "damaged gzip",
        id="damaged gzip",
    ),
]


@pytest.mark.parametrize(("answer", "expected", "quoted"), FAULTS)
def test_fault_has_its_reason_and_the_next_query_works(
    fake: FakePrometheus, asker: Asker, answer: Answer, expected: type[MetricError], quoted: str
) -> None:
    """Each fault is told by its reason, in bounds and without secrets; the client goes on to work."""
    fake.set("fault", answer)
    caught = catch(asker, "fault")

    assert type(caught) is expected
    assert quoted in caught.describe()
    assert len(caught.describe()) < 400
    assert "hunter2" not in caught.describe()
    assert asker.query() == FIVE_RESULT
    assert fake.count("fault") == 1


@pytest.mark.parametrize(
    ("answer", "is_connection"),
    [
        pytest.param(Answer(raw=b""), True, id="closed"),
        pytest.param(FIVE.but(cut_after_bytes=20), True, id="cut"),
        pytest.param(page(503, "no"), False, id="503"),
        pytest.param(page(429, "no"), False, id="429"),
    ],
)
def test_unavailable_tells_a_lost_connection_from_a_refusing_server(
    fake: FakePrometheus,
    asker: Asker,
    answer: Answer,
    is_connection: bool,  # noqa: FBT001  a parameter
) -> None:
    """A probe is due when the connection fails, not when the server says so itself."""
    fake.set("q", answer)
    caught = catch(asker)

    assert isinstance(caught, BackendUnavailable)
    assert caught.is_connection is is_connection


def test_b6_recovery_shows_with_the_next_query(fake: FakePrometheus, asker: Asker) -> None:
    """After a 503 the next answer is the value: nothing sticks."""
    fake.set("q", page(503, "no healthy upstream"), FIVE)

    assert isinstance(catch(asker), BackendUnavailable)
    assert asker.query() == FIVE_RESULT


@pytest.mark.parametrize(
    ("answer", "where"),
    [
        pytest.param(HANG, "waiting for the answer", id="never answers"),
        pytest.param(FIVE.but(delay_s=60.0), "waiting for the answer", id="answers after a minute"),
        pytest.param(FIVE.but(drip_bytes_per_s=10), "while the answer was arriving", id="trickles"),
        pytest.param(page(503, "no " * 100).but(drip_bytes_per_s=20), "arriving", id="trickles an error"),
    ],
)
def test_b8_deadline_ends_the_query_upstream_too(
    fake: FakePrometheus, asker: Asker, answer: Answer, where: str
) -> None:
    """At the deadline the caller has its error, and the backend sees the connection closed."""
    asker.query()
    fake.set("q", answer)
    started_s = time.monotonic()
    caught = catch(asker, timeout_s=0.5)
    took_s = time.monotonic() - started_s

    assert isinstance(caught, DeadlineExceeded)
    assert caught.deadline_s == 0.5
    assert where in caught.detail
    assert 0.45 < took_s < 5.0
    fake.wait_for_abandoned(1)


def test_b8_deadline_covers_a_server_that_never_finishes_the_handshake() -> None:
    """A listener that accepts and says nothing costs the deadline and no more: not even an open socket."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"https://127.0.0.1:{listener.getsockname()[1]}"
        with Asker(BackendSettings(name="b", url=url)) as asker:
            caught = catch(asker, timeout_s=0.5)
            accepted, _address = listener.accept()
            with accepted:
                accepted.settimeout(5)
                while accepted.recv(4096):
                    pass  # the client's greeting, then the end of its connection

    assert isinstance(caught, DeadlineExceeded)
    assert caught.detail == "in the TLS handshake"


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
def test_b8_deadline_that_has_passed_asks_nothing(fake: FakePrometheus, asker: Asker, timeout_s: float) -> None:
    """Without time left nothing is sent, least of all a negative timeout, also where a connection stands ready."""
    asker.query()
    caught = catch(asker, "late", timeout_s=timeout_s)
    asker.query()

    assert isinstance(caught, DeadlineExceeded)
    assert caught.deadline_s == 0.0
    assert [(request.query, request.connection) for request in fake.requests] == [("q", 1)] * 2


def test_caller_that_gives_up_closes_the_connection(fake: FakePrometheus, asker: Asker) -> None:
    """A cancelled query is cancelled upstream, and the cancellation is passed on."""
    fake.set("q", HANG)

    async def give_up() -> bool:
        task = asyncio.create_task(asker.backend.query("q", time_s=NOW_S, timeout_s=30))
        await asyncio.to_thread(fake.wait_for_requests, 1)
        task.cancel()
        await asyncio.wait({task})
        return task.cancelled()

    assert asker.run(give_up())
    fake.wait_for_abandoned(1)


def test_many_deadlines_in_a_row_leave_the_client_working(fake: FakePrometheus) -> None:
    """Places are not lost to queries that were cancelled at any point of their way."""
    fake.set("slow", HANG)
    with Asker(BackendSettings(name="b", url=fake.url, max_concurrency=2)) as asker:

        async def ask(number: int) -> None:
            with pytest.raises(DeadlineExceeded):
                await asker.backend.query("slow", time_s=NOW_S, timeout_s=0.001 * (1 + number % 20))

        async def ask_all() -> None:
            await asyncio.gather(*(ask(number) for number in range(200)))

        asker.run(ask_all())
        results = asker.query_all(*["q"] * 20)

    assert results == [FIVE_RESULT] * 20


LARGE_JSON = b'{"status":"success","data":{"resultType":"vector","result":[],"padding":"' + b"x" * 50_000_000 + b'"}}'


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(Answer(body=LARGE_JSON), id="50 MB"),
        pytest.param(Answer(body=LARGE_JSON, chunk_bytes=65536), id="50 MB in chunks"),
        pytest.param(Answer(body=LARGE_JSON, is_gzipped=True), id="50 MB gzipped small"),
    ],
)
def test_huge_answer_is_refused_and_its_connection_closed(fake: FakePrometheus, asker: Asker, answer: Answer) -> None:
    """An answer above the bound is told as too large; the rest of it is not read."""
    fake.set("huge", answer)
    caught = catch(asker, "huge")

    assert isinstance(caught, TooManySeries)
    assert (caught.got, caught.limit) == ("more than 16 MiB of JSON", "16 MiB")
    assert asker.query() == FIVE_RESULT
    assert fake.requests[-1].connection == 2


def test_huge_page_that_is_not_json_is_not_read(fake: FakePrometheus, asker: Asker) -> None:
    """What is no JSON answer is refused by its head alone, while its body still trickles."""
    fake.set("q", page(200, "<html>" * 1000, "text/html").but(drip_bytes_per_s=1))
    caught = catch(asker)

    assert isinstance(caught, BackendRefused)
    fake.wait_for_abandoned(1)


def build_large(limit_bytes: int) -> tuple[bytes, int]:
    """Return a vector of nearly *limit_bytes*, and its number of series."""
    series = b'{"metric":{"queue":"%07d","pod":"p"},"value":[1700000000,"5"]}'
    number = limit_bytes // (len(series % 0) + 1) - 10
    elements = b",".join(series % index for index in range(number))
    return b'{"status":"success","data":{"resultType":"vector","result":[' + elements + b"]}}", number


def test_answer_near_the_limit_is_whole_and_lets_others_go_on(fake: FakePrometheus, asker: Asker) -> None:
    """The largest allowed answer is decoded beside the event loop, which goes on serving meanwhile."""
    body, number = build_large(ANSWER_LIMIT_BYTES)
    fake.set(
        "large",
        Answer(body=gzip.compress(body, 1), headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}),
    )
    served = 0

    async def ask_both() -> QueryResult:
        nonlocal served
        large = asyncio.create_task(asker.backend.query("large", time_s=NOW_S, timeout_s=60))
        while not large.done():
            await asker.backend.query(PROBE, time_s=NOW_S, timeout_s=60)
            served += not large.done()
        return await large

    result = asker.run(ask_both())

    assert len(result.samples) == number
    assert served > 3


def test_kept_error_holds_no_body(fake: FakePrometheus, asker: Asker) -> None:
    """Errors are kept until the next tick; none keeps a megabyte of answer alive with it."""
    fake.set("huge", Answer(body=LARGE_JSON))
    fake.set("broken", Answer(body=b'{"a":"' + b"x" * 5_000_000))
    largest_bytes = max(find_largest_local(catch(asker, promql)) for promql in ("huge", "broken"))

    assert largest_bytes < 100_000


def find_largest_local(exc: BaseException | None) -> int:
    """Return the size of the largest bytes or text held by *exc*, its causes, and their frames below the test."""
    largest = 0
    while exc is not None:
        held: list[Any] = [*exc.args, *vars(exc).values()]
        traceback: TracebackType | None = exc.__traceback__
        while traceback is not None:
            held += traceback.tb_frame.f_locals.values()
            traceback = traceback.tb_next
        largest = max([largest, *(len(part) for part in held if isinstance(part, bytes | bytearray | str))])
        exc = exc.__cause__ or exc.__context__
    return largest


def test_connection_is_kept_alive(fake: FakePrometheus, asker: Asker) -> None:
    """Queries one after the other share one connection."""
    for _ in range(5):
        asker.query()

    assert fake.connections == 1


def open_connections(asker: Asker, fake: FakePrometheus, number: int) -> None:
    """Have *number* connections kept alive."""

    async def fill() -> None:
        asked = [asyncio.create_task(asker.backend.query("q", time_s=NOW_S, timeout_s=10)) for _ in range(number)]
        await asyncio.to_thread(fake.wait_for_requests, number)
        fake.gate.open()
        await asyncio.gather(*asked)

    fake.gate.close()
    asker.run(fill())


def test_replaced_server_is_no_error_however_many_connections_were_kept(fake: FakePrometheus, asker: Asker) -> None:
    """When all kept connections turn out dead only as they are used, the second attempt is made on a new one."""
    open_connections(asker, fake, 5)
    fake.break_connections()

    assert asker.query() == FIVE_RESULT
    assert asker.query_all(*["q"] * 5) == [FIVE_RESULT] * 5
    assert fake.count("q") == 5 + 2 + 5


def test_restarted_server_is_no_error(fake: FakePrometheus, asker: Asker) -> None:
    """Connections kept alive over a restart of the backend are replaced silently, all of them."""
    open_connections(asker, fake, 8)
    fake.stop()
    fake.start()

    assert asker.query_all(*["q"] * 8) == [FIVE_RESULT] * 8
    assert fake.connections > 8


def test_closed_kept_alive_connection_is_tried_once_more(fake: FakePrometheus, asker: Asker) -> None:
    """A reused connection that ends before the answer's first byte is no error: the query is sent again, once."""
    fake.set("q", FIVE, Answer(raw=b""), FIVE)
    results = [asker.query(), asker.query()]

    assert results == [FIVE_RESULT] * 2
    assert fake.count("q") == 3


def test_connection_closed_twice_is_an_error(fake: FakePrometheus, asker: Asker) -> None:
    """The second attempt is the last one."""
    fake.set("q", FIVE, Answer(raw=b""))
    asker.query()
    caught = catch(asker)

    assert isinstance(caught, BackendUnavailable)
    assert caught.is_connection
    assert fake.count("q") == 3


def test_refused_connection_says_so(fake: FakePrometheus, asker: Asker) -> None:
    """A backend that does not listen is named with its address and the cause, also after it had answered."""
    asker.query()
    fake.stop()
    caught = catch(asker)

    assert isinstance(caught, BackendUnavailable)
    assert caught.is_connection
    assert caught.detail == f"cannot reach 127.0.0.1:{fake.port}: connection refused"


def fail_resolution(*_args: Any, **_kwargs: Any) -> Any:
    """Fail as a resolver does for a name that does not exist."""
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def fail_idna(*_args: Any, **_kwargs: Any) -> Any:
    """Fail as Python does for a name that cannot be encoded."""
    raise UnicodeEncodeError("idna", "x" * 80, 0, 1, "label too long")


@pytest.mark.parametrize(
    ("resolve", "detail"),
    [
        pytest.param(
            fail_resolution,
            "cannot reach prometheus.example.org:9090: name resolution failed (Name or service not known)",
            id="unknown name",
        ),
        pytest.param(fail_idna, "cannot reach prometheus.example.org:9090", id="impossible name"),
    ],
)
def test_unresolved_name_says_so(monkeypatch: pytest.MonkeyPatch, resolve: Callable[..., Any], detail: str) -> None:
    """A name that cannot be resolved is a connection failure that names it."""
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    settings = BackendSettings(name="b", url="http://prometheus.example.org:9090")
    with Asker(settings, loop_factory=asyncio.SelectorEventLoop) as asker:  # uvloop does not ask Python's socket module
        caught = catch(asker)

    assert isinstance(caught, BackendUnavailable)
    assert (caught.detail, caught.is_connection) == (detail, True)


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param(BackendSettings(name="b", url="ftp://h"), id="other scheme"),
        pytest.param(BackendSettings(name="b", url="http://[::"), id="broken url"),
        pytest.param(
            BackendSettings(name="b", url="http://127.0.0.1:1", headers={"X-Key": "a\nhunter2"}), id="newline"
        ),
        pytest.param(BackendSettings(name="b", url="http://127.0.0.1:1", headers={"X Key": "hunter2"}), id="bad name"),
    ],
)
def test_unusable_settings_are_an_error_of_the_query(fake: FakePrometheus, settings: BackendSettings) -> None:
    """What the configuration should have refused is still an answer with a Reason, without the header's value."""
    if settings.headers:
        settings = BackendSettings(name="b", url=fake.url, headers=settings.headers)
    with Asker(settings) as asker:
        caught = catch(asker)

    assert isinstance(caught, BackendUnavailable)
    assert "hunter2" not in caught.describe()
    assert caught.__suppress_context__ or caught.__context__ is None or "hunter2" not in str(caught.__context__)


def test_closing_lets_queries_under_way_finish(fake: FakePrometheus) -> None:
    """A backend replaced by a reload answers what it was asked before, and nothing after."""
    with Asker(BackendSettings(name="b", url=fake.url)) as asker:
        fake.gate.close()

        async def close_meanwhile() -> QueryResult:
            asked = asyncio.create_task(asker.backend.query("q", time_s=NOW_S, timeout_s=10))
            await asyncio.to_thread(fake.wait_for_requests, 1)
            closing = asyncio.create_task(asker.backend.aclose())
            await asyncio.sleep(0)
            fake.gate.open()
            await closing
            return await asked

        assert asker.run(close_meanwhile()) == FIVE_RESULT
        assert isinstance(catch(asker), BackendUnavailable)


def test_closing_lets_an_answer_be_decoded(fake: FakePrometheus) -> None:
    """A large answer whose decoding is under way when the backend is closed still reaches its caller."""
    body, number = build_large(1024 * 1024)
    fake.set("large", Answer(body=body))
    with Asker(BackendSettings(name="b", url=fake.url)) as asker:

        async def close_meanwhile() -> QueryResult:
            asked = asyncio.create_task(asker.backend.query("large", time_s=NOW_S, timeout_s=30))
            await asyncio.to_thread(fake.wait_for_requests, 1)
            await asker.backend.aclose()
            return await asked

        assert len(asker.run(close_meanwhile()).samples) == number


def test_settings_without_scheme_of_lower_case_reach_the_server(fake: FakePrometheus) -> None:
    """A scheme in capitals is the same scheme."""
    with Asker(BackendSettings(name="b", url=fake.url.replace("http", "HTTP"))) as asker:
        assert asker.query() == FIVE_RESULT
