"""`lethe` as a program: Ctrl-C leaves no traceback, from its first moment to its last."""

import signal
import sys


def main() -> int:
    """Run the command line of this process and return its exit code."""
    # Until a command can say that it was interrupted, it ends as any program does: without a word.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lethe_sim import cli

    code = cli.main()
    # Its verdict is told: what is left is to go.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return code


if __name__ == "__main__":
    sys.exit(main())
