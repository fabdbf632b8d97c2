"""``python -m marginshot``: the program under another name."""

from marginshot.cli.app import main

main()
