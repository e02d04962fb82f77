"""Training documents: plain stories, and conversations in which a user asks for a story and gets it."""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from examples.train.stories import Story, tell, with_article

SYSTEM, USER, ASSISTANT = "system", "user", "assistant"

REQUESTS = [
    "Tell me a story about {}.",
    "Tell me a story about {}",
    "Tell me a short story about {}.",
    "Please tell me a story about {}.",
    "Can you tell me a story about {}?",
    "Could you tell a story about {}, please?",
    "Write a story about {}.",
    "Write a short story about {}.",
    "Please write a tale about {}.",
    "I would like to hear a story about {}.",
    "I want a bedtime story about {}.",
    "Do you know a story about {}?",
    "A story about {}, please.",
    "Make up a story about {}.",
]
OPEN_REQUESTS = ["Tell me a story.", "Tell me a story", "Tell me a bedtime story, please.", "Write a story.", "Please tell me any story.", "Do you know a story?", "I cannot sleep. Tell me a story."]  # fmt: skip
SECOND_REQUESTS = [
    "Another one, please, about {}.",
    "And now a story about {}.",
    "Thank you! Now tell me one about {}.",
]
FOLLOW_UPS = [
    ("Summarize the story.", "{summary}"),
    ("Can you sum it up?", "{summary}"),
    ("Please give me a short summary.", "{summary}"),
    ("What can we learn from {hero}?", "We can learn {lesson}."),
    ("Who was the friend of {hero}?", "The friend of {hero} was {friend}."),
    ("Where did {hero} live?", "The story says that {hero} lived {place}."),
]
SYSTEM_PROMPTS = ["You are a helpful assistant.", "You are a storyteller.", "You tell short stories to children.", "You are a friendly storyteller. Answer in English."]  # fmt: skip
SYSTEM_PROMPT_SHARE = 0.08
SMALL_TALK = [
    (["Hello!", "Hello", "Hi!", "Hi", "Good morning!", "Hey there"], "Hello! Shall I tell you a story? Name someone, a place or a thing."),
    (["Who are you?", "What are you?", "What is your name?", "What can you do?"], "I am the storyteller. I know stories about people, animals and far places."),
    (["Thank you!", "Thanks!", "Thank you for the story."], "You are welcome. Come back when you want another story."),
    (["How are you?", "How are you today?"], "I am well, thank you, and full of stories. Which one would you like?"),
]  # fmt: skip


@dataclass(frozen=True)
class Turn:
    """What one side says in a conversation."""

    role: str
    text: str


@dataclass(frozen=True)
class Document:
    """Either a plain text (no turns) or a conversation."""

    text: str
    turns: tuple[Turn, ...]
    held_out: bool


def documents(count: int, *, seed: int) -> Iterator[Document]:
    """`count` documents; the same seed gives the same documents."""
    rng = random.Random(seed)
    for _ in range(count):
        match rng.choices(["chat", "two stories", "follow-up", "small talk", "plain"], [56, 6, 14, 2, 22])[0]:
            case "chat":
                story = tell(rng)
                system = rng.choice(SYSTEM_PROMPTS) if rng.random() < SYSTEM_PROMPT_SHARE else ""
                yield conversation([(request(rng, story), story.text)], held_out=story.held_out, system=system)
            case "two stories":
                first, second = tell(rng), tell(rng)
                again = rng.choice(SECOND_REQUESTS).format(_topic(rng, second))
                held_out = first.held_out or second.held_out
                yield conversation([(request(rng, first), first.text), (again, second.text)], held_out=held_out)
            case "follow-up":
                story = tell(rng)
                question, answer = (text.format_map(vars(story)) for text in rng.choice(FOLLOW_UPS))
                yield conversation([(request(rng, story), story.text), (question, answer)], held_out=story.held_out)
            case "small talk":
                questions, answer = rng.choice(SMALL_TALK)
                yield conversation([(rng.choice(questions), answer)], held_out=False)
            case _:
                story = tell(rng)
                yield Document(text=story.text, turns=(), held_out=story.held_out)


def conversation(exchanges: list[tuple[str, str]], *, held_out: bool, system: str = "") -> Document:
    """A document of (user, assistant) exchanges, after a system message if there is one."""
    turns = [Turn(SYSTEM, system)] if system else []
    turns += [turn for asked, told in exchanges for turn in (Turn(USER, asked), Turn(ASSISTANT, told))]
    return Document(text="", turns=tuple(turns), held_out=held_out)


def request(rng: random.Random, story: Story) -> str:
    """A user's wish that `story` fulfils."""
    if rng.random() < 0.06:
        return rng.choice(OPEN_REQUESTS)
    return rng.choice(REQUESTS).format(_topic(rng, story))


def _topic(rng: random.Random, story: Story) -> str:
    kind, traited = with_article(story.kind), with_article(f"{story.trait} {story.kind}")
    ways = {
        kind: 2,
        traited: 2,
        f"{kind} and {story.subject}": 6,
        f"{traited} and {story.subject}": 2,
        story.subject: 3,
        story.hero: 1,
        f"{story.hero} the {story.kind}": 2,
        f"{story.hero} and {story.friend}": 1,
        f"{story.hero} and {story.subject}": 2,
        f"{kind} named {story.hero}": 2,
        f"{kind} who lives {story.place}": 2,
        f"{traited} named {story.hero} and {story.subject}": 4,
        f"{story.hero} the {story.kind}, {story.friend} and {story.subject}": 3,
        f"{story.hero} and {story.subject} {story.place}": 1,
    }
    return rng.choices(list(ways), list(ways.values()))[0]
