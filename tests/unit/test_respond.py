"""Replies are built once for each question and outcome, and never sent in place of another one."""

import json

from hypothesis import given
from hypothesis import strategies as st

from adapter.domain.answers import Answer, Item
from adapter.domain.quantity import Quantity
from adapter.errors import MetricError, NoSamples
from adapter.server.respond import Asked, Reply, ReplyMemo, build_error_reply, build_reply
from adapter.server.routes import MetricRoute, Metrics
from adapter.serving.provider import Question
from tests.support.serving import NOW_S, run

ASKED: Asked = ("depth", "queue=a", "app", False)


def build_answer(units: int = 5) -> Answer:
    """Return an answer of one item; equal ones are still not the same object."""
    return Answer((Item(labels={"queue": "a"}, timestamp_s=NOW_S, quantity=Quantity(units * 10**9)),))


def test_memo_finds_the_reply_of_the_same_outcome_only() -> None:
    """An answer of the next tick, equal or not, is never given the reply of the last one."""
    memo, outcome, reply = ReplyMemo(), build_answer(), build_reply({})
    memo.keep(ASKED, outcome, reply)
    assert memo.find(ASKED, outcome) is reply
    assert memo.find(ASKED, build_answer()) is None
    assert memo.find(ASKED, NoSamples()) is None


def test_memo_keeps_questions_apart() -> None:
    """Whoever spells the metric otherwise, asks from elsewhere or wants indentation gets a reply of his own."""
    memo, outcome = ReplyMemo(), build_answer()
    memo.keep(ASKED, outcome, build_reply({}))
    others: tuple[Asked, ...] = (
        ("Depth", "queue=a", "app", False),
        ("depth", "", "app", False),
        ("depth", "queue=a", "other", False),
        ("depth", "queue=a", "app", True),
    )
    assert [memo.find(other, outcome) for other in others] == [None] * 4


def test_memo_takes_bounded_memory() -> None:
    """However many questions are invented, what is kept is bounded, and the last one is among it."""
    memo, outcome, reply = ReplyMemo(), build_answer(), build_reply({"filling": "x" * 100_000})
    for index in range(1_000):
        memo.keep((f"m{index}", "", "app", False), outcome, reply)
        assert memo.find((f"m{index}", "", "app", False), outcome) is reply
    assert sum(len(kept.body) for _, kept in memo._kept.values()) <= 16 * 1024 * 1024


class Changing(Metrics):
    """Answers with the outcome that is in force."""

    def __init__(self) -> None:
        self.outcome: Answer | MetricError = build_answer()

    async def fetch(self, question: Question) -> Answer:  # noqa: ARG002 - the protocol's
        """Answer, or raise."""
        if isinstance(self.outcome, MetricError):
            raise self.outcome
        return self.outcome


def ask(route: MetricRoute, agent: bytes = b"kube-controller-manager") -> Reply:
    """Return the route's reply to one question."""
    scope = {"method": "GET", "query_string": b"labelSelector=queue%3Da", "headers": [(b"user-agent", agent)]}
    reply, complaints = run(route.answer(scope, ("app", "depth")))
    assert not complaints
    return reply


def test_route_sends_the_same_reply_until_the_outcome_changes() -> None:
    """Within a tick nothing is built twice; the next tick's number, error and number again each show at once."""
    metrics = Changing()
    route = MetricRoute(metrics)
    first = ask(route)
    assert ask(route) is first
    assert ask(route, b"curl/8").body == json.dumps(json.loads(first.body), indent=2).encode() + b"\n"
    metrics.outcome = NoSamples()
    failed = ask(route)
    assert (failed.code, failed.reason) == (404, "NoSamples")
    assert ask(route) is failed
    metrics.outcome = build_answer(7)
    assert json.loads(ask(route).body)["items"][0]["value"] == "7"


def test_route_keeps_no_traceback_of_a_request() -> None:
    """An error that is kept does not keep the request that met it."""
    metrics = Changing()
    metrics.outcome = error = NoSamples()
    ask(MetricRoute(metrics))
    assert error.__traceback__ is None


@given(st.text(max_size=50), st.booleans())
def test_error_reply_is_json_of_the_length_it_says(metric: str, is_pretty: bool) -> None:  # noqa: FBT001
    """Whatever the metric is called."""
    reply = build_error_reply(NoSamples(), metric, is_pretty=is_pretty)
    assert json.loads(reply.body)["code"] == reply.code == 404
    assert dict(reply.headers)[b"content-length"] == str(len(reply.body)).encode()
