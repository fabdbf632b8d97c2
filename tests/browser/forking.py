"""Studios without the time to import one: a process that has imported all forks a `marginshot studio` for each request.

A request is a line of JSON with the arguments, the environment, the folder, and files for what is printed; the answer
is the number of the new process.
"""

import json
import os
import signal
import sys


def main() -> None:
    import marginshot.studio.server  # noqa: F401
    from marginshot.cli import app
    from marginshot.labelling import Session  # noqa: F401

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the children
    for line in sys.stdin:
        asked = json.loads(line)
        child = os.fork()
        if child == 0:
            become(asked)
            app.main(asked["arguments"])
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()


def become(asked: dict) -> None:
    """Make this process the one that was asked for."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.environ.update(asked["environment"])
    os.chdir(asked["folder"])
    for descriptor, path in ((0, os.devnull), (1, asked["output"]), (2, asked["errors"])):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), descriptor)


if __name__ == "__main__":
    main()
