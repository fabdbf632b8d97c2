"""placeholder"""


def command() -> None:
    """placeholder"""
