"""What can be wrong with sampler settings."""


class SamplerError(ValueError):
    """Settings that no sampler, or not the one that was chosen, can honour. The message tells the remedy."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field  # of `config.SamplerSettings`, the one at fault
