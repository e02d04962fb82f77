"""The process: connection, loops, HTTP server and kopf's watches, in one event loop."""

import asyncio
import os
from collections.abc import Callable

import kopf
import structlog

from diffusion_operator.adapters.connection import Connection
from diffusion_operator.adapters.errors import AdapterError
from diffusion_operator.adapters.gateways import HttpGateways
from diffusion_operator.adapters.known_objects import KnownObjects
from diffusion_operator.adapters.kubernetes_cluster import KubernetesCluster
from diffusion_operator.adapters.lease import LifeLease
from diffusion_operator.adapters.metrics import Metrics as Measurements
from diffusion_operator.adapters.own_writes import OwnWrites
from diffusion_operator.adapters.prometheus.readings import PrometheusMetrics
from diffusion_operator.adapters.sizing import KubernetesSizing
from diffusion_operator.api import labels
from diffusion_operator.core.rollout import Pace
from diffusion_operator.core.step import Settings

from . import handlers
from .background import alive_before, beside
from .crashes import CrashLog
from .health import HealthServer
from .loops import Loops
from .measuring import Measuring
from .metrics import Metrics
from .reconcile import Reconciler
from .settings import OperatorSettings

_CRD_POLL_SECONDS = 2.0


async def run(
    settings: OperatorSettings,
    *,
    stop: asyncio.Event | None = None,
    on_ready: Callable[[], None] | None = None,
    measurements: Measurements | None = None,
    pace: Pace | None = None,
) -> None:
    """Run until SIGTERM or SIGINT, or until `stop` is set. Raises when kopf's watches end by an error.

    `measurements` stands for what settings name, `pace` for that of each resource's policy.
    """
    if settings.kubeconfig:
        os.environ["KUBECONFIG"] = settings.kubeconfig  # where kopf looks for it
    metrics = Metrics()
    async with (
        await Connection.open(kubeconfig=settings.kubeconfig) as connection,
        HttpGateways(connection, namespace=settings.namespace, service=settings.gateway_service) as gateways,
        KubernetesSizing(connection) as sizing,
        PrometheusMetrics(settings.prometheus, registry=metrics.registry) as prometheus,
    ):
        measurements = measurements or prometheus
        lease = LifeLease(
            connection,
            namespace=settings.namespace,
            holder=os.environ.get("HOSTNAME", "diffusion-operator"),
            watch_namespaces=settings.watch_namespaces,
        )
        crashes, own_writes, known = CrashLog(), OwnWrites(), KnownObjects()
        reconciler = Reconciler(
            cluster=KubernetesCluster(connection, own_writes=own_writes, known=known),
            gateways=gateways,
            settings=Settings(
                worker_image=settings.worker_image, gateway_url=settings.gateway_url, sizing=settings.sizing, pace=pace
            ),
            metrics=metrics,
            sizing=sizing if settings.sizing else None,
            measuring=Measuring(measurements),
            crashes=crashes,
        )
        loops = Loops(reconciler, metrics, own_writes=own_writes)
        async with HealthServer(loops=loops, metrics=metrics, port=settings.port) as health:
            await _wait_for_crd(connection)
            reconciler.earlier = await alive_before(lease)  # not before the API server answers
            registry = kopf.OperatorRegistry()
            handlers.login(registry)
            handlers.register(registry, loops, crashes, known)

            @kopf.on.startup(registry=registry)
            async def started(**_: object) -> None:
                health.is_watching = True
                if on_ready:
                    on_ready()

            try:
                async with beside(loops, lease=lease, measurements=measurements, gateways=gateways, metrics=metrics):
                    await kopf.operator(
                        registry=registry,
                        settings=handlers.settings(),
                        standalone=True,
                        clusterwide=not settings.watch_namespaces,
                        namespaces=settings.watch_namespaces,
                        stop_flag=stop,
                    )
            finally:
                await loops.stop()


async def _wait_for_crd(connection: Connection) -> None:
    """kopf serves the kinds that it finds at its start: the CRD may be applied after us."""
    log = structlog.get_logger("process")
    while True:
        try:
            found = await connection.request("GET", f"/apis/{labels.API_VERSION}", what=f"look for {labels.KIND}")
        except AdapterError as error:
            log.warning("waiting for the DiffusionModel CRD: apply crds/ if it is not installed", error=str(error))
        else:
            if any(resource["name"] == labels.PLURAL for resource in found.get("resources", ())):
                return
        await asyncio.sleep(_CRD_POLL_SECONDS)
