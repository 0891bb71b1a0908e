"""Loading: what a good configuration means, and every problem of a bad one with its place."""

import os
import time
from pathlib import Path

import pytest

from adapter.config.load import load_configuration
from adapter.config.problems import ConfigurationError, Kind
from adapter.config.sources import FILE_LIMIT_BYTES
from adapter.domain.backends import BasicAuth, TlsSettings
from adapter.domain.matchers import Matcher
from adapter.domain.promql import parse_template
from adapter.domain.rules import AnyNamespace, Guards, NamespaceLabel, NamespaceList

BACKEND = "prometheus: {url: http://prometheus:9090}\n"
METRIC = BACKEND + "metrics:\n- name: depth\n  query: sum(q)\n"


def write(folder: Path, text: str | bytes, name: str = "depthgauge.yaml") -> Path:
    """Write *text* as a file of *folder*."""
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def list_problems(path: Path) -> list[tuple[str, int, str]]:
    """Return (path, line, kind and value and detail) of the problems of the configuration at *path*."""
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(path)
    lines = []
    for problem in caught.value.problems:
        head = f"{problem.file}:{problem.line}: "
        assert str(problem).startswith(head)
        lines.append(str(problem).removeprefix(head))
    assert str(caught.value) == "\n".join(map(str, caught.value.problems))
    return [(line, problem.line, problem.kind) for line, problem in zip(lines, caught.value.problems, strict=True)]


def test_load_smallest_configuration_has_the_documented_defaults(tmp_path: Path) -> None:
    """A URL, a name and a query are enough; everything else has its documented default."""
    loaded = load_configuration(write(tmp_path, METRIC))
    configuration = loaded.configuration
    backend, rule = configuration.backends["default"], configuration.get_rule("depth")
    assert (backend.url, backend.timeout_s, backend.max_concurrency) == ("http://prometheus:9090", 5.0, 16)
    assert (backend.bearer_token_file, backend.basic_auth, backend.tls) == (None, None, TlsSettings())
    assert configuration.resolution_s == 5.0
    assert (rule.backend, rule.namespace, rule.negative) == ("default", AnyNamespace(), "error")
    assert rule.guards == Guards(max_series=1000, expect_one=False, allow_partial=False)
    assert rule.origin == f"{tmp_path}/depthgauge.yaml:3"
    assert loaded.warnings == ()


def test_load_full_configuration_carries_every_key(tmp_path: Path) -> None:
    """Every key that is served reaches the configuration; files are counted from the configuration's folder."""
    path = write(
        tmp_path,
        """\
prometheus:
  url: https://prometheus:9090/prefix/
  timeout: 1m500ms
  maxConcurrency: 4
  basicAuth: {username: me, passwordFile: secrets/password}
  tls: {caFile: /ca.pem, certFile: client.pem, keyFile: client.key, serverName: prom, insecureSkipVerify: false}
  headers: {X-Scope-OrgID: team-a}
  params: {dedup: "true"}
backends:
  other: {url: "http://other", bearerTokenFile: token}
resolution: 10s
metrics:
- name: Depth
  query: sum by (app) (q{$matchers,ns=$namespace})
  backend: other
  namespace: {label: ns}
  labels: {app.kubernetes.io/name: app}
  aliases: {route: {login: /v1/login}}
  empty: {zeroWhile: 'up{job="exporter"} == 1'}
  negative: clamp
  hold: 5m
  guards: {maxAge: 10m, freshness: push_time, lostTargets: 1d, tolerateLost: any, minSeries: 3, maxSeries: 7,
    expectOne: true, allowPartial: true, require: 'up == 1'}
- {name: listed, query: q, namespace: [team-a, team-b]}
""",
    )
    configuration = load_configuration(path).configuration
    backend, other = configuration.backends["default"], configuration.backends["other"]
    assert (backend.url, backend.timeout_s, backend.max_concurrency) == ("https://prometheus:9090/prefix", 60.5, 4)
    assert backend.basic_auth == BasicAuth("me", tmp_path / "secrets/password")
    assert backend.tls == TlsSettings(
        Path("/ca.pem"), tmp_path / "client.pem", tmp_path / "client.key", server_name="prom"
    )
    assert (backend.headers, backend.params) == ({"X-Scope-OrgID": "team-a"}, {"dedup": "true"})
    assert other.bearer_token_file == tmp_path / "token"
    assert configuration.resolution_s == 10.0
    rule = configuration.get_rule("DEPTH")
    assert rule.query.render(matchers=[Matcher("a", "=", "b")], namespace="n") == 'sum by (app) (q{a="b",ns="n"})'
    assert (rule.backend, rule.namespace, rule.negative) == ("other", NamespaceLabel("ns"), "clamp")
    assert rule.labels == {"app.kubernetes.io/name": "app"}
    assert rule.aliases == {"route": {"login": "/v1/login"}}
    assert rule.guards == Guards(
        max_age_s=600.0,
        freshness=parse_template("push_time"),
        lost_targets_s=86_400.0,
        tolerate_lost="any",
        min_series=3,
        max_series=7,
        expect_one=True,
        allow_partial=True,
        require=parse_template("up == 1"),
    )
    assert rule.zero_while == parse_template('up{job="exporter"} == 1')
    assert rule.hold_s == 300.0
    assert configuration.get_rule("listed").namespace == NamespaceList(frozenset({"team-a", "team-b"}))


@pytest.mark.parametrize("text", ["metrics: []\n", BACKEND, "{}\n", "externalRules: []\n"])
def test_load_without_rules_is_fine(tmp_path: Path, text: str) -> None:
    """D1, D7: no rules at all is a configuration, with or without a backend."""
    assert load_configuration(write(tmp_path, text)).configuration.rules == {}


def test_load_keeps_a_query_that_the_parser_cannot_read(tmp_path: Path) -> None:
    """PromQL that cannot be parsed is not a problem of the configuration: that rule alone will answer BadQuery."""
    text = METRIC + "- {name: broken, query: 'sum(rate('}\n- {name: range, query: 'q[5m]'}\n"
    configuration = load_configuration(write(tmp_path, text)).configuration
    assert configuration.get_rule("broken").shape.problem != ""
    assert configuration.get_rule("range").shape.result_type == "matrix"


def test_load_survives_a_query_that_would_overflow_the_parser(tmp_path: Path) -> None:
    """Nesting that ends promql-parser's process is told as unparsable, and the rest is served."""
    text = METRIC + f"- {{name: deep, query: '{'(' * 50_000}x'}}\n- {{name: long, query: '{'x+' * 20_000}x'}}\n"
    configuration = load_configuration(write(tmp_path, text)).configuration
    assert "operators and parentheses" in configuration.get_rule("deep").shape.problem
    assert "operators and parentheses" in configuration.get_rule("long").shape.problem


def test_problem_is_printed_as_documented(tmp_path: Path) -> None:
    """The line is the one that design.md shows."""
    path = write(tmp_path, METRIC + "  guards:\n    maxAge: 5x\n")
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(path)
    expected = 'metrics[0].guards.maxAge: Invalid value "5x": expected a duration such as 30s'
    assert str(caught.value) == f"{path}:6: {expected}"


BACKEND_CASES = [
    ("url: prometheus:9090", "url: Invalid value: needs the scheme http or https"),
    ("url: ftp://p", "url: Invalid value: needs the scheme http or https"),
    ("url: 'http://p:99999'", "url: Invalid value: Port out of range"),
    ("url: http://user:hunter2@p", "url: Invalid value: credentials in a URL would leak"),
    ("url: http://p/?a=b", "url: Invalid value: a query or fragment"),
    ("url: 'http://p q'", "url: Invalid value: blanks"),
    ("timeout: 5s", "url: Required value: this key is needed"),
    ("{url: http://p, timeout: 0s}", 'timeout: Invalid value "0s": must be more than 0s'),
    ("{url: http://p, timeout: 5}", "timeout: Invalid value 5: expected text: put it in quotes"),
    ("{url: http://p, maxConcurrency: 0}", "maxConcurrency: Invalid value 0: expected at least 1"),
    ("{url: http://p, maxConcurrency: 1001}", "maxConcurrency: Invalid value 1001: expected at most 1000"),
    ("{url: http://p, maxConcurrency: true}", "maxConcurrency: Invalid value true: expected a whole number"),
    ("{url: http://p, timout: 5s}", 'timout: Unknown key: did you mean "timeout"?'),
    ("{url: http://p, zzz: 5s}", "zzz: Unknown key: known here: url, timeout"),
    ("{url: http://p, headers: {'a b': x}}", 'headers["a b"]: Invalid value "a b": not an HTTP header name'),
    ('{url: http://p, headers: {A: "hunter2\\r\\nB: y"}}', "headers.A: Invalid value: a header's value must be"),
    ("{url: http://p, headers: {a: x, A: y}}", "headers.A: Duplicate value: the same header as a"),
    ("{url: http://p, headers: {Content-Length: '1'}}", 'headers.Content-Length: Invalid value "Content-Length": this'),
    ("{url: http://p, params: {time: '1'}}", 'params.time: Invalid value "time": this parameter is set'),
    ("{url: http://p, params: {dedup: true}}", "params.dedup: Invalid value: expected text: put it in quotes"),
    ("{url: http://p, basicAuth: 'me:hunter2'}", "basicAuth: Invalid value: expected a mapping"),
    ("{url: http://p, basicAuth: {username: me}}", "basicAuth.passwordFile: Required value"),
    (
        "{url: http://p, bearerTokenFile: t, basicAuth: {username: me, passwordFile: p}}",
        "basicAuth: Invalid value: not together with bearerTokenFile",
    ),
    (
        "{url: http://p, bearerTokenFile: t, headers: {authorization: hunter2}}",
        "headers.authorization: Invalid value: not together with bearerTokenFile",
    ),
    (
        "{url: https://p, tls: {caFile: a, insecureSkipVerify: true}}",
        "tls.insecureSkipVerify: Invalid value true: not together with caFile",
    ),
    ("{url: https://p, tls: {keyFile: a}}", "tls.certFile: Required value: keyFile needs"),
    ("[]", ": Invalid value []: expected a mapping"),
    ("", ": Required value: the key has no value"),
    ("{url: http://p, tls: }", "tls: Required value: the key has no value"),
]


@pytest.mark.parametrize(("keys", "expected"), [pytest.param(*case, id=case[1][:40]) for case in BACKEND_CASES])
def test_backend_problem_names_key_value_and_remedy(tmp_path: Path, keys: str, expected: str) -> None:
    """A bad key of a backend is one problem at its place, which never shows what may be a secret."""
    block = keys if keys.startswith(("{", "[")) or not keys else "{" + keys + "}"
    ((line, number, _),) = list_problems(write(tmp_path, f"metrics: []\nprometheus: {block}\n"))
    prefix = "prometheus" if expected.startswith(":") else "prometheus."
    assert line.startswith(prefix + expected)
    assert number == 2
    assert "hunter2" not in line


METRIC_CASES = [
    ("name: a/b", 'name: Invalid value "a/b": a metric name is one segment'),
    ("name: a%20b", 'name: Invalid value "a%20b": a metric name is one segment'),
    ("name: ..", 'name: Invalid value "..": a metric name must not be'),
    ("name: ''", 'name: Invalid value "": a metric name must not be empty'),
    (f"name: {'x' * 254}", 'name: Invalid value "xxx'),
    ("name: 5", "name: Invalid value 5: expected text: put it in quotes"),
    ("name: [a]", 'name: Invalid value ["a"]: expected text'),
    ("query: '  '", 'query: Invalid value "  ": expected PromQL'),
    ("query: sum(q) by ($matchers)", 'query: Invalid value "sum(q) by ($matchers)": $matchers must stand'),
    ("querry: q", 'querry: Unknown key: did you mean "query"?'),
    ("Backend: q", 'Backend: Unknown key: did you mean "backend"?'),
    ("backend: [default]", 'backend: Invalid value ["default"]: expected text'),
    ("backend: null", "backend: Required value: the key has no value"),
    ("backend: defualt", 'backend: Invalid value "defualt": no such backend; did you mean "default"?'),
    ("namespace: team-a", 'namespace: Invalid value "team-a": expected any, {label: LABEL}'),
    ("namespace: [Team]", 'namespace[0]: Invalid value "Team": expected a namespace'),
    ("namespace: []", "namespace: Invalid value []: expected at least one item"),
    ("namespace: {labl: x, label: y}", 'namespace.labl: Unknown key: did you mean "label"?'),
    ("labels: {a b: x}", 'labels["a b"]: Invalid value "a b": not a Kubernetes label key'),
    ("labels: {a in (b): x}", 'labels["a in (b)"]: Invalid value "a in (b)": not a Kubernetes label key'),
    ("labels: {Example.com/a: x}", 'labels["Example.com/a"]: Invalid value "Example.com/a": not a'),
    ("labels: {' a': x}", 'labels[" a"]: Invalid value " a": not a Kubernetes label key'),
    ("labels: {a: ''}", 'labels.a: Invalid value "": must not be empty'),
    ("aliases: {a: {-: x}}", 'aliases.a["-"]: Invalid value "-": not a Kubernetes label value'),
    ("aliases: {a: {b: 5}}", "aliases.a.b: Invalid value 5: expected text: put it in quotes"),
    ("aliases: {a: b}", 'aliases.a: Invalid value "b": expected a mapping'),
    ("empty: zero", 'empty: Invalid value "zero": expected error or {zeroWhile: PROMQL}'),
    ("empty: {zeroWhile: ''}", 'empty.zeroWhile: Invalid value "": expected PromQL'),
    ("negative: zero", 'negative: Invalid value "zero": expected error or clamp'),
    ("hold: 1.5m", 'hold: Invalid value "1.5m": expected a duration such as 30s'),
    ("guards: {maxSeries: 0}", "guards.maxSeries: Invalid value 0: expected at least 1"),
    ("guards: {expectOne: 1}", "guards.expectOne: Invalid value 1: expected true or false"),
    ("guards: {maxage: 1m}", 'guards.maxage: Unknown key: did you mean "maxAge"?'),
    ("guards: ", "guards: Required value: the key has no value"),
    ("guards: {tolerateLost: some}", 'guards.tolerateLost: Invalid value "some": expected none or any'),
    ("guards: {minSeries: -1}", "guards.minSeries: Invalid value -1: expected at least 0"),
]


@pytest.mark.parametrize(("key", "expected"), [pytest.param(*case, id=case[0][:40]) for case in METRIC_CASES])
def test_metric_problem_names_key_value_and_remedy(tmp_path: Path, key: str, expected: str) -> None:
    """A bad key of a metric is one problem, at the line of that key."""
    base = {"name": "name: depth", "query": "query: sum(q)"}
    base[key.partition(":")[0]] = key
    text = BACKEND + "metrics:\n- # the metric\n" + "".join(f"  {line}\n" for line in base.values())
    ((line, number, _),) = list_problems(write(tmp_path, text))
    assert line.startswith("metrics[0]." + expected)
    assert number == 4 + list(base).index(key.partition(":")[0])


@pytest.mark.parametrize("value", ["500ms", "61s", "0", "5"])
def test_resolution_outside_its_bounds_is_refused(tmp_path: Path, value: str) -> None:
    """The tick grid is between 1 s and 60 s."""
    ((line, number, _),) = list_problems(write(tmp_path, f"{METRIC}resolution: '{value}'\n"))
    assert line.startswith(f'resolution: Invalid value "{value}": expected')
    assert number == 5


def test_m2_names_equal_but_for_case_are_refused(tmp_path: Path) -> None:
    """M2: the HPA asks in lower case, so two names that differ in case only are a problem that names both places."""
    path = write(tmp_path, METRIC + "- {name: DEPTH, query: q}\n")
    ((line, number, kind),) = list_problems(path)
    assert (number, kind) == (5, Kind.DUPLICATE)
    assert line.startswith(f'metrics[1].name: Duplicate value "DEPTH": a metric of this name stands at {path}:3')


def test_m2_duplicate_is_told_even_where_the_rules_are_bad(tmp_path: Path) -> None:
    """Another problem of the same rule does not hide that its name is taken."""
    found = list_problems(write(tmp_path, METRIC + "- {name: Depth, query: ''}\n"))
    assert [line.split(": ")[0] for line, _, _ in found] == ["metrics[1].name", "metrics[1].query"]


def test_all_problems_of_all_files_come_at_once_by_file_and_line(tmp_path: Path) -> None:
    """One run tells everything, in the order of reading."""
    write(tmp_path, "prometheus: {url: x}\nmetrics: [{nam: x}]\n", "a.yaml")
    write(tmp_path, "metrics: [{name: a, query: ''}]\nresolution: 1h\n", "b.yml")
    write(tmp_path, b"\xff", "c.yaml")
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(tmp_path)
    places = [(Path(problem.file).name, problem.line, problem.path[:1]) for problem in caught.value.problems]
    assert places == [
        ("a.yaml", 1, ("prometheus",)),
        ("a.yaml", 2, ("metrics",)),
        ("a.yaml", 2, ("metrics",)),
        ("a.yaml", 2, ("metrics",)),
        ("b.yml", 1, ("metrics",)),
        ("b.yml", 2, ("resolution",)),
        ("c.yaml", 1, ()),
    ]


def test_missing_backend_says_what_to_write(tmp_path: Path) -> None:
    """Rules without `prometheus:` are one problem, at the first rule, however many rules there are."""
    text = "metrics:\n- {name: a, query: q}\n- {name: b, query: q}\n"
    ((line, number, kind),) = list_problems(write(tmp_path, text))
    assert (number, kind) == (2, Kind.REQUIRED)
    assert line.startswith("prometheus: Required value: ")
    assert "prometheus: {url: http://" in line


def test_missing_backend_is_not_claimed_while_a_file_is_unreadable(tmp_path: Path) -> None:
    """A backend may stand in the file that could not be read: no problem that only follows from another."""
    write(tmp_path, "metrics: [{name: a, query: q}]\n", "a.yaml")
    write(tmp_path, "prometheus: {url: 'http://p'\n", "b.yaml")
    ((_, _, kind),) = list_problems(tmp_path)
    assert kind == Kind.SYNTAX


FILE_CASES = [
    ("empty", b"", 1, "Not readable: the file is empty"),
    ("comments", b"# nothing\n", 1, "Not readable: the file is empty"),
    ("binary", b"\x7fELF\x02\x00\x00", 1, "Not readable: not a text file"),
    ("control", b"a: b\nc: \x1b[0m\n", 2, "Not readable: not a text file"),
    ("latin-1", b"metrics: []\n# \xe9\n", 2, "Not readable: not UTF-8 text (byte 0xe9)"),
    ("utf-16", "metrics: []".encode("utf-16"), 1, "Not readable: the file is UTF-16"),
    ("tab", b"prometheus:\n\turl: http://p\n", 2, "Not readable as YAML: a tab where YAML allows only spaces"),
    ("unclosed", b"metrics: [\n", 2, "Not readable as YAML: "),
    ("two-documents", b"metrics: []\n---\nmetrics: []\n", 2, "Not readable as YAML: a second YAML document"),
    ("object", b"metrics: !!python/object/apply:os.system [x]\n", 1, "Not readable as YAML: the tag"),
    ("deep", b"metrics: " + b"[" * 100, 1, "Not readable as YAML: nested more than"),
    ("own-anchor", b"metrics: &a [*a]\n", 1, "Not readable as YAML: the alias *a"),
    ("complex-key", b"? [a]\n: b\n", 1, "Not readable as YAML: a key must be plain text"),
    ("list", b"- name: a\n", 1, 'Invalid value [{"name": "a"}]: expected a mapping'),
    ("text", b"hello\n", 1, 'Invalid value "hello": expected a mapping'),
    ("large", b"#" * (FILE_LIMIT_BYTES + 1), 1, "Not readable: the file is larger than 4 MiB"),
    ("same-key", b"metrics: []\nmetrics: []\n", 2, 'metrics: Duplicate value "metrics": the same key stands at'),
    ("odd-number", b"metrics: []\nresolution: 1:30\n", 2, "resolution: Invalid value: not a number"),
]


@pytest.mark.parametrize(("content", "line", "expected"), [pytest.param(*case[1:], id=case[0]) for case in FILE_CASES])
def test_unreadable_file_is_a_problem_with_its_line(tmp_path: Path, content: bytes, line: int, expected: str) -> None:
    """Whatever a file holds, the answer is a problem with a line."""
    text, number, _ = list_problems(write(tmp_path, content))[0]
    assert (text[: len(expected)], number) == (expected, line)


def test_alias_bomb_is_refused_quickly(tmp_path: Path) -> None:
    """Aliases of aliases are counted as often as they are used, and not expanded first."""
    levels = ["a0: &a0 [x,x,x,x,x,x,x,x,x,x]"]
    levels += [f"a{level}: &a{level} [{','.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
    started_s = time.perf_counter()
    ((line, _, _),) = list_problems(write(tmp_path, "\n".join(levels)))
    assert "aliases counted" in line
    assert time.perf_counter() - started_s < 5


def test_anchors_and_merge_keys_are_read(tmp_path: Path) -> None:
    """Honest use of YAML's anchors works, and own keys win over merged ones."""
    text = BACKEND + "metrics:\n- &base {name: a, query: q, negative: clamp}\n- {<<: *base, name: b}\n"
    rule = load_configuration(write(tmp_path, text)).configuration.get_rule("b")
    assert (rule.name, rule.negative, rule.query.text) == ("b", "clamp", "q")


def test_words_that_yaml_takes_for_constants_are_good_keys(tmp_path: Path) -> None:
    """A key is its text: `on` and `1` are label keys, not a boolean and a number."""
    text = METRIC + "  labels: {on: x, 1: y}\n"
    assert load_configuration(write(tmp_path, text)).configuration.get_rule("depth").labels == {"on": "x", "1": "y"}


def test_directory_is_read_as_a_mounted_config_map(tmp_path: Path) -> None:
    """`..data` and dotfiles are not read twice, links are followed, other endings are left alone."""
    data = tmp_path / "..2026_01_01"
    data.mkdir()
    write(data, METRIC, "a.yaml")
    write(data, "backends: {b: {url: http://b}}\nmetrics: [{name: x, query: q, backend: b}]\n", "b.yml")
    (tmp_path / "..data").symlink_to(data.name)
    for name in ("a.yaml", "b.yml"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    write(tmp_path, b"\xff", ".hidden.yaml")
    write(tmp_path, b"\xff", "README.md")
    (tmp_path / "sub.yaml").mkdir()
    configuration = load_configuration(tmp_path).configuration
    assert (set(configuration.rules), set(configuration.backends)) == ({"depth", "x"}, {"default", "b"})


def test_conflicting_files_name_both_places(tmp_path: Path) -> None:
    """What may be said once and is said twice is a problem at the second place that names the first."""
    write(tmp_path, "prometheus: {url: http://a}\nresolution: 5s\nbackends: {b: {url: http://b}}\n", "a.yaml")
    write(tmp_path, "prometheus: {url: http://a}\nresolution: 5s\nbackends: {b: {url: http://b}}\n", "b.yaml")
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(tmp_path)
    found = caught.value.problems
    assert [(problem.kind, problem.line) for problem in found] == [(Kind.DUPLICATE, line) for line in (1, 2, 3)]
    assert all(f"{tmp_path}/a.yaml:{problem.line} already" in problem.detail for problem in found)
    assert {problem.file for problem in found} == {f"{tmp_path}/b.yaml"}


@pytest.mark.parametrize("kind", ["missing", "empty-directory", "broken-link", "pipe"])
def test_path_that_is_no_configuration_is_a_problem(tmp_path: Path, kind: str) -> None:
    """A path without anything to read is told, and a named pipe does not hang."""
    path = tmp_path / "depthgauge.yaml"
    match kind:
        case "empty-directory":
            path = tmp_path
        case "broken-link":
            path.symlink_to("nowhere")
        case "pipe":
            os.mkfifo(path)
    ((_, line, problem_kind),) = list_problems(path)
    assert (line, problem_kind) == (1, Kind.UNREADABLE)


def test_tls_on_plain_http_is_noted(tmp_path: Path) -> None:
    """TLS settings that are not used are worth a note, not a refusal."""
    text = "prometheus: {url: http://p, tls: {insecureSkipVerify: true}}\n"
    (note,) = load_configuration(write(tmp_path, text)).warnings
    assert (note.path, note.line) == (("prometheus", "tls"), 1)


def test_fingerprint_follows_content_and_names(tmp_path: Path) -> None:
    """The fingerprint changes with any content or name, and with nothing else."""
    path = write(tmp_path, METRIC)
    first = load_configuration(tmp_path).fingerprint
    os.utime(path, (0, 0))
    assert load_configuration(tmp_path).fingerprint == first
    path.rename(tmp_path / "other.yaml")
    renamed = load_configuration(tmp_path).fingerprint
    write(tmp_path, METRIC + "# \n", "other.yaml")
    assert len({first, renamed, load_configuration(tmp_path).fingerprint, ""}) == 4


def test_thousand_rules_load_within_two_seconds(tmp_path: Path) -> None:
    """A large configuration does not hold a reload."""
    rules = "".join(
        f'- name: queue_{number}\n  query: sum by (queue) (rate(q{{n="{number}",$matchers}}[5m]))\n'
        f"  namespace: {{label: namespace}}\n  labels: {{app.kubernetes.io/name: app}}\n  guards: {{maxSeries: 10}}\n"
        for number in range(1000)
    )
    path = write(tmp_path, BACKEND + "metrics:\n" + rules)
    started_s = time.perf_counter()
    assert len(load_configuration(path).configuration.rules) == 1000
    assert time.perf_counter() - started_s < 2
