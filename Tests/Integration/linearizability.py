#!/usr/bin/env python3
"""For each of many drivers, several clients post the driver's events at the same time and in any order. Meanwhile, the
server is killed repeatedly. The recorded history of each driver must be linearizable (histories.py).

With PostgreSQL, there are four servers on one database, and PostgreSQL is killed too."""

import collections
import contextlib
import json
import math
import os
import random
import threading
import time

import histories
from client import Client, token
from histories import Attempt
from phones import rfc3339
from postgresql import Postgres
from processes import POSTGRES, UNLIMITED, Folder, Server, arguments
from report import Report

EVENTS = 12
CLIENTS = 4
# If an attempt has no answer after this time, the client ends the attempt and repeats the request.
TIMEOUT_SECONDS = 3


class Driver:
    """One driver's events and what the clients recorded."""

    def __init__(self, name, chance):
        self.name = name
        self.token = token(name)
        self.names = [chance.choice(histories.NAMES) for _ in range(EVENTS)]
        begin = int(time.time() * 1000) - 600_000
        self.times = [begin + 1000 * index + 1 + chance.randrange(998) for index in range(EVENTS)]
        # The clients share this work: each event once, three of the events a second time, and six reads (`None`). Two
        # clients may therefore post the same event.
        self.work = list(range(EVENTS)) + chance.sample(range(EVENTS), 3) + [None] * 6
        chance.shuffle(self.work)
        self.attempts = []
        self.lock = threading.Lock()

    def take(self):
        with self.lock:
            return (self.work.pop(),) if self.work else None

    def record(self, attempt):
        with self.lock:
            self.attempts.append(attempt)

    def body(self, index):
        return {
            "event_id": f"{self.name}-{index}", "event": self.names[index], "occurred_at": rfc3339(self.times[index]),
            "charger_id": "charger-1"}

    def is_linearizable(self):
        return histories.is_linearizable(self.names, self.attempts)


class Poster(threading.Thread):
    """A client that works on one driver after another. After a failure, it connects to a random server."""

    def __init__(self, servers, drivers, seed):
        super().__init__(daemon=True)
        self.servers, self.drivers = servers, drivers
        self.chance = random.Random(seed)
        self.wrong = []

    def run(self):
        for driver in self.drivers:
            client = None
            while taken := driver.take():
                client = self.work(driver, taken[0], client)
            if client:
                client.socket.close()

    def work(self, driver, event, client):
        """Repeats one request until its response is neither 500 nor 503."""
        while True:
            begin = time.monotonic()
            answer = None
            try:
                if client is None:
                    client = Client(self.chance.choice(self.servers).port, driver.token, timeout=TIMEOUT_SECONDS)
                    begin = time.monotonic()
                if event is None:
                    answer = client.get("/native/session")
                else:
                    answer = client.post("/native/events", driver.body(event))
            except (OSError, ValueError):
                pass
            end = time.monotonic()
            if answer and answer[0] == 200:
                driver.record(self.attempt(begin, end, event, answer[1]))
                return client
            if answer and answer[0] not in (500, 503):
                self.wrong.append(f"{driver.name}: {answer}")
                return client
            if event is not None:
                driver.record(Attempt(begin, math.inf, event, None, None))
            if client:
                client.socket.close()
                client = None
            time.sleep(0.05)

    @staticmethod
    def attempt(begin, end, event, answer):
        if event is None:
            return Attempt(begin, end, None, answer["state"], None)
        session = answer["session"]
        return Attempt(
            begin, end, event, session["state"], session["transition"], answer["status"] == "already_processed")


def check_the_check(report, chance):
    """Checks that the search rejects wrong histories of each kind and accepts right histories."""
    names = ["enteredChargerIntentZone", "anchorDwellComplete"]
    entered = Attempt(0, 1, 0, "NEAR_CHARGER", "applied")
    anchored = Attempt(2, 3, 1, "ANCHORED", "applied")
    wrong = {
        "an acknowledged event that is lost": [entered, Attempt(2, 3, 1, "IDLE", "rejected")],
        "an acknowledged event that is lost later": [entered, anchored, Attempt(4, 5, None, "IDLE", None)],
        "a read of an old state": [entered, anchored, Attempt(4, 5, None, "NEAR_CHARGER", None)],
        "an event stored twice": [entered, anchored, Attempt(4, 5, 1, "ANCHORED", "applied")],
        "a repeat that was told to be one too early": [entered, anchored._replace(is_repeat=True)],
        "an answer that knows a later event": [anchored, Attempt(4, 5, 0, "ANCHORED", "applied")],
        "a read that goes back": [
            entered, Attempt(2, 9, 1, "ANCHORED", "applied"), Attempt(3, 4, None, "ANCHORED", None),
            Attempt(5, 6, None, "NEAR_CHARGER", None)],
    }
    for what, history in wrong.items():
        report.check(not histories.is_linearizable(names, history), f"{what} is found")
    right = [
        [entered, anchored], [entered, anchored, Attempt(4, 5, 1, "ANCHORED", "applied", True)],
        [entered, Attempt(2, math.inf, 1, None, None), Attempt(4, 5, None, "ANCHORED", None)],
        [entered, Attempt(2, math.inf, 1, None, None), Attempt(4, 5, None, "NEAR_CHARGER", None)]]
    report.check(all(histories.is_linearizable(names, history) for history in right), "right histories are accepted")
    found = collections.Counter()
    different = []
    for _ in range(4000):
        history = histories.random_history(chance)
        expected = histories.is_linearizable_by_trying(*history)
        found[expected] += 1
        if histories.is_linearizable(*history) != expected:
            different.append(history)
    report.check(not different, "the search agrees with trying every order", *different)
    report.check(min(found[True], found[False]) > 200, "of 4000 short histories, many are right and many are wrong", found)


def record(servers, drivers, faults, chance):
    """Runs the clients on all drivers. Until all clients are done, `faults` runs beside them. Returns the unexpected
    answers."""
    posters = [Poster(servers, drivers, chance.random()) for _ in range(CLIENTS)]
    done = threading.Event()
    breaking = threading.Thread(target=faults, args=(done,), daemon=True)
    breaking.start()
    for poster in posters:
        poster.start()
    for poster in posters:
        poster.join()
    done.set()
    breaking.join()
    return [answer for poster in posters for answer in poster.wrong]


class Faults:
    """Kills and restarts servers, and sometimes PostgreSQL."""

    def __init__(self, chance):
        self.chance = chance
        self.servers, self.postgres = [], None
        self.count = 0

    def run(self, done):
        while not done.wait(self.chance.uniform(0.2, 0.8)):
            if self.postgres and self.chance.random() < 0.25:
                self.postgres.kill()
                self.postgres.start()
            else:
                server = self.chance.choice(self.servers)
                server.kill()
                server.start()
            self.count += 1


def start(options, stack, faults):
    """Starts the servers, and tells `faults` what to kill."""
    environment = dict(UNLIMITED)
    if POSTGRES:
        faults.postgres = stack.enter_context(Postgres())
        environment["DATABASE_URL"] = faults.postgres.create_database("histories")
    for _ in range(4 if POSTGRES else 1):
        faults.servers.append(stack.enter_context(Server(options, stack.enter_context(Folder()), environment)))
    return faults.servers


def main():
    parser = arguments(__doc__)
    parser.add_argument("--histories", default=300, type=int, help="before scaling (default: 300)")
    parser.add_argument("--seed", default=int(time.time()), type=int)
    options = parser.parse_args()
    count = max(1, round(options.histories * options.scale))
    chance = random.Random(options.seed)
    report = Report("linearizability")
    report.note(f"{count} histories, --seed {options.seed}")
    check_the_check(report, chance)
    drivers = [Driver(f"history-{os.getpid()}-{index}", chance) for index in range(count)]
    faults = Faults(chance)
    with contextlib.ExitStack() as stack:
        servers = start(options, stack, faults)
        wrong = record(servers, drivers, faults.run, chance)
    report.check(not wrong, "every answer is 200, 500 or 503", *wrong)
    bad = [driver for driver in drivers if not driver.is_linearizable()]
    report.check(
        not bad, f"{count} histories are linearizable",
        *(json.dumps([driver.name, driver.names, sorted(driver.attempts)], default=str) for driver in bad))
    unanswered = sum(attempt.end == math.inf for driver in drivers for attempt in driver.attempts)
    report.note(f"{sum(len(driver.attempts) for driver in drivers)} attempts, {unanswered} without an answer, {faults.count} kills")
    report.exit()


if __name__ == "__main__":
    main()
