"""Kinds of work that a diffusion model is worse at than an autoregressive one."""

from enum import StrEnum


class Workload(StrEnum):
    """What a request is for."""

    CODE = "code"
    MATH = "math"
    GENERAL = "general"
