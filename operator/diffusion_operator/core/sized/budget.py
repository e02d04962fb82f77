"""How much memory one pod may plan with."""

from dataclasses import dataclass

from diffusion_operator.api.models import Resources, Sizing
from diffusion_operator.api.units import amount
from diffusion_operator.core import defaults
from diffusion_operator.core.sizing import Budget

from .observation import ObservedNodes


@dataclass(frozen=True, slots=True)
class Memory:
    """The budget of a pod. `budget` is None when the memory is not known: `why`.

    `gpu_memory_bytes` and `nodes` are what to remember of the nodes, None when they were not asked.
    """

    budget: Budget | None
    why: str = ""
    gpu_memory_bytes: int | None = None
    nodes: str | None = None


def needs_nodes(resources: Resources) -> bool:
    """Whether the memory of a pod is that of whichever GPU it gets."""
    return bool(resources.gpus) and resources.gpu_memory in {None, "auto"}


def node_selector(resources: Resources) -> str:
    """The nodes that pods may run on, as a label selector."""
    return ",".join(f"{label}={value}" for label, value in sorted((resources.node_selector or {}).items()))


def memory_of(resources: Resources, *, before: Sizing, nodes: ObservedNodes | None) -> Memory:
    """The memory of a pod: of the container on CPU, else of one GPU, as written or as the nodes say.

    The smallest that nodes ever said holds, also while none says anything: an autoscaler brings nodes and takes them away,
    and none of that may plan anew, which is another revision and begins a rollout from the start.
    """
    utilization = resources.memory_utilization or defaults.MEMORY_UTILIZATION
    if not resources.gpus:
        return Memory(_budget(int(amount(resources.memory or defaults.MEMORY)), utilization))
    if not needs_nodes(resources):
        return Memory(_budget(int(amount(str(resources.gpu_memory))), utilization))
    selector = node_selector(resources)
    seen = nodes.gpu_memory_bytes if nodes else None
    remembered = before.gpu_memory_bytes if before.nodes == selector else None
    known = min((size for size in (seen, remembered) if size), default=None)
    if known is None:
        return Memory(None, why=nodes.why if nodes else "the nodes were not asked")
    return Memory(_budget(known, utilization), gpu_memory_bytes=known, nodes=selector)


def _budget(memory_bytes: int, utilization: float) -> Budget:
    return Budget(memory_bytes=memory_bytes, utilization=utilization)
