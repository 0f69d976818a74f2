#!/usr/bin/env python3
"""Measures how long other drivers wait, with and without late events of one driver. Each late event belongs before a
long journey, so the server must fold the journey again.

Also checks that the rate limit charges a late event for each row that the event refolds."""

import json
import statistics
import threading
import time

from client import Client, token
from processes import POSTGRES, UNLIMITED, Folder, Server, arguments
from report import Report

BATCH = 500
LATE = 4
# The test repeats the comparison of the waits at most this often. It ends after one comparison without longer waits,
# because other work on the machine can only increase the difference.
ATTEMPTS = 3


def event(key, second, **members):
    return {
        "event": "seen_again", "event_id": key,
        "occurred_at": f"2026-11-05T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z", **members}


def post(client, events):
    answer = client.request("POST", "/native/events/batch", json.dumps({"events": events}).encode())
    assert answer.status == 200, answer
    return json.loads(answer.body)["results"]


class Others:
    """Four drivers, each of whom posts one event after another. Records their waits in seconds."""

    def __init__(self, port, name, count=4):
        self.waits, self.ends = [], threading.Event()
        self.threads = [threading.Thread(target=self.post, args=(port, f"{name}-{number}")) for number in range(count)]
        for thread in self.threads:
            thread.start()

    def post(self, port, driver):
        with Client(port, token(driver)) as client:
            count = 0
            while not self.ends.is_set():
                count += 1
                body = json.dumps(event(f"o{time.monotonic_ns()}", 1 + count % 80_000)).encode()
                start = time.monotonic()
                assert client.request("POST", "/native/events", body).status == 200
                self.waits.append(time.monotonic() - start)
                time.sleep(0.002)

    def median(self):
        self.ends.set()
        for thread in self.threads:
            thread.join()
        return statistics.median(self.waits)


def journey(client, rows):
    for start in range(0, rows, BATCH):
        post(client, [event(f"e{number}", 100 + number % 80_000) for number in range(start, min(start + BATCH, rows))])


def late(number):
    """Returns an event that changes the stored result of every event after it."""
    return event(f"late{number}", 0, event="chargerTargeted", charger_id=f"c{number}", sequence=number)


def main():
    options = arguments(__doc__).parse_args()
    # PostgreSQL refolds the journey in one transaction, which has a time limit. With PostgreSQL, the journey is
    # therefore shorter, so that a slow machine also finishes in time.
    full = 4_000 if POSTGRES else 10_000
    rows = max(int(full * options.scale) // BATCH, 4) * BATCH
    report = Report("late events")
    with Folder() as folder, Server(options, folder, UNLIMITED) as server:
        with Client(server.port, token("late"), timeout=120) as client:
            journey(client, rows)
            ratios, results = [], []
            while len(ratios) < ATTEMPTS and not any(ratio < 3 for ratio in ratios):
                others = Others(server.port, f"alone-{len(ratios)}")
                time.sleep(3)
                without = others.median()
                others = Others(server.port, f"beside-{len(ratios)}")
                start = time.monotonic()
                results += post(client, [late(number) for number in range(len(results), len(results) + LATE)])
                took = time.monotonic() - start
                beside = others.median()
                ratios.append(beside / without)
                report.note(
                    f"{LATE} late events before {rows} took {took:.1f} s; the others' median wait was "
                    f"{without * 1000:.2f} ms, and {beside * 1000:.2f} ms beside them: {ratios[-1]:.2f} times")
            report.check(all(result["status_code"] == 200 for result in results), "each is stored", *results)
            # Each ratio is the other drivers' wait with late events, divided by their wait without late events. If a
            # refold blocked the other drivers, the ratio would be in the hundreds.
            report.check(min(ratios) < 3, "others wait about as long as without", *ratios)

    # The number of rows is limited, because a refold of very many rows may take too long on PostgreSQL. The server
    # would then refuse the late event (contract, section 4).
    rows = min(rows, 40_000)
    with Folder() as folder, Server(options, folder, {"RATE_LIMIT_PRESESSION_EVENTS": str(rows)}) as server:
        with Client(server.port, token("charged"), timeout=120) as client:
            # The rate limit allows exactly the journey and the late events. The first late event is also charged for
            # the rows that it refolds, and this uses up the limit. The other late events therefore get 429.
            journey(client, rows - LATE)
            results = post(client, [late(number) for number in range(LATE)])
            statuses = [result["status_code"] for result in results]
            report.check(statuses[0] == 200, "the first late event is stored", *results[:1])
            report.check(set(statuses[1:]) == {429}, "those after it are told to wait", *results[1:3])
            report.check(all(result["retry_after"] > 0 for result in results[1:]), "and how long")
    report.exit()


if __name__ == "__main__":
    main()
