"""Gives each server of the tests a port of its own. A Python test calls `free_port()`. Other tests run this file as a
program, which prints the port."""

import fcntl
import os
import socket

# These ports are below those that Linux uses for outgoing connections. An outgoing connection could otherwise take a
# port before the server listens on it.
FIRST, LAST = 20000, 32767
# All tests of one user on this machine take their ports in turn from the counter in this file. Two tests that run at
# the same time therefore never get the same port.
COUNTER = f"/tmp/dwell-test-port.{os.getuid()}"


def free_port():
    """Returns a TCP port of 127.0.0.1 that no process uses, and that no other test gets soon."""
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
