"""What the operator is started with."""

from dataclasses import dataclass, field

from diffusion_operator.adapters.prometheus.settings import PrometheusSettings


@dataclass(frozen=True, slots=True)
class OperatorSettings:
    """Settings of the process. `watch_namespaces` is empty for all namespaces; `kubeconfig` is None inside a cluster.

    With `sizing` off nothing is planned from memory: limits are taken as they are written.
    """

    worker_image: str
    namespace: str
    gateway_service: str
    gateway_url: str
    watch_namespaces: tuple[str, ...] = ()
    kubeconfig: str | None = None
    port: int = 8080
    sizing: bool = True
    prometheus: PrometheusSettings = field(default_factory=PrometheusSettings)
