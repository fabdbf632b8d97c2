"""Signals in processes that the tests start."""

import signal


def hearing_signals() -> None:
    """Restore the usual reactions in a new process, which under ``nohup`` or in the background ignores signals."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
