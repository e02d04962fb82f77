"""The description of a cluster that was started, kept in its folder for the commands that come later."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from cluster.addresses import Addresses, Identity
from cluster.paths import StateFolder
from cluster.programs import Programs


@dataclass(frozen=True)
class Instance:
    """One checkout's cluster."""

    state: StateFolder
    identity: Identity
    addresses: Addresses
    programs: Programs

    @property
    def kubeconfig(self) -> Path:
        """Of the administrator."""
        return self.state.kubeconfig

    @property
    def node_address(self) -> str:
        """Where the host reaches node ports."""
        return self.addresses.node

    def save(self) -> None:
        """Write it to the state folder."""
        document = {"block": self.addresses.block, "programs": str(self.programs.folder), **asdict(self.identity)}
        self.state.description.write_text(json.dumps(document))

    @classmethod
    def load(cls, state: StateFolder) -> "Instance | None":
        """The cluster whose description lies in `state`; None when there is none or it is unreadable."""
        try:
            document = json.loads(state.description.read_text())
            return cls(
                state=state,
                identity=Identity(document["digest"]),
                addresses=Addresses(document["block"]),
                programs=Programs(Path(document["programs"])),
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
