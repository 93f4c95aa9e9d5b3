"""BenchError, which the command line shows without a traceback."""


class BenchError(Exception):
    """A measurement that could not be made; the message says what to do."""
