#!/usr/bin/env python3
"""Fills the disk under a running server. While the disk is full, events get 503 with Retry-After, and reads continue.
When there is space again, the server stores events without a restart.

Every acknowledged event is stored, and /readyz shows whether the server can write. `dwell backup` and `dwell restore`
report a full disk.

The disk is a tmpfs in a mount namespace."""

import json
import os
import subprocess
import sys
import time

from client import Client, token
from processes import Folder, Server, UNLIMITED, arguments, compare_with_disk, wait_until
from report import Report

DISK_BYTES = 16 << 20
DRIVER = "driver-full"


def in_namespace():
    """Replaces this process by the same program in a new mount namespace. Returns False if mount namespaces are not
    permitted."""
    unshare = ["unshare", "--mount"] if os.geteuid() == 0 else ["unshare", "--user", "--map-root-user", "--mount"]
    try_mount = 'mount -t tmpfs -o size=1m none "$0"'
    with Folder() as folder:
        if subprocess.run([*unshare, "sh", "-c", try_mount, folder], capture_output=True).returncode != 0:
            return False
    os.environ["DWELL_MAY_MOUNT"] = "yes"
    os.execvp(unshare[0], [*unshare, sys.executable, *sys.argv])


class Disk:
    def __init__(self, folder):
        self.path = folder / "disk"

    def __enter__(self):
        self.path.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", self.path], check=True)
        return self.path

    def __exit__(self, *_):
        subprocess.run(["umount", "--lazy", self.path], check=False)


class Ballast:
    """A file that uses up all remaining space of the disk."""

    def __init__(self, folder):
        self.path = folder / "ballast"

    def fill(self):
        with open(self.path, "ab", buffering=0) as file:
            for size in (1 << 16, 1 << 12):
                try:
                    while True:
                        file.write(b"\0" * size)
                except OSError:
                    pass

    def remove(self):
        self.path.unlink()


class Reporter:
    """A client that posts events one after the other, each with its own key."""

    def __init__(self, server):
        self.server = server
        self.sent = []
        self.acknowledged = []

    def post(self):
        key = f"full-{len(self.sent)}"
        self.sent.append((DRIVER, key))
        # The event is long, so that the disk is full soon.
        event = {"event_id": key, "event": "chargerTargeted", "charger_id": "c" * 128,
                 "occurred_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
        with Client(self.server.port, token(DRIVER)) as client:
            answer = client.request("POST", "/native/events", json.dumps(event).encode())
        if answer.status == 200:
            self.acknowledged.append((DRIVER, key))
        return answer

    def post_until(self, status, seconds):
        deadline = time.monotonic() + seconds
        while (answer := self.post()).status != status:
            assert time.monotonic() < deadline, f"{answer.status} {answer.body}, not {status}, after {seconds} s"
        return answer

    def post_until_in_a_row(self, status, count, seconds):
        """Posts events until `count` responses in a row have this status. One rejection does not show that the disk is
        full, because a failed write leaves space in the WAL file. A smaller event may fit into that space."""
        deadline = time.monotonic() + seconds
        in_a_row = 0
        while in_a_row < count:
            assert time.monotonic() < deadline, f"only {in_a_row} times {status} in a row after {seconds} s"
            in_a_row = in_a_row + 1 if self.post().status == status else 0


def get(server, path):
    with Client(server.port, token(DRIVER)) as client:
        return client.request("GET", path)


def readiness(server):
    """Returns the status of /readyz, its database check, and whether the response has Retry-After. The server may have
    determined the result up to a second earlier."""
    answer = get(server, "/readyz")
    return answer.status, json.loads(answer.body)["checks"]["database"], "retry-after" in answer.headers


def becomes(server, wanted):
    wait_until(lambda: readiness(server) == wanted, 60, f"/readyz as {wanted}")


def fill_and_free(options, report):
    with Folder() as folder, Disk(folder) as disk:
        environment = {**UNLIMITED, "DATABASE_PATH": str(disk / "dwell.sqlite3"), "LOG_LEVEL": "error"}
        with Server(options, folder, environment) as server:
            server.database_path = disk / "dwell.sqlite3"
            reporter = Reporter(server)
            ballast = Ballast(disk)
            for _ in range(20):
                reporter.post()
            report.check(len(reporter.acknowledged) == 20, "events are stored while there is room")
            for turn in ("once", "again"):
                ballast.fill()
                refused = reporter.post_until(503, 60)
                problem = json.loads(refused.body)
                report.check(problem["code"] == "store_unavailable" and problem["retryable"] is True
                             and int(refused.headers["retry-after"]) > 0,
                             f"full {turn}: an event is 503 with Retry-After", refused)
                report.run(f"full {turn}: and so are the next ones",
                           lambda: reporter.post_until_in_a_row(503, 20, 60))
                reads = [get(server, path).status for path in ("/native/session", "/native/config", "/healthz")]
                report.check(reads == [200, 200, 200], f"full {turn}: reads go on", reads)
                report.run(f"full {turn}: /readyz says so", lambda: becomes(server, (503, "refuses_writes", True)))
                ballast.remove()
                begun = time.monotonic()
                reporter.post_until(200, 60)
                report.note(f"stored again {time.monotonic() - begun:.2f} s after there was room")
                report.run(f"room {turn}: /readyz says so", lambda: becomes(server, (200, "ok", False)))
                report.check(server.process.poll() is None, f"room {turn}: events are stored by the same process")
            report.check(server.stop() == 0, "the server ends with 0", server.log())
            compare_with_disk(report, server, set(reporter.acknowledged), set(reporter.sent), "after all")
            report.check(server.integrity() == "ok", "the database is whole", server.integrity())


def back_up_and_restore(options, report):
    """Tries to back up to a full disk, and to restore a database to a full disk. Both commands must fail and name the
    file that does not fit."""
    with Folder() as folder, Disk(folder) as disk:
        with Server(options, folder, {**UNLIMITED, "LOG_LEVEL": "error"}) as server:
            backup = server.command("backup", "copy")
            report.check(backup.returncode == 0, "a backup is made while there is room", backup.stderr)
            Ballast(disk).fill()
            backup = server.command("backup", disk / "copy")
            report.check(backup.returncode == 1 and f"{disk}/copy.partial: database or disk is full" in backup.stderr,
                         "a backup to a full disk says so", backup.stderr)
            restore = server.command("restore", "--database", disk / "dwell.sqlite3", "copy")
            report.check(restore.returncode == 1
                         and f"{disk}/dwell.sqlite3.restoring: database or disk is full" in restore.stderr,
                         "a restore to a full disk says so", restore.stderr)
            left = sorted(file.name for file in disk.iterdir())
            report.check(left == ["ballast"], "and nothing is left of them", left)


def main():
    options = arguments(__doc__).parse_args()
    report = Report("disk_full")
    if "DWELL_MAY_MOUNT" not in os.environ and not in_namespace():
        print("ok 1 disk_full: a full disk # SKIP mounting a tmpfs is not permitted here\n1..1")
        return
    fill_and_free(options, report)
    back_up_and_restore(options, report)
    report.exit()


main()
