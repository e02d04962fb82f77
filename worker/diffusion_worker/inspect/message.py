"""What a container leaves behind when it ends: Kubernetes keeps the first 4,096 bytes of its termination message."""

from diffusion_worker.inspect.errors import InspectError
from diffusion_worker.inspect.facts import ModelFacts

MOST_BYTES = 4096


def facts_message(facts: ModelFacts) -> str:
    """Facts as compact JSON, without what says nothing. Raises InspectError when they are too long all the same."""
    message = facts.model_dump_json(exclude_none=True, exclude_defaults=True)
    if _is_too_long(message):
        # Names of fields that nobody understood: nothing is planned from them.
        message = facts.model_copy(update={"unknown_fields": ()}).model_dump_json(
            exclude_none=True, exclude_defaults=True
        )
    if _is_too_long(message):
        raise InspectError(
            f"the facts of the model take {len(message.encode())} bytes, more than the {MOST_BYTES} that a container may "
            f"leave behind: its layers are of {len(facts.layers)} kinds, too many to be told apart"
        )
    return message


def refusal_message(error: InspectError) -> str:
    """Why there are no facts, cut where Kubernetes would cut it."""
    return str(error).encode()[:MOST_BYTES].decode(errors="ignore")


def _is_too_long(message: str) -> bool:
    return len(message.encode()) > MOST_BYTES
