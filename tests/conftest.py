"""What all tests share."""

import signal

# Who starts the tests in the background may have them ignore Ctrl-C, and every command they start would, too.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
