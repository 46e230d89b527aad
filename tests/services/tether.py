"""Run a command that cannot outlive its parent, under another user if asked.

    python tether.py PARENT_PID USER COMMAND [ARGUMENT ...]

USER is `-` to stay the same user. The process id stays the same (exec), so the parent signals the
server itself. PostgreSQL refuses to run as root: hence the change of user. On Linux the kernel
kills the command when the *thread* that spawned it ends: spawn from a thread that lives long.
Runs as a bare script (`python -I`), so it imports nothing of ours.
"""

import ctypes
import os
import pwd
import signal
import sys

PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def drop_to(user: str) -> None:
    """Give up root for `user`, its own group only."""
    entry = pwd.getpwnam(user)
    os.setgroups([])
    os.setgid(entry.pw_gid)
    os.setuid(entry.pw_uid)


def die_with(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent is gone; leave at once if it is gone already."""
    if sys.platform != "linux":
        return
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) refused")
    if os.getppid() != parent:
        sys.exit("tether: the parent is gone")


def main(arguments: list[str]) -> None:
    """Change user (which clears the death signal, so first), tie to the parent, exec."""
    parent, user, *command = arguments
    if user != "-":
        drop_to(user)
    die_with(int(parent))
    os.execv(command[0], command)  # noqa: S606 - the whole point; no shell is wanted


if __name__ == "__main__":
    main(sys.argv[1:])
