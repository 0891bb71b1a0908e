"""What the commands print, put together without asking anybody."""

import json

import pytest

from adapter.cli.check_report import CheckReport
from adapter.cli.documents import format_failure, format_items
from adapter.cli.survey import Sighting, describe_result, judge_sightings
from adapter.cli.terminal import format_columns, make_printable
from adapter.config.problems import Kind, Note, Problem
from adapter.domain.evidence import Age, Evidence, Loss
from adapter.domain.inputs import derive_inputs
from adapter.domain.lint import lint_rules
from adapter.domain.promql import parse_shape, parse_template
from adapter.domain.rules import Guards, Rule
from adapter.domain.samples import QueryResult, Sample
from adapter.errors import BackendUnavailable, BadQuery, Incomplete, MetricError, Negative, NoSamples, NotFinite


def build_rule(name: str, query: str = "sum(q)", *, backend: str = "default", line: int = 3) -> Rule:
    """Return a rule as the loader would build it."""
    template = parse_template(query)
    return Rule(
        name=name,
        query=template,
        shape=parse_shape(template),
        backend=backend,
        guards=Guards(max_series=10),
        origin=f"depthgauge.yaml:{line}",
    )


def build_result(*series: tuple[dict[str, str], str]) -> QueryResult:
    """Return a vector of (labels, value text)."""
    return QueryResult(tuple(Sample(labels, value, 1_700_000_000.0) for labels, value in series))


def test_report_lists_every_problem_and_fails() -> None:
    """Problems are all told, each with its place, and the check fails."""
    problem = Problem(("metrics", 3, "query"), Kind.REQUIRED, "expected PromQL", "depthgauge.yaml", 9)
    report = CheckReport(problems=(problem, problem))
    assert not report.is_good(is_strict=False)
    assert report.format_text().splitlines() == [
        str(problem),
        str(problem),
        "2 problems: the configuration cannot be used",
    ]
    document = report.build_document(is_strict=False)
    assert document["ok"] is False
    assert document["problems"][0] == {
        "file": "depthgauge.yaml",
        "line": 9,
        "path": "metrics[3].query",
        "kind": "Required value",
        "value": "",
        "message": "expected PromQL",
    }


def test_report_groups_findings_by_rule_with_their_places() -> None:
    """A person reads rule after rule, each line beginning with what an editor can jump to."""
    rules = (build_rule("a", "avg(q)", line=3), build_rule("b", "sum(q)", line=5), build_rule("c", "q[5m]", line=7))
    lines = CheckReport(rules=rules, lint=lint_rules(rules)).format_text().splitlines()
    assert lines[0].startswith("depthgauge.yaml:3: metrics a: warning: ")
    assert lines[0].endswith(" [average]")
    assert lines[1].startswith("depthgauge.yaml:7: metrics c: error: ")
    assert lines[2] == "3 metrics, 1 error, 1 warning"


@pytest.mark.parametrize(
    ("query", "is_strict", "expected"),
    [
        pytest.param("sum(q)", True, True, id="clean"),
        pytest.param("avg(q)", False, True, id="warning"),
        pytest.param("avg(q)", True, False, id="warning_strict"),
        pytest.param("q[5m]", False, False, id="error"),
    ],
)
def test_report_is_good_as_the_level_says(query: str, is_strict: bool, expected: bool) -> None:  # noqa: FBT001
    """Errors fail a check, warnings only a strict one."""
    rules = (build_rule("a", query),)
    assert CheckReport(rules=rules, lint=lint_rules(rules)).is_good(is_strict=is_strict) is expected


def test_report_counts_notes_of_the_loader_as_warnings() -> None:
    """What the loader remarks is shown, and fails a strict check."""
    report = CheckReport(notes=(Note(("rules",), "ignored", "depthgauge.yaml", 2),))
    assert report.format_text().splitlines() == [
        "depthgauge.yaml:2: rules: ignored [note]",
        "0 metrics, 0 errors, 1 warning",
    ]
    assert report.is_good(is_strict=False)
    assert not report.is_good(is_strict=True)


def test_sighting_describes_the_whole_result() -> None:
    """Series against their bound, the range of the values, the labels and the duration stand in one line."""
    result = build_result(({"queue": "a", "pod": "x"}, "12"), ({"queue": "b"}, "5"), ({"queue": "c"}, "1e+06"))
    sighting = describe_result(build_rule("a"), result, Evidence(tick_s=0.0), duration_s=0.0142)
    assert sighting.describe() == "3 of at most 10 series; 5 to 1e+06; labels pod, queue; 14 ms"
    assert sighting.error is None


@pytest.mark.parametrize(
    ("result", "error"),
    [
        pytest.param(build_result(), NoSamples, id="empty"),
        pytest.param(build_result(({}, "1"), ({"a": "b"}, "NaN")), NotFinite, id="nan"),
        pytest.param(build_result(({}, "-1")), Negative, id="negative"),
    ],
)
def test_sighting_of_the_moment_is_a_warning(result: QueryResult, error: type[MetricError]) -> None:
    """What may be better a minute later is told, and fails no check."""
    sighting = describe_result(build_rule("a"), result, Evidence(tick_s=0.0), duration_s=0.01)
    assert isinstance(sighting.error, error)
    _, of_rules = judge_sightings([sighting])
    assert [(found.level, found.code) for found in of_rules["a"]] == [("warning", str(error.reason))]


def test_outage_is_told_once_for_its_backend() -> None:
    """A hundred metrics of one dead backend are one finding; another backend's single failure stays with its metric."""
    outage = BackendUnavailable(detail="connection refused", is_connection=True)
    sightings = [Sighting(build_rule(f"m{number}"), error=outage) for number in range(100)]
    sightings += [Sighting(build_rule("other", backend="b"), error=outage)]
    of_backends, of_rules = judge_sightings(sightings)
    assert [(found.rule, found.level, found.code) for found in of_backends] == [
        ("backend default", "error", "BackendUnavailable")
    ]
    assert "100 metrics" in of_backends[0].message
    assert list(of_rules) == ["other"]


def test_bad_queries_are_told_of_each_metric() -> None:
    """Two rules that the backend refuses alike are two rules to mend."""
    error = BadQuery(error_type="bad_data", text="expected a range")
    of_backends, of_rules = judge_sightings(
        [Sighting(build_rule("a"), error=error), Sighting(build_rule("b"), error=error)]
    )
    assert of_backends == ()
    assert {name: [found.level for found in found_of] for name, found_of in of_rules.items()} == {
        "a": ["error"],
        "b": ["error"],
    }


def test_live_report_as_json_has_every_sighting() -> None:
    """A program reads what was seen, what failed and what was left out."""
    rules = (build_rule("a"), build_rule("b"), build_rule("c", "sum(q{namespace=$namespace})"))
    evidence = Evidence(tick_s=0.0, inputs=derive_inputs("sum by (x) (q) or vector(0)"), is_aged=True)
    sightings = (
        describe_result(rules[0], build_result(({}, "5")), evidence, duration_s=0.0015),
        Sighting(rules[1], error=BadQuery(error_type="bad_data", text="no"), duration_s=0.002),
        Sighting(rules[2], skipped="no namespace"),
    )
    document = CheckReport(rules=rules, sightings=sightings).build_document(is_strict=False)
    assert json.loads(json.dumps(document["live"])) == [
        {
            "metric": "a",
            "backend": "default",
            "durationMs": 1.5,
            "series": 1,
            "maxSeries": 10,
            "lowest": "5",
            "highest": "5",
            "labels": [],
            "guards": [
                {
                    "guard": "maxAge",
                    "state": "active",
                    "detail": "no sample; at most 120 s",
                    "seen": None,
                    "limit": 120,
                },
                {"guard": "lostTargets", "state": "active", "detail": "no target is down", "seen": 0, "limit": 0},
                {"guard": "minSeries", "state": "off", "detail": "off", "seen": None, "limit": None},
            ],
        },
        {
            "metric": "b",
            "backend": "default",
            "durationMs": 2.0,
            "reason": "BadQuery",
            "message": "the backend refuses the query: bad_data: no",
        },
        {"metric": "c", "backend": "default", "skipped": "no namespace"},
    ]
    text = CheckReport(rules=rules, sightings=sightings).format_text()
    assert text.splitlines()[-1] == "3 metrics, 1 error, 0 warnings, 1 answered live"
    assert "metrics c: live: not asked: no namespace" in text


def test_guard_that_only_the_backend_shows_to_be_blind_is_a_finding() -> None:
    """No target with an `up` feeds the rule: lostTargets does nothing, and the way out is named."""
    rule = build_rule("a")
    inputs = derive_inputs("sum(q)")
    evidence = Evidence(tick_s=0.0, inputs=inputs, is_aged=True, ages={(): Age(-1.0, 1.0)})
    result = build_result(({}, "5"))
    blind = describe_result(rule, result, evidence, duration_s=0.001, feeding=[])
    seeing = describe_result(rule, result, evidence, duration_s=0.001, feeding=["job/1"])
    _, of_rules = judge_sightings([blind])
    assert [(found.level, found.code) for found in of_rules["a"]] == [("warning", "guard-blind")]
    assert "guards.require" in of_rules["a"][0].message
    assert judge_sightings([seeing]) == ((), {})
    text = CheckReport(rules=(rule,), sightings=(seeing,)).format_text()
    assert (
        "guards: maxAge: the oldest of 1 is 1.0 s old; at most 120 s | lostTargets: fed by 1 target(s): job/1; "
        "no target is down"
    ) in text


def test_lost_target_is_an_error_of_the_live_check() -> None:
    """What a request would be refused for, the check refuses too, and says which target."""
    evidence = Evidence(tick_s=0.0, inputs=derive_inputs("sum(q)"), losses=[Loss("job/1", {})], targets_down=1)
    sighting = describe_result(build_rule("a"), build_result(({}, "5")), evidence, duration_s=0.001, feeding=["job/2"])
    assert isinstance(sighting.error, Incomplete)
    assert "down: job/1" in sighting.describe_guards()
    _, of_rules = judge_sightings([sighting])
    assert [(found.level, found.code) for found in of_rules["a"]] == [("error", "Incomplete")]


def test_items_are_a_table_with_their_labels() -> None:
    """People see labels, value and timestamp in columns; an item without labels has a dash."""
    items = [
        {"metricLabels": {"queue": "orders", "pod": "x"}, "value": "12", "timestamp": "2026-01-01T00:00:00Z"},
        {"metricLabels": {}, "value": "329500m", "timestamp": "2026-01-01T00:00:00Z"},
    ]
    assert format_items({"items": items}).splitlines() == [
        "LABELS              VALUE    TIMESTAMP",
        "pod=x,queue=orders  12       2026-01-01T00:00:00Z",
        "-                   329500m  2026-01-01T00:00:00Z",
    ]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param(
            {
                "message": 'metric "q": nothing',
                "reason": "NotFound",
                "code": 404,
                "details": {"causes": [{"reason": "NoSamples"}]},
            },
            'metric "q": nothing (NoSamples, 404)',
            id="ours",
        ),
        pytest.param(
            {"message": "not found", "reason": "NotFound", "code": 404, "details": None},
            "not found (NotFound, 404)",
            id="foreign",
        ),
    ],
)
def test_failure_names_our_reason_where_there_is_one(status: dict[str, object], expected: str) -> None:
    """The Reason of the closed set is what people search for."""
    assert format_failure(status) == expected


def test_foreign_text_cannot_steer_the_terminal() -> None:
    """Escape sequences in a label or a backend's message are shown, not obeyed."""
    assert make_printable("a\x1b[31mb\tc\u202ed\né") == "a\\x1b[31mb\\tc\\u202ed\né"
    assert format_columns([("a\nb", "c"), ("d", "e")]) == "a\\nb  c\nd     e"
