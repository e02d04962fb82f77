"""Which cores everyone gets. Equal for all, or the figures compare cores instead of programs."""

from dataclasses import dataclass
from enum import StrEnum


class Cores(StrEnum):
    """How the machine's two cores are shared out."""

    ONE = "one"  # each competitor's whole process tree on core 1 with one thread for arithmetic, the load client on core 0
    BOTH = "both"  # everyone on both cores, client included, with two threads for arithmetic


@dataclass(frozen=True)
class Placement:
    """Where processes run."""

    server_cpus: tuple[int, ...]
    client_cpus: tuple[int, ...]

    @classmethod
    def of(cls, cores: Cores) -> "Placement":
        """The placement by its name. Core 0 has the interrupts, so it is the client's."""
        return cls((1,), (0,)) if cores is Cores.ONE else cls((0, 1), (0, 1))

    @property
    def threads(self) -> int:
        """Threads for arithmetic: one for each core of a server."""
        return len(self.server_cpus)

    @property
    def server_list(self) -> str:
        """The server's cores as `taskset -c` takes them."""
        return ",".join(str(cpu) for cpu in self.server_cpus)
