"""What a pass gathers for sizing: only what the decision will ask for."""

from collections.abc import Collection, Mapping

from diffusion_operator.adapters.cluster import LiveChild
from diffusion_operator.adapters.sizing import SizingSource
from diffusion_operator.api.models import DiffusionModel, Resources
from diffusion_operator.core.children import ChildKind
from diffusion_operator.core.observation import ObservedPods
from diffusion_operator.core.sized.budget import needs_nodes, node_selector
from diffusion_operator.core.sized.observation import ObservedSizing
from diffusion_operator.core.sized.size import unmeasured


async def observe(
    model: DiffusionModel,
    live: Collection[LiveChild],
    *,
    pods: Mapping[str, ObservedPods],
    source: SizingSource,
) -> ObservedSizing:
    """Jobs that exist, nodes where the GPU decides, and pods of revisions that became ready.

    Raises:
        AdapterError: the API server does not say what became of a Job.
    """
    namespace, name = model.metadata.namespace, model.metadata.name
    resources = model.spec.resources or Resources()
    inspections = {
        job.revision: await source.inspection(job, namespace=namespace, model=name)
        for job in live
        if job.kind is ChildKind.JOB
    }
    asked = {
        revision: await source.measured(namespace, model=name, revision=revision)
        for revision in sorted(unmeasured(model))
        if revision in pods and pods[revision].ready
    }
    return ObservedSizing(
        inspections=inspections,
        nodes=await source.nodes(node_selector(resources)) if needs_nodes(resources) else None,
        measured={revision: took for revision, took in asked.items() if took is not None},
    )
