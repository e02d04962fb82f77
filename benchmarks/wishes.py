"""What users ask the storyteller for."""

import random

_HEROES = (
    *("bear", "cat", "dog", "dragon", "fox", "frog", "goat", "king", "lion", "mouse", "owl", "princess", "queen"),
    *("rabbit", "robot", "sailor"),
)
_TRAITS = (
    *("brave", "clever", "curious", "friendly", "gentle", "lazy", "lonely", "old", "quiet", "shy", "sleepy", "tiny"),
    *("wise", "young"),
)


def wish(rng: random.Random) -> str:
    """`Tell me a story about a shy dragon.`"""
    trait, hero = rng.choice(_TRAITS), rng.choice(_HEROES)
    return f"Tell me a story about {'an' if trait[0] in 'aeiou' else 'a'} {trait} {hero}."
