#!/usr/bin/env python3
"""Measures how a server stores events while it refolds all stored journeys, as after an upgrade with new fold rules:
`upgrade.py BINARY...`. To compare two versions, pass both binaries.

Fills a SQLite database with events, and marks all drivers as folded by the previous rules. Starts each binary on a copy
of this database, and posts events as fast as possible. Prints the rate and the latencies, and how many seconds after the
start the refold was complete."""

import argparse
import json
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "Tests" / "Integration"))

from client import token  # noqa: E402
from processes import UNLIMITED, Folder, Server  # noqa: E402


def server(binary, folder):
    return Server(argparse.Namespace(dwell=binary, redis_url=None), folder, UNLIMITED)


def load(generator, port, tokens, *words):
    command = [generator, "--port", port, "--tokens", tokens, "--salt", f"{time.time_ns() >> 16 & 0x7fffffff:x}", *words]
    return json.loads(subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, check=False, text=True).stdout)


def fill(options, folder, generator, tokens):
    """Returns the path of the database."""
    folder.mkdir()
    with server(options.binaries[0], folder) as filled:
        load(generator, filled.port, tokens, "--load", "batch", "--connections", 8, "--seconds", 600,
             "--requests", options.events // 100)
        filled.stop()
    with sqlite3.connect(filled.database_path) as database:
        database.execute("UPDATE driver SET rules = rules - 1")
    database.close()
    return filled.database_path


def waiting(path):
    """Returns the number of drivers that are not refolded yet."""
    database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=30)
    try:
        return database.execute("SELECT count(*) FROM driver WHERE rules <> (SELECT max(rules) FROM driver)").fetchone()[0]
    finally:
        database.close()


def measure(options, binary, folder, database, generator, tokens):
    folder.mkdir()
    shutil.copy(database, folder / "dwell.sqlite3")
    with sqlite3.connect(folder / "dwell.sqlite3") as copy:
        # Add a driver without events who has the current rules. `waiting` compares the other drivers with this one.
        copy.execute("INSERT INTO driver (driver_id, created_at_ms, rules) SELECT 'current', 0, max(rules) + 1 FROM driver")
    copy.close()
    with server(binary, folder) as measured:
        began = time.monotonic()
        found = load(generator, measured.port, tokens, "--load", "events", "--connections", options.connections,
                     "--seconds", options.seconds, "--warmup", 0)
        left = waiting(measured.database_path)
        while waiting(measured.database_path):
            time.sleep(0.5)
        return {
            "binary": str(binary), **{name: found[name] for name in ("rate", "p50_us", "p99_us", "max_us", "failures", "broken")},
            "drivers_left": left, "refolded_after_seconds": round(time.monotonic() - began, 1)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("binaries", type=pathlib.Path, nargs="+")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--drivers", type=int, default=2_000)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=15)
    options = parser.parse_args()
    with Folder() as folder:
        generator = folder / "load"
        subprocess.run(["cc", "-O2", "-pthread", "-o", generator, HERE / "load" / "load.c"], check=True)
        tokens = folder / "tokens"
        tokens.write_text("".join(token(f"driver-{number:05}") + "\n" for number in range(options.drivers)))
        database = fill(options, folder / "filled", generator, tokens)
        for number, binary in enumerate(options.binaries):
            print(json.dumps(measure(options, binary, folder / str(number), database, generator, tokens)), flush=True)


if __name__ == "__main__":
    main()
