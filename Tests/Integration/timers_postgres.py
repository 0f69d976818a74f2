#!/usr/bin/env python3
"""Tests deadlines that pass while all four servers on one PostgreSQL are down. When the servers start again, each
expiry must be stored exactly once. Every second round uses SIGKILL, and also kills PostgreSQL while the servers store
the expiries."""

import contextlib
import json
import os
import threading
import time

from client import Client, token
from phones import rfc3339
from postgresql import Postgres
from processes import UNLIMITED, Folder, Server, arguments, psql, wait_until
from report import Report

SERVERS = 4
GRACE_SECONDS, HARD_SECONDS = 60, 120
SETTINGS = {
    **UNLIMITED, "NATIVE_GRACE_PERIOD_SECONDS": str(GRACE_SECONDS), "NATIVE_HARD_TIMEOUT_SECONDS": str(HARD_SECONDS)}


def events(driver, departs, deadline):
    """Returns the events of a session with the given deadline, in milliseconds since 1970. If the driver departs, the
    deadline is the end of the grace period. Otherwise it is the hard timeout."""
    last = deadline - 1000 * (GRACE_SECONDS if departs else HARD_SECONDS)
    steps = [("enteredChargerIntentZone", False), ("anchorDwellComplete", False), ("exclusiveActivatedByWeb", True)]
    steps += [("exitedChargerAnchorZone", True)] if departs else []
    return [
        {
            "event_id": f"{driver}-{name}", "event": name, "charger_id": "charger-1",
            "occurred_at": rfc3339(last - 1000 * (len(steps) - 1 - index)),
            **({"session_id": f"{driver}-session"} if has_session else {}),
        }
        for index, (name, has_session) in enumerate(steps)]


def begin(servers, drivers, deadline):
    """Sends the events of all drivers, each driver's to one server. Returns the responses that lack the expected
    state."""
    wrong = []

    def send(server, part):
        with Client(server.port, None) as client:
            for driver, departs in part:
                client.token = token(driver)
                body = json.dumps({"events": events(driver, departs, deadline)}).encode()
                answer = client.request("POST", "/native/events/batch", body)
                results = json.loads(answer.body).get("results", [])
                expected = "IN_TRANSIT" if departs else "SESSION_ACTIVE"
                if answer.status != 200 or results[-1].get("session", {}).get("state") != expected:
                    wrong.append(answer)

    threads = [
        threading.Thread(target=send, args=(server, drivers[index::SERVERS])) for index, server in enumerate(servers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return wrong


def expiries(url):
    """Returns driver, name and number of the stored expiries."""
    return psql(url, """SELECT driver.driver_id, event.name, count(*) FROM event JOIN driver ON driver.id = event.driver
        WHERE event.source = 'server' GROUP BY driver.driver_id, event.name""")


def run(report, postgres, servers, number, count, kills):
    """Plays one round. If `kills` is true, SIGKILL ends the servers, and PostgreSQL is killed while the restarted
    servers store the expiries."""
    what = f"round {number}, {'SIGKILL' if kills else 'SIGTERM'}"
    url = servers[0].database_url
    # All servers must be down before the deadlines. If a busy machine stops them too slowly, a further attempt has
    # later deadlines.
    for seconds in (8, 40, 200):
        before = {tuple(row) for row in expiries(url)}
        drivers = [(f"timer-{os.getpid()}-{number}-{seconds}-{index}", index % 2 == 0) for index in range(count)]
        deadline = int(time.time() * 1000) + 1000 * seconds
        wrong = begin(servers, drivers, deadline)
        for server in servers:
            if kills:
                server.kill()
            else:
                server.stop()
        early = int(time.time() * 1000) < deadline and {tuple(row) for row in expiries(url)} == before
        if early:
            break
        for server in servers:
            server.start()
    report.check(not wrong, f"{what}: {count} drivers have a session with a deadline", *wrong)
    report.check(early, f"{what}: all servers are down before the deadlines")
    time.sleep(max(0, deadline / 1000 + 0.2 - time.time()))

    starts = [threading.Thread(target=server.start) for server in servers]
    for thread in starts:
        thread.start()
    if kills:
        wait_until(lambda: len(expiries(url)) > len(before), 30, "the first expiry")
        stored = len(expiries(url)) - len(before)
        postgres.kill()
        postgres.start()
        report.note(f"PostgreSQL was killed when {stored} of {count} expiries were stored")
    for thread in starts:
        thread.join()
    wait_until(lambda: len(expiries(url)) >= len(before) + count, 60, "the expiries")
    late = time.time() - deadline / 1000
    # If another server stored a second expiry, it would do so within a second.
    time.sleep(1.5)
    found = {tuple(row) for row in expiries(url)} - before
    expected = {(driver, "gracePeriodExpired" if departs else "hardTimeoutExpired", 1) for driver, departs in drivers}
    report.check(found == expected, f"{what}: each of {count} expiries is stored once", *sorted(found ^ expected))
    report.note(f"{what}: the last expiry was stored at most {late:.1f} s after the deadline")


def main():
    parser = arguments(__doc__)
    parser.add_argument("--drivers", default=200, type=int, help="of a round (default: 200)")
    parser.add_argument("--rounds", default=2, type=int, help="before scaling (default: 2)")
    options = parser.parse_args()
    report = Report("timers on PostgreSQL")
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(Postgres(["max_connections = 200"]))
        settings = {**SETTINGS, "DATABASE_URL": postgres.create_database("timers")}
        servers = [
            stack.enter_context(Server(options, stack.enter_context(Folder()), settings)) for _ in range(SERVERS)]
        for number in range(1, max(2, round(options.rounds * options.scale)) + 1):
            run(report, postgres, servers, number, options.drivers, kills=number % 2 == 0)
        check = servers[0].command("check")
        report.check(check.returncode == 0, "dwell check finds nothing wrong", check.stdout, check.stderr)
    report.exit()


if __name__ == "__main__":
    main()
