"""`lethe` as a program: Ctrl-C leaves no traceback, from its first moment to its last."""

import signal
import sys


def main() -> int:
    """Run the command line of this process and return its exit code."""
    # The imports take a while.  An interrupt during them ends the process at once, without a traceback.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from lethe_sim import cli

    code = cli.main()
    # The result has been printed.  An interrupt during the exit would only spoil the exit code.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    return code


if __name__ == "__main__":
    sys.exit(main())
