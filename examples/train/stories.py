"""One story: a cast is drawn, a plot is chosen, every beat is said in one of its ways."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from examples.train import plots, words

HELD_OUT_EVERY = 20
"""One combination of kind, plot and subject in this many is never trained on: those stories measure the models on something new."""

Fields = dict[str, str]
PLOTS = {
    "trouble": plots.TROUBLE,
    "lost": plots.LOST,
    "skill": plots.SKILL,
    "guest": plots.GUEST,
    "quarrel": plots.QUARREL,
    "journey": plots.JOURNEY,
}
PLOT_WEIGHTS = [30, 14, 14, 14, 14, 14]


@dataclass(frozen=True)
class Story:
    """A finished story and what a reader could have asked for to get it."""

    text: str
    plot: str
    hero: str
    friend: str
    kind: str
    trait: str
    place: str
    subject: str
    """What it is about besides its hero: "a storm", "a silver key", "learning to bake bread", "the full moon"."""
    lesson: str
    summary: str
    held_out: bool


def with_article(noun: str) -> str:
    """`fox` → `a fox`, `owl` → `an owl`."""
    vowel = noun[0] in "aeiou" or noun.startswith("honest")
    return f"{'an' if vowel else 'a'} {noun}"


def definite(phrase: str) -> str:
    """`a gray heron` → `the gray heron`; what already has its article stays."""
    article, _, noun = phrase.partition(" ")
    return f"the {noun}" if article in {"a", "an"} else phrase


def capitalised(phrase: str) -> str:
    """With a large first letter, as a sentence begins."""
    return phrase[0].upper() + phrase[1:]


def tell(rng: random.Random) -> Story:
    """Make a story; the same state of `rng` makes the same story."""
    plot = rng.choices(list(PLOTS), PLOT_WEIGHTS)[0]
    fields = _cast(rng) | {"lesson": _usual(rng, plots.LESSONS[plot])}
    subject, subject_index = _subject(rng, plot, fields)
    text = ""
    for beat in PLOTS[plot]:
        text = text + _say(rng, beat, fields) + " " if beat else text.rstrip() + "\n\n"
    return Story(
        text=text.rstrip(),
        plot=plot,
        hero=fields["hero"],
        friend=fields["friend"],
        kind=fields["kind"],
        trait=fields["trait"],
        place=fields["place"],
        subject=subject,
        lesson=fields["lesson"],
        summary=plots.SUMMARIES[plot].format_map(fields),
        held_out=(words.KINDS.index(fields["kind"]) + subject_index) % HELD_OUT_EVERY == 0,
    )


def _cast(rng: random.Random) -> Fields:
    """Everything that does not depend on the plot."""
    kind, trait = rng.choice(words.KINDS), rng.choice(words.TRAITS)
    female = kind in words.FEMALE_KINDS or (kind not in words.MALE_KINDS and rng.random() < 0.5)
    hero = rng.choice(words.SHE if female else words.HE)
    friend = rng.choice([name for name in (words.SHE + words.HE) if name != hero])
    thing, helper = rng.choice(words.THINGS), rng.choice(words.HELPERS)
    pronouns = ("she", "her", "her") if female else ("he", "him", "his")
    return {
        "hero": hero,
        "friend": friend,
        "kind": kind,
        "trait": trait,
        "a_trait_kind": with_article(f"{trait} {kind}"),
        "he": pronouns[0],
        "him": pronouns[1],
        "his": pronouns[2],
        "He": pronouns[0].capitalize(),
        "His": pronouns[2].capitalize(),
        "place": rng.choice(words.PLACES),
        "thing": thing,
        "a_thing": with_article(thing),
        "helper": helper.name,
        "the_helper": definite(helper.name),
        "The_helper": capitalised(definite(helper.name)),
        "advice": helper.saying,
        "when": rng.choice(words.TIMES),
        "direction": rng.choice(["north", "south", "east", "west"]),
        "hiding": rng.choice(words.HIDING_PLACES),
    }


def _subject(rng: random.Random, plot: str, fields: Fields) -> tuple[str, int]:
    """Choose what the plot is about and put its words into `fields`; return the subject and its index among its like."""
    match plot:
        case "trouble":
            index = rng.randrange(len(words.TROUBLES))
            trouble = words.TROUBLES[index]
            fields |= {"event": trouble.event, "fix": rng.choice(trouble.fixes)}
            return trouble.topic, index
        case "skill":
            index = rng.randrange(len(words.SKILLS))
            fields |= words.SKILLS[index]._asdict()
            return f"learning {fields['verb']}", index
        case "guest":
            index = rng.randrange(len(words.GUESTS))
            guest = words.GUESTS[index]
            fields |= {"guest": guest, "the_guest": definite(guest)}
            return guest, index
        case "journey":
            index = rng.randrange(len(words.JOURNEYS))
            fields |= words.JOURNEYS[index]._asdict()
            return fields["goal"], index
        case _:
            return fields["a_thing"], words.THINGS.index(fields["thing"])


def _say(rng: random.Random, beat: Sequence[str], fields: Fields) -> str:
    """One sentence of a beat; small words that may differ from sentence to sentence are drawn here."""
    passing = {
        "food": rng.choice(words.FOODS),
        "saying": rng.choice(words.SAYINGS),
        "feeling": rng.choice(words.FEELINGS),
    }
    return _usual(rng, beat).format_map({**fields, **passing})


def _usual(rng: random.Random, ways: Sequence[str]) -> str:
    """The first most often, the others by Zipf's law."""
    return rng.choices(ways, [1 / (rank + 1) for rank in range(len(ways))])[0]
