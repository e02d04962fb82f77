"""What keeps a worker from starting."""


class LaunchError(Exception):
    """Configuration or installation at fault. The message is one line: what is wrong, with which value, what to do."""
