"""The one place that constructs: from a loaded configuration to something that answers."""

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from adapter.clock import Clock, SystemClock
from adapter.domain.backends import BackendSettings
from adapter.domain.identity import AuthenticationSettings
from adapter.domain.rules import Configuration
from adapter.observe import ObservedBackend, SelfMetrics
from adapter.server.authn import Authenticator, TokenCache
from adapter.server.authz import Authorizer
from adapter.server.door import Door
from adapter.server.reviews import ReviewObserver
from adapter.server.transport import BadCertificate, ServingTls
from adapter.serving.breaker import Breaker
from adapter.serving.live import Generation
from adapter.serving.ports import Backend
from adapter.serving.provider import Provider
from adapter.serving.ticks import TickGrid
from adapter.upstream.kube import Cluster, connect_cluster
from adapter.upstream.prometheus import PrometheusBackend

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _OpenBackend:
    settings: BackendSettings
    breaker: Breaker
    users: int = 0


class Backends:
    """The open connections to backends, shared by successive configurations that say the same of a backend.

    So a reload of the rules neither reconnects nor forgets that a backend is down.
    """

    def __init__(self, clock: Clock, metrics: SelfMetrics | None = None) -> None:
        self._clock = clock
        self._metrics = metrics
        self._open: list[_OpenBackend] = []

    def acquire(self, wanted: Mapping[str, BackendSettings]) -> list[_OpenBackend]:
        """Return an open backend for each of *wanted*, to be given back with `release`."""
        acquired = [self._find(settings) or self._connect(settings) for settings in wanted.values()]
        for backend in acquired:
            backend.users += 1
            backend.breaker.forget_rests()
        return acquired

    async def release(self, backends: list[_OpenBackend]) -> None:
        """Close those of *backends* that nobody else uses."""
        for backend in backends:
            backend.users -= 1
        unused = [backend for backend in backends if not backend.users]
        self._open = [backend for backend in self._open if backend.users]
        await asyncio.gather(*(backend.breaker.aclose() for backend in unused))

    def _find(self, settings: BackendSettings) -> _OpenBackend | None:
        return next((backend for backend in self._open if backend.settings == settings), None)

    def _connect(self, settings: BackendSettings) -> _OpenBackend:
        client: Backend = PrometheusBackend(settings, clock=self._clock)
        if self._metrics is not None:
            client = ObservedBackend(client, self._metrics)
        breaker = Breaker(client, self._clock, timeout_s=settings.timeout_s, places=settings.max_concurrency)
        backend = _OpenBackend(settings, breaker)
        self._open.append(backend)
        return backend


class Factory:
    """Builds the generations of one process; its clock is the only one."""

    def __init__(self, clock: Clock | None = None, metrics: SelfMetrics | None = None) -> None:
        self._clock = clock or SystemClock()
        self._metrics = metrics
        self._backends = Backends(self._clock, metrics)

    def build_generation(self, configuration: Configuration) -> Generation:
        """Return *configuration* at work. It needs a running event loop, and connects to nothing until it is asked."""
        acquired = self._backends.acquire(configuration.backends)
        provider = Provider(
            configuration,
            breakers={backend.settings.name: backend.breaker for backend in acquired},
            grid=TickGrid(self._clock, configuration.resolution_s),
            observer=self._metrics,
        )

        async def aclose() -> None:
            await provider.aclose()
            await self._backends.release(acquired)

        return Generation(provider=provider, aclose=aclose)


class ClusterTrust:
    """Whom this server believes, as the cluster says it, and kept as the cluster says it."""

    def __init__(self, cluster: Cluster, authenticator: Authenticator, authorizer: Authorizer, tls: ServingTls) -> None:
        self._cluster = cluster
        self._authenticator = authenticator
        self._tls = tls
        self._settings: AuthenticationSettings | None = None
        self.door = Door(authenticator, authorizer)

    async def keep_fresh(self) -> None:
        """Follow the cluster's settings for ever."""
        await self._cluster.watch_authentication_settings(self.trust)

    def trust(self, settings: AuthenticationSettings) -> None:
        """Believe *settings* from now on, in the next handshakes and requests; unusable ones are logged and ignored."""
        if settings == self._settings:
            return
        try:
            self._tls.trust(_join_cas(settings))
            self._authenticator.trust(settings)
        except (BadCertificate, ValueError) as error:
            if self._settings is not None:
                self._tls.trust(_join_cas(self._settings))
            _log.error("authentication_settings_unusable kept=previous %s", error)
            return
        self._settings = settings
        _log.info("authentication_settings_loaded allowed_names=%s", ",".join(sorted(settings.allowed_names)) or "any")

    async def aclose(self) -> None:
        """Close the connections to the cluster."""
        await self._cluster.aclose()


def _join_cas(settings: AuthenticationSettings) -> bytes:
    return settings.requestheader_ca_pem + b"\n" + settings.client_ca_pem


async def connect_trust(
    kubeconfig: Path | None, *, tls: ServingTls, clock: Clock, observer: ReviewObserver
) -> ClusterTrust:
    """Return the trust of the cluster of *kubeconfig*, or of the one that this pod runs in.

    Raises: ClusterUnavailable if the cluster's settings cannot be read now, with what to do.
    """
    cluster = await connect_cluster(kubeconfig)
    try:
        settings = await cluster.read_authentication_settings()
        tokens = TokenCache(cluster, clock, observer)
        authenticator = Authenticator(AuthenticationSettings(), tokens=tokens, clock=clock)
        trust = ClusterTrust(cluster, authenticator, Authorizer(cluster, clock, observer), tls)
        trust.trust(settings)
    except BaseException:
        await cluster.aclose()
        raise
    return trust
