"""What a benchmark ends with when it cannot give a figure."""


class BenchmarkError(Exception):
    """Something is not set up, did not start or did not answer. The message tells the remedy."""


class LoadedMachineError(BenchmarkError):
    """Other work kept the machine busy: a figure from it would not be this code's."""
