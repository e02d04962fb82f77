"""Names and addresses of one checkout's cluster, derived from where the checkout lies.

Two clones on one machine get different ones; the same clone gets the same ones each time, unless somebody else
uses them at that moment.
"""

import hashlib
import ipaddress
import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cluster.errors import ClusterError

# A cluster takes one block 10.X.0.0/16 with X in this range, away from what home routers and Docker like to use.
_FIRST_BLOCK, _BLOCKS = 64, 128


@dataclass(frozen=True)
class Identity:
    """What tells this checkout's cluster from others on the machine."""

    digest: str

    @classmethod
    def of(cls, checkout: Path) -> "Identity":
        return cls(hashlib.sha256(str(checkout).encode()).hexdigest()[:8])

    @property
    def name(self) -> str:
        """Of the cgroup and of the kubeconfig's context."""
        return f"diffusion-operator-{self.digest}"

    @property
    def interface(self) -> str:
        """Name of the host's end of the link to the node; Linux allows 15 characters."""
        return f"dmop-{self.digest}"

    @property
    def preferred_block(self) -> int:
        return _FIRST_BLOCK + int(self.digest, 16) % _BLOCKS


@dataclass(frozen=True)
class Addresses:
    """The cluster's addresses, all in `10.<block>.0.0/16`."""

    block: int

    @property
    def whole(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network(f"10.{self.block}.0.0/16")

    @property
    def host(self) -> str:
        """The host's end of the link."""
        return f"10.{self.block}.0.1"

    @property
    def node(self) -> str:
        """The node's end: API server, node ports and registry answer here, on the host and in pods."""
        return f"10.{self.block}.0.2"

    @property
    def link_prefix(self) -> int:
        return 24

    @property
    def pods(self) -> str:
        return f"10.{self.block}.1.0/24"

    @property
    def services(self) -> str:
        return f"10.{self.block}.16.0/20"

    @property
    def kubernetes_service(self) -> str:
        """The first service address, which the API server takes for itself."""
        return f"10.{self.block}.16.1"

    @property
    def dns(self) -> str:
        return f"10.{self.block}.16.10"

    @property
    def api_url(self) -> str:
        return f"https://{self.node}:6443"

    @property
    def registry(self) -> str:
        """`HOST:PORT` of the local registry."""
        return f"{self.node}:5000"


def choose(identity: Identity, taken: Iterable[ipaddress.IPv4Network]) -> Addresses:
    """The checkout's own block, or the next one that overlaps none of `taken`."""
    used = list(taken)
    for step in range(_BLOCKS):
        candidate = Addresses(_FIRST_BLOCK + (identity.preferred_block - _FIRST_BLOCK + step) % _BLOCKS)
        if not any(candidate.whole.overlaps(network) for network in used):
            return candidate
    raise ClusterError(
        f"no free network for the cluster: all of 10.{_FIRST_BLOCK}.0.0/16 to 10.{_FIRST_BLOCK + _BLOCKS - 1}.0.0/16 "
        "are routed already (`ip route show table all`); end a cluster or a VPN"
    )


def networks_in_use() -> list[ipaddress.IPv4Network]:
    """Every IPv4 network that this machine has a route to, except the default one."""
    command = ["ip", "-json", "-4", "route", "show", "table", "all"]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    destinations = [route["dst"] for route in json.loads(answer or "[]")]
    return [ipaddress.IPv4Network(target, strict=False) for target in destinations if target != "default"]
