"""What can be wrong with sampler settings."""


class SamplerError(ValueError):
    """Settings that no sampler can honour."""
