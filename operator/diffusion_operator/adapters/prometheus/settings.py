"""Where Prometheus is, and how to get in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

DEFAULT_TIMEOUT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class PrometheusSettings:
    """Addresses, without `/api/v1`; an empty `url` with no `namespace_urls` is no Prometheus at all.

    `namespace_urls` are for clusters in which each team has its own: models of a namespace that is named there are looked
    up there. The token's file is read for each request and the CA's for each connection, since Kubernetes rotates both.
    """

    url: str = ""
    namespace_urls: Mapping[str, str] = field(default_factory=dict)
    bearer_token_file: Path | None = None
    ca_file: Path | None = None
    insecure: bool = False
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS

    @property
    def is_configured(self) -> bool:
        """Whether there is any address."""
        return bool(self.url or self.namespace_urls)

    def url_for(self, namespace: str) -> str:
        """The address for models of a namespace; empty when there is none."""
        return self.namespace_urls.get(namespace, self.url)

    def namespaces_of(self, url: str) -> tuple[frozenset[str], frozenset[str]]:
        """Namespaces that are asked for at `url`, and those that are not. Without the former it is all but the latter."""
        here = frozenset(name for name, address in self.namespace_urls.items() if address == url)
        elsewhere = frozenset(self.namespace_urls) - here
        return (frozenset() if url == self.url else here), elsewhere
