"""What can be wrong with a model that is inspected."""


class InspectError(Exception):
    """Facts that cannot be had. The message is one line: of which file or field, why, and what to do."""
