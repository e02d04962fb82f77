"""Where the cluster keeps its files: one folder per checkout, one cache per user."""

import os
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent
REPOSITORY = SOURCE.parent


def cache() -> Path:
    """The folder that all checkouts share: downloads, compiled programs, image layers."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # A relative path means nothing to the supervisor, which runs elsewhere; the XDG specification says to ignore it.
    return (base if base.is_absolute() else Path.home() / ".cache") / "diffusion-operator"


@dataclass(frozen=True)
class StateFolder:
    """Everything that belongs to one checkout's cluster; `down` removes it as a whole."""

    root: Path

    @classmethod
    def of_this_checkout(cls) -> "StateFolder":
        return cls(REPOSITORY / ".cluster")

    @property
    def kubeconfig(self) -> Path:
        return self.root / "kubeconfig"

    @property
    def pki(self) -> Path:
        return self.root / "pki"

    @property
    def configuration(self) -> Path:
        return self.root / "etc"

    @property
    def logs(self) -> Path:
        return self.root / "log"

    @property
    def data(self) -> Path:
        return self.root / "data"

    @property
    def supervisor_log(self) -> Path:
        return self.logs / "supervisor.log"

    @property
    def audit_log(self) -> Path:
        return self.logs / "audit.log"

    @property
    def description(self) -> Path:
        """The running cluster in JSON: addresses, process, programs (see `description.py`)."""
        return self.root / "cluster.json"

    @property
    def component_status(self) -> Path:
        """How the supervised programs fare, as JSON; written by the supervisor."""
        return self.root / "components.json"
