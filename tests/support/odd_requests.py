"""Requests that nobody should send: odd paths, queries, headers, methods and bytes, as hypothesis strategies."""

from urllib.parse import quote, urlencode

from hypothesis import strategies as st

from tests.support.asgi import ROOT

segments = st.binary(max_size=12).map(lambda raw: quote(raw, safe="/:%").encode()) | st.sampled_from(
    [
        b"..",
        b".",
        b"%2e%2e",
        b"%",
        b"%2",
        b"%2F",
        b"%00",
        b"n",
        b"namespaces",
        b"",
        b"//",
        b"%C3%A9",
        b"\xff",
        b"m",
        b";x",
    ]
)
prefixes = st.sampled_from(
    [
        b"/",
        b"/apis",
        b"/apis/",
        b"/apis/external.metrics.k8s.io/",
        f"{ROOT}/".encode(),
        f"{ROOT}/namespaces/".encode(),
        f"{ROOT}/namespaces/n/depth".encode(),
        b"/openapi/v3/",
        b"/openapi/v2",
        b"/version",
        b"/readyz",
        b"/readyz/",
        b"/livez",
        b"/%72eadyz",
        b"/readyz%0a",
        b"/apis/../readyz",
        b"//readyz",
    ]
)
paths = st.tuples(prefixes, st.lists(segments, max_size=4).map(b"/".join)).map(
    lambda parts: b"".join(parts).replace(b"?", b"%3F").replace(b"#", b"%23").replace(b" ", b"%20")
)
selectors = st.text(alphabet="ab=!<>,() \n\t\"'{}\\é\x00in", max_size=20) | st.sampled_from(
    ["queue=a", "queue in (a,b)", "!queue", "queue notin (", "a=b,a=c", "x" * 500]
)
queries = st.one_of(
    st.just(b""),
    st.binary(max_size=30).map(lambda raw: raw.replace(b"#", b"")),
    st.dictionaries(
        st.sampled_from(["labelSelector", "fieldSelector", "watch", "pretty", "timeout", "limit", "verbose"]), selectors
    ).map(lambda pairs: urlencode(pairs).encode()),
)
names = st.sampled_from(
    [
        b"x-remote-user",
        b"x-remote-group",
        b"x-remote-uid",
        b"x-remote-extra-scopes",
        b"x-remote-extra-%2f%zz",
        b"x-remote-extra-",
        b"authorization",
        b"accept",
        b"audit-id",
        b"if-none-match",
        b"user-agent",
        b"host",
        b"x-forwarded-for",
        b"cookie",
        b"content-type",
        b"range",
    ]
)
values = st.binary(max_size=40).filter(lambda raw: not set(raw) & {0, 10, 13}) | st.sampled_from(
    [
        b"admin",
        b"system:masters",
        b"system:authenticated",
        b"Bearer bad",
        b"bearer",
        b"Basic eDp5",
        b"application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        b"*/*;q=0",
        b",;=,",
        b"*",
        b"curl/8",
        b"x" * 300,
    ]
)
headers = st.lists(st.tuples(names, values), max_size=5).map(tuple)
methods = st.sampled_from(["GET"] * 6 + ["POST", "PUT", "PATCH", "HEAD", "DELETE", "OPTIONS", "TRACE"])
