#!/usr/bin/env python3
"""Sends signals at many moments of a start. SIGHUP never ends the server. SIGTERM and SIGINT end it with status 0 and
without damage to the database.

Until the dynamic linker has finished, the server cannot catch a signal, so a signal may end the process. SigCgt in
/proc/PID/status shows whether the server already catches signals."""

import pathlib
import signal
import socket
import subprocess
import time

from processes import Folder, Server, arguments, wait_until
from report import Report

# The moments at which the signal is sent, in milliseconds after the start. On a slow machine, all moments are
# multiplied by `stretch_of`. The server then catches signals before half of the longest moment has passed.
MOMENTS = [0, 1, 2, 3, 5, 7, 10, 15, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150]
HELD = 1 << (signal.SIGHUP - 1) | 1 << (signal.SIGINT - 1) | 1 << (signal.SIGTERM - 1)


def holds(process):
    """Returns whether the process catches all three signals."""
    try:
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    except FileNotFoundError:
        return False
    mask = next((line.split()[1] for line in status.splitlines() if line.startswith("SigCgt:")), "0")
    return int(mask, 16) & HELD == HELD


class StartedServer(Server):
    def __enter__(self):
        return self

    def launch_now(self):
        with open(self.log_path, "ab") as log:
            self.process = self.launch(log)


def round_of(server, number, moment):
    """Starts the server, and sends the signal after `moment` milliseconds. Returns whether the server caught signals at
    that moment, and its exit status."""
    server.launch_now()
    time.sleep(moment / 1000)
    held = holds(server.process)
    server.process.send_signal(number)
    if number == signal.SIGHUP and (held or server.process.poll() is None):
        try:
            wait_until(server.is_alive, 30, "the start")
        except AssertionError:
            return held, server.process.wait(30)
        server.process.send_signal(signal.SIGTERM)
    return held, server.process.wait(30)


def stretch_of(server):
    """Returns the factor by which MOMENTS are multiplied on this machine. It is at least 1."""
    server.launch_now()
    begun = time.monotonic()
    wait_until(lambda: holds(server.process), 30, "the first code")
    milliseconds = (time.monotonic() - begun) * 1000
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(30)
    return max(1, 2 * milliseconds / MOMENTS[-1])


def check(report, server, number, rounds):
    wrong, early, count = [], 0, 0
    stretch = stretch_of(server)
    for turn in range(rounds):
        for moment in MOMENTS:
            held, status = round_of(server, number, (moment + turn / rounds) * stretch)
            count += 1
            if held and status != 0 or not held and status not in (0, -number):
                wrong.append(f"{number.name} {moment * stretch:.0f} ms after the start: {status}, held back: {held}")
            early += not held
    report.check(not wrong, f"{number.name} at {count} moments of a start, {early} of them before the server's first code", *wrong)
    report.check(early < count, "and not all of them", early)


def second_signal(report, server):
    """Checks that a second SIGTERM ends the server at once, with status 128 plus the signal's number."""
    server.start()
    busy = socket.create_connection(("127.0.0.1", server.port))
    busy.sendall(b"POST /auth/otp/start HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n")
    time.sleep(0.2)
    # The kernel merges two pending SIGTERM into one. The test therefore sends the second only after the log says that
    # the drain has begun. The first `earlier` bytes of the log belong to earlier starts.
    earlier = server.log_path.stat().st_size
    server.process.send_signal(signal.SIGTERM)
    wait_until(lambda: b"draining" in server.log_path.read_bytes()[earlier:], 20, "the drain")
    server.process.send_signal(signal.SIGTERM)
    status = server.process.wait(20)
    busy.close()
    report.check(status == 128 + signal.SIGTERM, "a second SIGTERM ends it at once, with 143", status)


def many_at_once(report, server):
    """Sends fifty SIGHUP and one SIGTERM during a start."""
    statuses = []
    for _ in range(5):
        server.launch_now()
        wait_until(lambda: holds(server.process), 20, "the first code")
        for _ in range(50):
            server.process.send_signal(signal.SIGHUP)
            time.sleep(0.001)
        server.process.send_signal(signal.SIGTERM)
        statuses.append(server.process.wait(30))
    report.check(statuses == [0] * 5, "fifty SIGHUP and a SIGTERM during a start end it with 0", statuses)


def closed_streams(report, server):
    """Starts the server with closed standard output and standard error. The server must not write its log to the pipe
    for signals, because it would read the log's bytes as signals."""
    server.process = subprocess.Popen(
        ["sh", "-c", 'exec "$0" serve </dev/null >&- 2>&-', server.binary], env=server.environment, cwd=server.folder)
    wait_until(server.is_alive, 30, "the start")
    status = server.stop()
    report.check(status == 0, "a server without standard output and error serves, and SIGTERM ends it with 0", status)


def broken_pipe(report, server):
    """Sends SIGPIPE, as the kernel does after a write to a pipe or socket whose reader is gone."""
    server.start()
    server.process.send_signal(signal.SIGPIPE)
    time.sleep(0.2)
    is_alive = server.process.poll() is None and server.is_alive()
    status = server.stop()
    report.check(is_alive and status == 0, "SIGPIPE does not end it", is_alive, status)


def others_end(report, options, folder):
    """Checks that SIGTERM ends `dwell simulate` as it ends other programs. The command waits for a response that never
    comes, so only the signal can end it."""
    server = Server(options, folder, {})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(20)
        process = subprocess.Popen(
            [options.dwell, "simulate", "--url", f"http://127.0.0.1:{silent.getsockname()[1]}"], env=server.environment,
            cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGTERM)
                status = process.wait(20)
        finally:
            process.kill()
            process.wait()
    report.check(status == -signal.SIGTERM, "another command is ended by SIGTERM", status)


def main():
    # If a shell runs this script in the background, the script and its child processes ignore SIGINT. This call makes
    # SIGINT effective again.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    options = arguments(__doc__).parse_args()
    report = Report("signals")
    rounds = max(1, round(2 * options.scale))
    with Folder() as folder, StartedServer(options, folder, {"LOG_LEVEL": "info"}) as server:
        for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGINT):
            check(report, server, number, rounds)
        report.run("many at once", lambda: many_at_once(report, server))
        report.run("a second one", lambda: second_signal(report, server))
        report.run("without standard output and error", lambda: closed_streams(report, server))
        report.run("a broken pipe", lambda: broken_pipe(report, server))
        report.run("another command is running when the signal comes", lambda: others_end(report, options, folder))
        report.check(server.integrity() == "ok", "the database is whole", server.integrity())
        report.check(server.log_path.read_text().count("draining") > 0, "and drains were told")
    report.exit()


main()
