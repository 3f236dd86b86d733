"""Run a command that must not outlive whoever started it: `processes` starts this file, by its path.

``python leash.py HOLD DONE N DIRECTORY… COMMAND…``: the command runs until it ends, or until nobody holds the other
end of the pipe HOLD any more, however that came about: SIGKILL included.  Then every process of this session dies,
and the pipe DONE is closed.  If nobody holds HOLD, the N directories, which are the command's own, are removed.

It imports little, because it starts before each tool.
"""

import os
import select
import signal
import sys


def main() -> int:
    hold, done, many = map(int, sys.argv[1:4])
    directories, command = sys.argv[4 : 4 + many], sys.argv[4 + many :]
    os.set_inheritable(hold, False)
    os.set_inheritable(done, False)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    # A handler of Python's, so that the wake-up happens; the command gets the default again.
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, frame: None)
    child = os.fork()
    if child == 0:
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\n".encode(errors="replace"))
        os._exit(127)
    code, stop = None, False
    while code is None:
        ready, _, _ = select.select([hold, woken], [], [])
        stop = hold in ready
        if woken in ready:
            stop |= any(number != signal.SIGCHLD for number in os.read(woken, 64))
        if stop:
            code = 128 + signal.SIGKILL
        else:
            # Some other child's end may have woken us: one of the command's that it left behind.
            ended, status = os.waitpid(child, os.WNOHANG)
            code = os.waitstatus_to_exitcode(status) if ended else None
    kill_session()
    for directory in directories if stop else ():
        remove(directory)
    return code if code >= 0 else 128 - code


def kill_session() -> None:
    """Kill all of this session but this process, until none is left."""
    own = os.getpid()
    for _ in range(1000):
        others = [pid for pid in session(own) if pid != own]
        for pid in others:
            try:  # noqa: SIM105
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
        if not others:
            return
        select.select([], [], [], 0.005)


def session(leader: int) -> list[int]:
    """The processes of a session that still run; without /proc, those of its leader's group are killed here."""
    try:
        names = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        names = []
    if not names:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(leader, signal.SIGTERM)
        return []
    found = []
    for name in names:
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # pid (name) state parent group session …; the name may contain anything.
                state, _, _, of = file.read().rpartition(b")")[2].split()[:4]
        except (OSError, ValueError):
            continue
        if int(of) == leader and state not in (b"Z", b"X"):
            found.append(int(name))
    return found


def remove(directory: str) -> None:
    """A directory with all that is in it, as far as possible."""
    for root, directories, files in os.walk(directory, topdown=False):
        for name in [*files, *directories]:
            path = os.path.join(root, name)
            try:
                if os.path.isdir(path) and not os.path.islink(path):
                    os.rmdir(path)
                else:
                    os.unlink(path)
            except OSError:
                pass
    try:  # noqa: SIM105
        os.rmdir(directory)
    except OSError:
        pass


if __name__ == "__main__":
    sys.exit(main())
