"""What an arm is, for all parts of the status."""

from enum import StrEnum


class ArmKind(StrEnum):
    """What answers on an arm."""

    DIFFUSION = "diffusion"
    AR = "ar"
