"""One story: a cast is drawn, a plot is chosen, every beat is said in one of its ways."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from examples.train import plots, words

HELD_OUT_EVERY = 20
"""One combination of kind and subject in this many is never trained on: those stories measure the models on something new."""


@dataclass(frozen=True)
class Story:
    """A finished story and what a reader could have asked for to get it."""

    text: str
    hero: str
    kind: str
    trait: str
    place: str
    subject: str
    """What it is about besides its hero: "a storm", "a silver key", "learning to sail", "the moon"."""
    lesson: str
    held_out: bool


def with_article(noun: str) -> str:
    """`fox` → `a fox`, `owl` → `an owl`."""
    vowel = noun[0] in "aeiou" or noun.startswith("honest")
    return f"{'an' if vowel else 'a'} {noun}"


def definite(phrase: str) -> str:
    """`a gray heron` → `the gray heron`; what already has its article stays."""
    article, _, noun = phrase.partition(" ")
    return f"the {noun}" if article in {"a", "an"} else phrase


def tell(rng: random.Random) -> Story:
    """Make a story; the same state of `rng` makes the same story."""
    fields = _cast(rng)
    kind_index = words.KINDS.index(fields["kind"])
    beats, subject, subject_index = _plot(rng, fields)
    text = ""
    for beat in beats:
        if not beat:
            text = text.rstrip() + "\n\n"
            continue
        text += _say(rng, beat, fields) + " "
    return Story(
        text=text.rstrip(),
        hero=fields["hero"],
        kind=fields["kind"],
        trait=fields["trait"],
        place=fields["place"],
        subject=subject,
        lesson=fields["lesson"],
        held_out=(kind_index + subject_index) % HELD_OUT_EVERY == 0,
    )


def _cast(rng: random.Random) -> dict[str, str]:
    """Everything that does not depend on the plot."""
    kind, trait = rng.choice(words.KINDS), rng.choice(words.TRAITS)
    female = kind in words.FEMALE_KINDS or (kind not in words.MALE_KINDS and rng.random() < 0.5)
    hero = rng.choice(words.SHE if female else words.HE)
    friend = rng.choice([name for name in (words.SHE + words.HE) if name != hero])
    thing, helper, when = rng.choice(words.THINGS), rng.choice(words.HELPERS), rng.choice(words.TIMES)
    pronouns = ("she", "her", "her") if female else ("he", "him", "his")
    return {
        "hero": hero,
        "friend": friend,
        "kind": kind,
        "trait": trait,
        "a_kind": with_article(kind),
        "a_trait_kind": with_article(f"{trait} {kind}"),
        "he": pronouns[0],
        "him": pronouns[1],
        "his": pronouns[2],
        "He": pronouns[0].capitalize(),
        "His": pronouns[2].capitalize(),
        "place": rng.choice(words.PLACES),
        "thing": thing,
        "a_thing": with_article(thing),
        "helper": helper,
        "helper_cap": helper[0].upper() + helper[1:],
        "the_helper": definite(helper),
        "The_helper": definite(helper)[0].upper() + definite(helper)[1:],
        "when": when,
        "when_lower": when[0].lower() + when[1:],
        "lesson": rng.choice(words.LESSONS),
        "direction": rng.choice(["north", "south", "east", "west"]),
        "hiding": rng.choice(words.HIDING_PLACES),
    }


def _plot(rng: random.Random, fields: dict[str, str]) -> tuple[Sequence[Sequence[str]], str, int]:
    """Choose a plot, put its own words into `fields`; return beats, subject and the subject's index among its like."""
    match rng.choices(["trouble", "lost", "skill", "guest", "quarrel", "journey"], [35, 13, 13, 13, 13, 13])[0]:
        case "trouble":
            index = rng.randrange(len(words.TROUBLES))
            trouble = words.TROUBLES[index]
            fields |= {"topic": trouble.topic, "event": trouble.event, "fix": rng.choice(trouble.fixes)}
            return plots.TROUBLE, trouble.topic, index
        case "skill":
            index = rng.randrange(len(words.SKILLS))
            skill = words.SKILLS[index]
            fields |= {"verb": skill.verb, "failure": skill.failure, "success": skill.success.format_map(fields)}
            return plots.SKILL, f"learning {skill.verb}", index
        case "guest":
            index = rng.randrange(len(words.GUESTS))
            guest = words.GUESTS[index]
            fields |= {"guest": guest, "the_guest": definite(guest)}
            return plots.GUEST, guest, index
        case "journey":
            index = rng.randrange(len(words.JOURNEYS))
            journey = words.JOURNEYS[index]
            fields |= journey._asdict()
            return plots.JOURNEY, journey.goal, index
        case plot:
            beats = plots.LOST if plot == "lost" else plots.QUARREL
            return beats, fields["a_thing"], words.THINGS.index(fields["thing"])


def _say(rng: random.Random, beat: Sequence[str], fields: dict[str, str]) -> str:
    """One sentence of a beat; small words that may differ from sentence to sentence are drawn here."""
    passing = {
        "food": rng.choice(words.FOODS),
        "saying": rng.choice(words.SAYINGS),
        "feeling": rng.choice(words.FEELINGS),
    }
    return rng.choice(beat).format_map({**fields, **passing})
