#!/usr/bin/env python3
"""Measures how fast a server sends the notifications of its outbox while it stores --events events a second. A stand-in
for APNs receives them, as in push.py. The stand-in runs on the same machine, so the rates are lower bounds.

Fills the outbox with --count notifications for --devices devices, all due at the same time. Prints how many
notifications a second were sent after this time, and the rate and latency of the events.

Needs the same programs as push.py."""

import argparse
import json
import os
import pathlib
import sqlite3
import subprocess
import tempfile
import time

import push
from client import token
from contestants import LIMITS
from processes import Server

HERE = pathlib.Path(__file__).resolve().parent


def fill(path, count, devices, due):
    """Gives one device to each of at most `devices` drivers, and adds `count` notifications for these devices. Returns
    the number of devices."""
    with sqlite3.connect(path, timeout=30) as db:
        db.execute("PRAGMA foreign_keys = ON")
        owners = [row[0] for row in db.execute("SELECT id FROM driver ORDER BY id LIMIT ?", (devices,))]
        for number, owner in enumerate(owners):
            db.execute("INSERT INTO device (id, push_token, driver, platform, environment, updated_at_ms) "
                       "VALUES (?, ?, ?, 'ios', 'production', 0)", (number + 1, f"{number:064x}", owner))
        db.commit()
        state = db.execute("SELECT state FROM driver LIMIT 1").fetchone()[0]
        # Use small transactions, because the load's events wait for each transaction.
        for begin in range(0, count, 500):
            db.executemany(
                "INSERT INTO push_outbox (device, driver, kind, state, due_at_ms, expires_at_ms, next_attempt_at_ms) "
                "VALUES (?, ?, 'session_active', ?, ?, ?, ?)",
                [(number % len(owners) + 1, owners[number % len(owners)], state, due, due + 600_000, due)
                 for number in range(begin, min(begin + 500, count))])
            db.commit()
            time.sleep(0.01)
    db.close()
    return len(owners)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dwell", type=pathlib.Path, default=HERE.parent / ".build/release/dwell")
    parser.add_argument("--count", type=int, default=50_000)
    parser.add_argument("--devices", type=int, default=2000)
    parser.add_argument("--delay", type=int, default=20, help="milliseconds until the stand-in answers")
    parser.add_argument("--events", type=int, default=2000, help="events a second beside it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        binary, generator, tokens = folder / "apns", folder / "load", folder / "tokens"
        push.build(binary, generator, folder)
        tokens.write_text("".join(token(f"driver-{number:05}") + "\n" for number in range(2000)))
        (folder / "server").mkdir()
        with push.APNs(binary, folder, options.delay) as apns:
            environment = {key: value for key, value in push.environment(folder, apns).items() if key.startswith("PUSH_")}
            chosen = argparse.Namespace(dwell=options.dwell, redis_url=None)
            with Server(chosen, folder / "server", {**LIMITS, **environment}) as server:
                events = subprocess.Popen(
                    [generator, "--port", str(server.port), "--tokens", tokens, "--load", "events", "--connections", "64",
                     "--threads", "1", "--rate", str(options.events), "--seconds", str(10 + options.count // 4000)],
                    stdout=subprocess.PIPE, text=True)
                # After this time, the load has created every driver.
                time.sleep(4)
                path = next((folder / "server").glob("**/*.sqlite3"))
                due = int(time.time() * 1000) + 4000
                devices = fill(path, options.count, options.devices, due)
                database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
                # The load's own journeys add notifications that are due later.
                waiting = "SELECT count(*) FROM push_outbox WHERE due_at_ms = ?"
                while (left := database.execute(waiting, (due,)).fetchone()[0]) and time.time() * 1000 < due + 120_000:
                    time.sleep(0.05)
                seconds = time.time() - due / 1000
                database.close()
                measured = json.loads(events.communicate()[0])
        print(f"{options.count - left} of {options.count} notifications for {devices} devices in {seconds:.1f} s, "
              f"{(options.count - left) / seconds:.0f} a second, on {apns.counts['connections']} connection(s), "
              f"{apns.counts}")
        print(f"  beside it: {json.dumps(measured)}")


if __name__ == "__main__":
    main()
