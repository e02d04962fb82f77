"""What a person may ask for once, through an annotation that Git does not hold.

`kubectl annotate dm NAME --overwrite serving.diffusion-operator.dev/rollout=promote:1`

The part after the colon makes two like commands different: each text is acted on once, and again only when it changes.
"""

from dataclasses import dataclass
from enum import StrEnum


class Verb(StrEnum):
    """What can be asked for."""

    PAUSE = "pause"
    RESUME = "resume"
    PROMOTE = "promote"
    PROMOTE_ALL = "promote-all"
    ABORT = "abort"
    RETRY = "retry"


MEANS = {
    Verb.PAUSE: "hold the weight where it is; a proven failure still rolls back",
    Verb.RESUME: "end a pause that was asked for by annotation; one in spec.rollout.paused stays",
    Verb.PROMOTE: "go one step up now, whatever the gates still wait for",
    Verb.PROMOTE_ALL: "make the revision the stable one now",
    Verb.ABORT: "take all requests away from the revision, also from one that is promoted; it stays away until retry",
    Verb.RETRY: "let a revision that was rolled back climb again, from the first step",
}


LONGEST_COMMAND = 256  # as status remembers it


@dataclass(frozen=True, slots=True)
class Command:
    """`text` is the whole annotation: it tells one command from the next. `by`: who asked and when, as far as is known."""

    verb: Verb
    text: str
    by: str = "a person"


def parse_command(text: str, *, by: str = "a person") -> Command:
    """A command from the annotation's value.

    Raises:
        ValueError: there is no such command.
    """
    verb = text.partition(":")[0].strip()
    if verb not in set(Verb):
        raise ValueError(f"{text!r} is no command: write {', '.join(Verb)}, with an optional :anything after it")
    return Command(Verb(verb), text, by)
