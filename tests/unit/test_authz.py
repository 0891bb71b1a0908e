"""Authorization: what is asked of the cluster, how long its word stands, and what its silence means."""

import asyncio
from dataclasses import replace

import pytest

from adapter.domain.identity import AccessDecision, AccessQuestion, User
from adapter.errors import Forbidden, Unauthenticated
from adapter.server import authz
from adapter.server.authz import (
    Authorizer,
    build_metric_question,
    build_path_question,
    describe_denial,
    is_open_path,
)
from tests.support.door import ALICE, DENIED, Reviews, ScriptedCluster, build_door, build_scope
from tests.support.serving import ManualClock, asynchronous, settle, until

HPA = User("system:serviceaccount:kube-system:horizontal-pod-autoscaler", groups=("system:authenticated",))
LIST_DEPTH = build_metric_question("GET", "team-a", "depth")


@pytest.mark.parametrize(
    ("method", "verb"),
    [
        ("GET", "list"),
        ("HEAD", "list"),
        ("POST", "create"),
        ("PUT", "update"),
        ("PATCH", "patch"),
        ("DELETE", "delete"),
        ("OPTIONS", "options"),
    ],
)
def test_verb_is_the_one_that_the_generic_server_derives(method: str, verb: str) -> None:
    """A GET of a metric names no object: RBAC must allow `list`."""
    assert build_metric_question(method, "team-a", "depth") == AccessQuestion(
        verb=verb, group="external.metrics.k8s.io", version="v1beta1", resource="depth", namespace="team-a"
    )


def test_other_paths_are_asked_about_as_paths() -> None:
    """Discovery is no resource."""
    scope = build_scope("/apis/external.metrics.k8s.io")
    assert build_path_question(scope) == AccessQuestion(verb="get", path="/apis/external.metrics.k8s.io")


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_probes_paths_are_open(path: str) -> None:
    """A kubelet has no certificate for us."""
    assert is_open_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "",
        "/readyz/",
        "/readyz/x",
        "/READYZ",
        "/apis",
        "/metrics",
        "/version",
        "/livez\n",
        "//livez",
        "/openapi/v2",
    ],
)
def test_no_other_path_is_open(path: str) -> None:
    """Exactly three."""
    assert not is_open_path(path)


def test_a5_denial_names_user_verb_resource_and_namespace() -> None:
    """A5: the sentence of the generic API server, which administrators know."""
    assert describe_denial(HPA, LIST_DEPTH) == (
        'User "system:serviceaccount:kube-system:horizontal-pod-autoscaler" cannot list resource "depth" '
        'in API group "external.metrics.k8s.io" in the namespace "team-a"'
    )
    assert describe_denial(HPA, AccessQuestion(verb="get", path="/apis")).endswith('cannot get path "/apis"')


@asynchronous
async def test_a5_denied_user_is_told_what_and_why() -> None:
    """A5: with the cluster's own reason behind, if it gave one."""
    cluster = ScriptedCluster(access=AccessDecision(is_allowed=False, reason="no binding"))
    with pytest.raises(Forbidden) as caught:
        await Authorizer(cluster, ManualClock()).check_access(HPA, LIST_DEPTH)
    assert caught.value.action == describe_denial(HPA, LIST_DEPTH)
    assert caught.value.detail == "no binding"
    assert cluster.reviewed_access == [(HPA, LIST_DEPTH)]


@asynchronous
async def test_superuser_is_not_asked_about() -> None:
    """system:masters may do everything, also while the cluster is away."""
    cluster = ScriptedCluster(access=Forbidden(action="", detail="away"))
    await Authorizer(cluster, ManualClock()).check_access(User("admin", groups=("system:masters",)), LIST_DEPTH)
    assert cluster.reviewed_access == []


@asynchronous
async def test_decision_stands_ten_seconds_for_exactly_that_question() -> None:
    """Allowed or denied; another user, group, extra, verb, namespace or metric is another question."""
    clock, cluster, reviews = ManualClock(), ScriptedCluster(), Reviews()
    authorizer = Authorizer(cluster, clock, reviews)
    for _ in range(3):
        await authorizer.check_access(HPA, LIST_DEPTH)
    assert len(cluster.reviewed_access) == 1
    assert reviews.noted == [("access", False), ("access", True), ("access", True)]
    cluster.access = DENIED
    others = [
        (replace(HPA, name="bob"), LIST_DEPTH),
        (replace(HPA, groups=()), LIST_DEPTH),
        (replace(HPA, uid="1"), LIST_DEPTH),
        (replace(HPA, extra=(("scopes", ("none",)),)), LIST_DEPTH),
        (HPA, replace(LIST_DEPTH, verb="create")),
        (HPA, replace(LIST_DEPTH, namespace="team-b")),
        (HPA, replace(LIST_DEPTH, resource="other")),
    ]
    for user, question in others:
        with pytest.raises(Forbidden):
            await authorizer.check_access(user, question)
    await authorizer.check_access(HPA, LIST_DEPTH)  # still the first decision
    clock.advance(10.1)
    with pytest.raises(Forbidden):
        await authorizer.check_access(HPA, LIST_DEPTH)
    cluster.access = AccessDecision(is_allowed=True)
    with pytest.raises(Forbidden):
        await authorizer.check_access(HPA, LIST_DEPTH)  # the denial stands too
    clock.advance(10.1)
    await authorizer.check_access(HPA, LIST_DEPTH)


@asynchronous
async def test_cluster_that_cannot_decide_has_denied() -> None:
    """Fails closed, says who and what, and asks again next time."""
    cluster = ScriptedCluster(access=Forbidden(action="", detail="the cluster cannot review the access: 500"))
    authorizer = Authorizer(cluster, ManualClock())
    with pytest.raises(Forbidden) as caught:
        await authorizer.check_access(HPA, LIST_DEPTH)
    assert caught.value.action == describe_denial(HPA, LIST_DEPTH)
    assert "cannot review" in caught.value.detail
    cluster.access = AccessDecision(is_allowed=True)
    await authorizer.check_access(HPA, LIST_DEPTH)


@asynchronous
async def test_silent_cluster_is_waited_for_three_seconds_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the caller's own patience of five seconds ends, and nobody is let in."""
    assert authz.PATIENCE_S == 3.0
    monkeypatch.setattr(authz, "PATIENCE_S", 0.02)
    cluster = ScriptedCluster()
    cluster.gate.clear()
    authorizer = Authorizer(cluster, ManualClock())
    with pytest.raises(Forbidden) as caught:
        await authorizer.check_access(HPA, LIST_DEPTH)
    assert caught.value.action == describe_denial(HPA, LIST_DEPTH)
    assert caught.value.detail == "the cluster did not answer the access review within 0.02s"
    cluster.gate.set()
    await until(lambda: not authorizer._decisions._asking)


@asynchronous
async def test_many_at_once_are_one_review() -> None:
    """Single flight."""
    cluster = ScriptedCluster()
    cluster.gate.clear()
    authorizer = Authorizer(cluster, ManualClock())
    tasks = [asyncio.create_task(authorizer.check_access(HPA, LIST_DEPTH)) for _ in range(50)]
    await settle()
    cluster.gate.set()
    await asyncio.gather(*tasks)
    assert len(cluster.reviewed_access) == 1


@asynchronous
async def test_failure_that_nobody_waits_for_any_more_is_no_noise() -> None:
    """Whoever asked went away; the error is not reported as one that nobody looked at."""
    cluster = ScriptedCluster(access=Forbidden(action="", detail="away"))
    cluster.gate.clear()
    authorizer = Authorizer(cluster, ManualClock())
    task = asyncio.create_task(authorizer.check_access(HPA, LIST_DEPTH))
    await settle()
    task.cancel()
    await settle()
    cluster.gate.set()
    await until(lambda: not authorizer._decisions._asking)
    assert task.cancelled()


@asynchronous
async def test_decisions_take_bounded_memory() -> None:
    """A flood of names to ask about is forgotten."""
    authorizer = Authorizer(ScriptedCluster(), ManualClock())
    for number in range(11_000):
        await authorizer.check_access(HPA, replace(LIST_DEPTH, resource=f"m{number}"))
    assert len(authorizer._decisions._kept) <= 10_000


class TestDoor:
    """Authentication, then authorization; nothing is looked at before."""

    @asynchronous
    async def test_probes_pass_and_nothing_is_asked(self) -> None:
        """Without a certificate, while the cluster is away."""
        cluster = ScriptedCluster(access=Forbidden(action="", detail="away"))
        for path in ("/healthz", "/livez", "/readyz"):
            await build_door(cluster).check_admission(build_scope(path), None)
        assert cluster.reviewed_access == []

    @asynchronous
    async def test_nobody_is_refused_before_the_cluster_is_asked_what_nobody_may(self) -> None:
        """401, on metrics, discovery and what does not exist."""
        cluster = ScriptedCluster()
        for path, target in (("/apis", None), ("/x", None), ("/metric", ("team-a", "depth"))):
            with pytest.raises(Unauthenticated):
                await build_door(cluster).check_admission(build_scope(path), target)
        assert cluster.reviewed_access == []

    @asynchronous
    async def test_metric_named_as_a_probe_is_not_open(self) -> None:
        """The path of a metric is judged as a metric, whatever it looks like."""
        with pytest.raises(Unauthenticated):
            await build_door(ScriptedCluster()).check_admission(build_scope("/readyz"), ("team-a", "depth"))

    @asynchronous
    async def test_user_is_asked_about_as_authenticated(self) -> None:
        """With the certificate's groups, and system:authenticated."""
        cluster = ScriptedCluster(access=DENIED)
        scope = build_scope(chain=(ALICE,))
        with pytest.raises(Forbidden):
            await build_door(cluster).check_admission(scope, ("team-a", "depth"))
        user = User("alice", groups=("team-a", "team-b", "system:authenticated"))
        assert cluster.reviewed_access == [(user, LIST_DEPTH)]
