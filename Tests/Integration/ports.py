"""Gives each server of the tests a port of its own. A Python test calls `free_port()`. Other tests run this file as a
program, which prints the port."""

import fcntl
import os
import socket

# Linux takes the ports of outgoing connections from a higher range. No outgoing connection can therefore take one of
# these ports before a server listens on it.
FIRST, LAST = 20000, 32767
# This file has the port that was given out last. All tests of one user share the file, so no two tests get the same
# port.
COUNTER = f"/tmp/dwell-test-port.{os.getuid()}"


def free_port():
    """Returns a TCP port of 127.0.0.1 that no process uses. A port is given out again only after all others of the
    range."""
    with open(COUNTER, "a+") as counter:
        fcntl.flock(counter, fcntl.LOCK_EX)
        counter.seek(0)
        last = counter.read()
        port = int(last) if last.isdigit() else LAST
        for _ in range(FIRST, LAST + 1):
            port = port + 1 if FIRST <= port < LAST else FIRST
            with socket.socket() as probe:
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError:
                    continue
            counter.truncate(0)
            counter.write(str(port))
            return port
    raise OSError(f"all ports from {FIRST} to {LAST} are in use")


if __name__ == "__main__":
    print(free_port())
