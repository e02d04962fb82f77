"""What can be wrong with a checkpoint. All are final: trying again does not help until a person changes something."""


class CheckpointError(Exception):
    """A checkpoint that cannot be served."""


class CheckpointNotFoundError(CheckpointError):
    """There is no checkpoint at the given place."""


class UnsupportedCheckpointError(CheckpointError):
    """The checkpoint is there, but not of a kind that this engine can serve."""


class TokenizerError(CheckpointError):
    """The checkpoint has no usable tokenizer."""


class DeviceError(CheckpointError):
    """The device or data type that was asked for is not available."""


class MemoryBudgetError(CheckpointError):
    """Its largest step takes more memory than the budget."""


class NoChatTemplateError(Exception):
    """Chat turns were sent to a model without a chat template."""


class TemplateError(Exception):
    """The checkpoint's chat template refused the turns."""
