"""What the cluster's commands raise when they cannot go on."""


class ClusterError(Exception):
    """A failure that the person at the keyboard can act on.

    The message is one line: what is wrong, with which value, and what to do about it.
    """


class MissingPrerequisiteError(ClusterError):
    """The machine lacks something that the cluster cannot bring along itself."""
