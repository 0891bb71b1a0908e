"""The Prometheus client against real ones, and the fake against them: it must answer as they do."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from adapter.domain.backends import BackendSettings, BasicAuth
from adapter.errors import (
    BackendRefused,
    BackendUnavailable,
    BadQuery,
    DeadlineExceeded,
    MetricError,
    WrongResultType,
)
from loadgen.parts.prometheus import Prometheus
from loadgen.parts.scrape import ScrapeJob
from tests.support.asking import NOW_S, Asker
from tests.support.exporter import Exporter
from tests.support.fake_prometheus import Answer, FakePrometheus, error, matrix, page, scalar, string, vector

PASSWORD = "scraper-pw"
PASSWORD_HASH = "$2b$04$abcdefghijklmnopqrstuu6pm/rlebxoItzDLHzGSqkl2bu7f0BFe"
HISTOGRAM = """\
# TYPE took_seconds histogram
took_seconds_bucket{le="1"} 2
took_seconds_bucket{le="+Inf"} 3
took_seconds_sum 4.5
took_seconds_count 3
"""


@pytest.fixture(scope="module", params=["prometheus2", "prometheus3"])
def binary(request: pytest.FixtureRequest) -> Path:
    """The program of each major version."""
    return Path(request.getfixturevalue(f"{request.param}_binary"))


@pytest.fixture(scope="module")
def prometheus(binary: Path) -> Iterator[Prometheus]:
    """A healthy one, for the tests that leave it so."""
    with Prometheus(binary) as server:
        yield server


@pytest.fixture
def own_prometheus(binary: Path) -> Iterator[Prometheus]:
    """One that a test may hurt."""
    with Prometheus(binary) as server:
        yield server


def catch(asker: Asker, promql: str = "vector(1)", *, timeout_s: float = 5.0) -> MetricError:
    """Return the error of a query."""
    with pytest.raises(MetricError) as caught:
        asker.query(promql, timeout_s=timeout_s)
    return caught.value


# What both can be asked, with the fake's answer. Label order, warnings and kinds must come out alike.
BOTH = [
    pytest.param("vector(1)", vector([({}, "1")]), id="vector"),
    pytest.param("absent(nothing)", vector([({}, "1")]), id="function"),
    pytest.param("nothing", vector([]), id="empty"),
    pytest.param('label_replace(vector(1), "queue", "a", "", "")', vector([({"queue": "a"}, "1")]), id="labels"),
    pytest.param('label_replace(vector(1), "__name__", "q", "", "")', vector([({"__name__": "q"}, "1")]), id="name"),
    pytest.param("vector(0) / 0", vector([({}, "NaN")]), id="NaN"),
    pytest.param("vector(1) / 0", vector([({}, "+Inf")]), id="infinity"),
    pytest.param("vector(1e300)", vector([({}, "1e+300")]), id="large"),
    pytest.param("-vector(0)", vector([({}, "-0")]), id="minus zero"),
    pytest.param("scalar(vector(5))", scalar("5"), id="Z9 scalar"),
    pytest.param("nothing[5m]", matrix(()), id="Z10 empty matrix"),
    pytest.param("vector(1)[2s:1s]", matrix(), id="Z10 matrix"),
    pytest.param('"42"', string(), id="Z13 string"),
    pytest.param("sum(rate(x))", error(400, "bad_data", ""), id="B4 no range"),
    pytest.param("x{", error(400, "bad_data", ""), id="B4 unclosed"),
    pytest.param("", error(400, "bad_data", ""), id="no query"),
    pytest.param(
        "vector(1) * on() group_left() (x or vector(1)) * on(a) (label_replace(vector(1),'b','1','','') or vector(2))",
        error(422, "execution", ""),
        id="422 execution",
    ),
]


def outcome(asker: Asker, promql: str) -> tuple[object, ...]:
    """Return what a query comes to, without the texts that only a real server can word."""
    try:
        return ("result", asker.query(promql))
    except BadQuery as error_:
        return ("BadQuery", error_.error_type)
    except WrongResultType as error_:
        return ("WrongResultType", error_.got)
    except MetricError as error_:
        return (type(error_).__name__,)


@pytest.mark.parametrize(("promql", "answer"), BOTH)
def test_fake_answers_as_the_real_one_does(prometheus: Prometheus, promql: str, answer: Answer) -> None:
    """Every case that both can produce decodes alike from the real server and from the fake."""
    with FakePrometheus() as fake:
        fake.set(promql, answer)
        with (
            Asker(BackendSettings(name="real", url=prometheus.url)) as real_asker,
            Asker(BackendSettings(name="fake", url=fake.url)) as fake_asker,
        ):
            assert outcome(real_asker, promql) == outcome(fake_asker, promql)


def test_fake_refuses_a_path_and_a_timeout_as_the_real_one_does(prometheus: Prometheus) -> None:
    """A wrong prefix and a wrong timeout are refused alike."""
    with FakePrometheus() as fake:
        for url in (prometheus.url, fake.url):
            with Asker(BackendSettings(name="b", url=f"{url}/wrong")) as asker:
                caught = catch(asker)
            assert isinstance(caught, BackendRefused)
            assert caught.detail == "404: 404 page not found"


def test_query_is_evaluated_at_the_time_asked_for(prometheus: Prometheus) -> None:
    """The time goes out in a form that Prometheus reads to the millisecond."""
    with Asker(BackendSettings(name="b", url=prometheus.url)) as asker:
        result = asker.query("vector(time())", time_s=NOW_S + 0.125)

    assert [(sample.value, sample.timestamp_s) for sample in result.samples] == [("1700000000.125", NOW_S + 0.125)]


def test_b4_error_text_is_the_servers_own(prometheus: Prometheus) -> None:
    """A PromQL error comes with Prometheus' own type and words."""
    with Asker(BackendSettings(name="b", url=prometheus.url)) as asker:
        caught = catch(asker, 'sum(rate(x{queue="a"}))')

    assert isinstance(caught, BadQuery)
    assert caught.error_type == "bad_data"
    assert "expected type range vector in call to function" in caught.text


@pytest.mark.parametrize("prefix", ["/prometheus", "/a/b"])
def test_b3_route_prefix_is_followed(binary: Path, prefix: str) -> None:
    """A server under a path prefix is asked under it."""
    with (
        Prometheus(binary, route_prefix=prefix) as server,
        Asker(BackendSettings(name="b", url=server.url + "/")) as asker,
    ):
        assert asker.query("vector(1)").samples[0].value == "1"


def test_b13_params_reach_the_server(prometheus3_binary: Path) -> None:
    """A parameter in the URL of a POST is read by the server, letter by letter."""
    with Prometheus(prometheus3_binary) as server:
        settings = BackendSettings(name="b", url=server.url)
        with Asker(replace(settings, params={"lookback_delta": "1m"})) as asker:
            good = asker.query("vector(1)")
        with Asker(replace(settings, params={"lookback_delta": "x&y=z %"})) as asker:
            caught = catch(asker)

    assert good.samples[0].value == "1"
    assert isinstance(caught, BadQuery)
    assert '"x&y=z %"' in caught.text


def test_b8_hung_server_costs_the_deadline_and_recovers(own_prometheus: Prometheus) -> None:
    """A stopped process accepts and never answers: the deadline ends it, and after SIGCONT the same client works."""
    with Asker(BackendSettings(name="b", url=own_prometheus.url)) as asker:
        asker.query("vector(1)")
        own_prometheus.pause()
        started_s = time.monotonic()
        caught = catch(asker, timeout_s=0.5)
        took_s = time.monotonic() - started_s
        own_prometheus.resume()
        recovered = asker.query("vector(1)")

    assert isinstance(caught, DeadlineExceeded)
    assert 0.45 < took_s < 2.0
    assert recovered.samples[0].value == "1"


def test_killed_server_refuses_and_returns_without_an_error(own_prometheus: Prometheus) -> None:
    """After a kill the connection is refused; after a restart on the same port the same client works."""
    with Asker(BackendSettings(name="b", url=own_prometheus.url)) as asker:
        asker.query("vector(1)")
        own_prometheus.kill()
        caught = catch(asker)
        own_prometheus.start()
        recovered = asker.query("vector(1)")

    assert isinstance(caught, BackendUnavailable)
    assert caught.is_connection
    assert caught.detail.endswith(": connection refused")
    assert recovered.samples[0].value == "1"


def test_restarted_server_is_no_error_for_kept_connections(own_prometheus: Prometheus) -> None:
    """Connections kept alive over a restart give no error at all."""
    with Asker(BackendSettings(name="b", url=own_prometheus.url)) as asker:
        asker.query_all(*["vector(1)"] * 6)
        own_prometheus.kill()
        own_prometheus.start()
        results = asker.query_all(*["vector(1)"] * 6)

    assert [result.samples[0].value for result in results] == ["1"] * 6


def test_basic_authentication_opens_a_locked_server(binary: Path, tmp_path: Path) -> None:
    """The right password is let in; without it the 401 is the backend's refusal, never passed on."""
    web_config = tmp_path / "web.yml"
    web_config.write_text(f"basic_auth_users: {{someone: '{PASSWORD_HASH}'}}\n")
    (tmp_path / "password").write_text(PASSWORD + "\n")
    headers = {"Authorization": "Basic c29tZW9uZTpzY3JhcGVyLXB3"}
    with Prometheus(binary, web_config_file=web_config, request_headers=headers) as server:
        settings = BackendSettings(name="b", url=server.url)
        with Asker(replace(settings, basic_auth=BasicAuth("someone", tmp_path / "password"))) as asker:
            allowed = asker.query("vector(1)")
        with Asker(settings) as asker:
            caught = catch(asker)

    assert allowed.samples[0].value == "1"
    assert isinstance(caught, BackendRefused)
    assert caught.detail == "401: Unauthorized"


def test_native_histogram_is_not_a_number(prometheus3_binary: Path) -> None:
    """A native histogram is told as such; its own count is a number."""
    with Exporter(HISTOGRAM) as exporter:
        job = ScrapeJob(name="h", targets=(exporter.target,), extra={"convert_classic_histograms_to_nhcb": True})
        with Prometheus(prometheus3_binary, jobs=[job]) as server:
            server.wait_for("took_seconds")
            with Asker(BackendSettings(name="b", url=server.url)) as asker:
                with pytest.raises(WrongResultType) as caught:
                    asker.query("took_seconds", time_s=time.time())
                count = asker.query("histogram_count(took_seconds)", time_s=time.time())

    assert caught.value.got == "native histogram"
    assert count.samples[0].value == "3"


def test_p2_infos_of_a_real_server_are_dropped(prometheus3_binary: Path) -> None:
    """The info that rate() of a gauge's name brings is no warning."""
    with Exporter("depth 3\n") as exporter:
        job = ScrapeJob(name="h", targets=(exporter.target,))
        with Prometheus(prometheus3_binary, jobs=[job]) as server:
            server.wait_for("rate(depth[10s])")
            with Asker(BackendSettings(name="b", url=server.url)) as asker:
                result = asker.query("rate(depth[10s])", time_s=time.time())

    assert (result.warnings, result.is_partial) == ((), False)


def test_p1_warnings_of_a_real_server_are_carried(prometheus3_binary: Path) -> None:
    """A quantile out of range is warned about, and the warning comes with the result."""
    with (
        Prometheus(prometheus3_binary) as server,
        Asker(BackendSettings(name="b", url=server.url)) as asker,
    ):
        result = asker.query("quantile(2, vector(1))")

    assert len(result.warnings) == 1
    assert "quantile value should be between 0 and 1" in result.warnings[0]


def test_own_timeout_of_a_real_server_is_a_deadline(binary: Path) -> None:
    """A query that Prometheus itself gives up is a deadline exceeded, in its own words."""
    # Prometheus looks at its deadline between the parts of an expression: several short ones, not a long one.
    slow = " + ".join(["count_over_time(vector(1)[200000s:1s])"] * 8)
    with (
        Prometheus(binary, extra_flags=["--query.timeout=1ms"]) as server,
        Asker(BackendSettings(name="b", url=server.url)) as asker,
    ):
        caught = catch(asker, slow, timeout_s=20.0)

    assert isinstance(caught, DeadlineExceeded)
    assert "the backend says timeout: query timed out" in caught.detail


def test_too_many_samples_is_a_bad_query(binary: Path) -> None:
    """Prometheus' own bound on samples (422) is the query's fault, in its own words."""
    with (
        Prometheus(binary, extra_flags=["--query.max-samples=10"]) as server,
        Asker(BackendSettings(name="b", url=server.url)) as asker,
    ):
        caught = catch(asker, "max_over_time(vector(1)[100s:1s])")

    assert isinstance(caught, BadQuery)
    assert caught.error_type == "execution"
    assert "too many samples" in caught.text


def test_page_of_the_fake_is_the_real_ones(prometheus: Prometheus) -> None:
    """The 404 page that the fake sends is the one of the real server."""
    with Asker(BackendSettings(name="b", url=f"{prometheus.url}/x")) as asker, FakePrometheus() as fake:
        real = catch(asker)
        fake.everything = page(404, "404 page not found\n")
        with Asker(BackendSettings(name="b", url=fake.url)) as fake_asker:
            assert catch(fake_asker).describe() == real.describe()
