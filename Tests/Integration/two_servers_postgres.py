#!/usr/bin/env python3
"""Tests two servers on one PostgreSQL, while each driver sends events to both servers. One server is killed. Later,
PostgreSQL is killed and started again.

No acknowledged event is lost, and none is stored twice. A stream on one server also shows the changes from events that
the other server received."""

import os
import socket
import threading
import time

from client import Client, rendered, token
from phones import Load, Phone, percentile, rfc3339
from postgresql import Postgres
from processes import REPOSITORY, UNLIMITED, Folder, Server, arguments, compare_with_disk, psql, wait_until
from report import Report

METRICS_TOKEN = "metrics-token-of-the-check"
# The time within which /metrics must respond. Prometheus waits ten seconds.
SCRAPE_SECONDS_MAX = 5


class SharedPhone(Phone):
    """One of two phones of a driver. Both phones use the same sessions, but different event keys."""

    def __init__(self, driver, suffix):
        super().__init__(driver)
        self.suffix = suffix

    def next_event(self):
        event = super().next_event()
        return {**event, "event_id": event["event_id"] + self.suffix}


class Stream:
    """An open stream of a driver. A context manager."""

    def __init__(self, port, driver):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.sendall(rendered("GET", "/native/session/stream", token(driver)))
        self.received = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def wait_for(self, text):
        """Waits until the stream has sent the text. Then discards all received text, so that the next call waits for
        new text."""
        while text not in self.received:
            more = self.socket.recv(65536)
            if not more:
                raise AssertionError(f"the stream ended before {text}")
            self.received += more
        self.received = b""


class Run:
    """What was sent so far."""

    def __init__(self, report, servers):
        self.report = report
        self.servers = servers
        self.acknowledged, self.sent = set(), set()

    def load(self, what, drivers, seconds, at_end=None, statuses=(200,)):
        """Sends events of the drivers to both servers for `seconds`. Calls `at_end` in the middle of this time. Returns
        the events that were not acknowledged."""
        loads = [
            Load(server.port, [SharedPhone(driver, f"-{letter}-{what}") for driver in drivers], repeat_every=10)
            for server, letter in zip(self.servers, "ab")]
        threads = [threading.Thread(target=load.run, args=(seconds,)) for load in loads]
        for thread in threads:
            thread.start()
        if at_end:
            time.sleep(seconds / 2)
            at_end()
        for thread in threads:
            thread.join()
        exchanges = [exchange for load in loads for exchange in load.exchanges]
        wrong = [exchange for exchange in exchanges if exchange.status not in statuses]
        wrong += [exchange for load in loads for exchange in load.wrong_words() if exchange.status == 200 and not at_end]
        self.report.check(not wrong, f"{what}: {len(exchanges)} right answers", *wrong)
        for load in loads:
            self.acknowledged |= load.acknowledged()
        refused = [exchange.sent for exchange in exchanges if exchange.status != 200]
        again = refused + [sent for load in loads for sent in load.unanswered]
        self.sent |= self.acknowledged | {(sent.driver, sent.key) for sent in again}
        return again

    def send_again(self, what, again):
        """Sends the events through both servers in turn."""
        wrong = []
        for index, sent in enumerate(again):
            with Client(self.servers[index % 2].port, token(sent.driver)) as client:
                status, body = client.post("/native/events", sent.event)
            if status == 200:
                self.acknowledged.add((sent.driver, sent.key))
            else:
                wrong.append((status, body))
        self.report.check(not wrong, f"{what}: {len(again)} events without an acknowledgement are sent again", *wrong)

    def compare(self, what, drivers):
        compare_with_disk(self.report, self.servers[0], self.acknowledged, self.sent, what)
        different = []
        for driver in drivers:
            answers = []
            for server in self.servers:
                with Client(server.port, token(driver)) as client:
                    status, body = client.get("/native/session")
                    # The rest of the response depends on the time.
                    answers.append((status, body["state"], body.get("session_id"), body.get("ended_by")))
            if answers[0] != answers[1]:
                different.append(answers)
        self.report.check(not different, f"{what}: both servers show the same journeys", *different)


def start_together(servers):
    errors = []

    def start(server):
        try:
            server.start()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=start, args=(server,)) for server in servers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


def start_on_empty_database(servers):
    """Checks that both servers become ready, and that only one of them applied the migrations. A server stores the same
    time for all migrations that it applies together."""
    tables = psql(servers[0].database_url, "SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    assert not tables, tables
    start_together(servers)
    for server in servers:
        wait_until(server.is_ready, 30, "readiness")
    migrations = len(list((REPOSITORY / "migrations/postgresql").glob("*.sql")))
    found = psql(servers[0].database_url, "SELECT count(*), count(DISTINCT applied_at_ms) AS times FROM schema_migration")
    assert found == [(migrations, 1)], f"{migrations} migrations, the rows and their times: {found}"


def follow(report, run, count):
    """Sends requests to one server, and measures how long each change takes to appear on a stream of the other."""
    servers = run.servers
    driver = f"followed-{os.getpid()}"
    seconds = []
    with Stream(servers[0].port, driver) as stream, Client(servers[1].port, token(driver)) as client:
        stream.wait_for(b"IDLE")
        for number in range(count):
            begins = number % 2 == 0
            event = {
                "event_id": f"{driver}-{number}", "event": "enteredChargerIntentZone" if begins else "exitedChargerIntentZone",
                "occurred_at": rfc3339(int(time.time() * 1000)), "charger_id": f"charger-{number}"}
            sent = time.monotonic()
            status, body = client.post("/native/events", event)
            if status != 200:
                raise AssertionError(f"{status} {body}")
            run.sent.add((driver, event["event_id"]))
            run.acknowledged.add((driver, event["event_id"]))
            stream.wait_for(f'"state":"{body["session"]["state"]}"'.encode())
            seconds.append(time.monotonic() - sent)
    report.note(
        f"a change through one server is on the stream of the other after p50 {percentile(seconds, 0.5) * 1000:.0f} ms, "
        f"max {max(seconds) * 1000:.0f} ms ({count} changes)")


def metrics(server):
    """Requests /metrics. Returns the lines of the response, and its duration in seconds."""
    begin = time.monotonic()
    with Client(server.port, METRICS_TOKEN, timeout=90) as client:
        text = client.request("GET", "/metrics").body.decode()
    return text.splitlines(), time.monotonic() - begin


def instances(server):
    return [line for line in metrics(server)[0] if line.startswith("dwell_instances ")]


def metrics_in_outage(report, what, server, before):
    """Checks that the server still serves /metrics while PostgreSQL does not respond. `before` contains the line of
    `dwell_instances` from before the outage."""
    # The server reuses the result of a test write for one second. After this wait, it no longer reuses a result from
    # before the outage.
    time.sleep(1.1)
    scrapes = [metrics(server) for _ in range(3)]
    seconds = [round(seconds, 1) for _, seconds in scrapes]
    report.check(max(seconds) < SCRAPE_SECONDS_MAX, f"{what}: /metrics answers within {SCRAPE_SECONDS_MAX} s", *seconds)
    wrong = [lines for lines, _ in scrapes if "dwell_ready 0" not in lines]
    report.check(not wrong, f"{what}: dwell_ready is 0", *wrong)
    wrong = [line for lines, _ in scrapes for line in lines if line.startswith("dwell_instances ") and line not in before]
    report.check(not wrong, f"{what}: metrics that need a query keep their values", *wrong)
    report.note(f"{what}: /metrics took {seconds} s")


def main():
    parser = arguments(__doc__)
    parser.add_argument("--drivers", default=24, type=int)
    options = parser.parse_args()
    report = Report("two servers on PostgreSQL")
    seconds = max(1, 4 * options.scale)
    drivers = [f"shared-{os.getpid()}-{index}" for index in range(options.drivers)]
    with Folder() as first, Folder() as second, Postgres() as postgres:
        environment = {**UNLIMITED, "DATABASE_URL": postgres.create_database("shared"), "METRICS_TOKEN": METRICS_TOKEN}
        servers = [Server(options, folder, environment) for folder in (first, second)]
        try:
            report.run("both start at once on an empty database, and one of them migrates it",
                       lambda: start_on_empty_database(servers))
            run = Run(report, servers)
            again = run.load("both run", drivers, seconds)
            run.send_again("both run", again)
            run.compare("both run", drivers)
            report.run("a stream shows changes through the other server",
                       lambda: follow(report, run, max(4, round(20 * options.scale))))
            found = instances(servers[0])
            report.check(found == ["dwell_instances 2"], "each server has its heartbeat", *found)

            again = run.load("one is killed", drivers, seconds, at_end=servers[1].kill)
            servers[1].start()
            run.send_again("one is killed", again)
            run.compare("one is killed", drivers)

            found = instances(servers[0])
            with postgres.suspended():
                metrics_in_outage(report, "PostgreSQL hangs", servers[0], found)
            for server in servers:
                wait_until(server.is_ready, 30, "readiness")
            postgres.kill()
            metrics_in_outage(report, "PostgreSQL is down", servers[0], found)
            postgres.start()
            for server in servers:
                wait_until(server.is_ready, 30, "readiness")
            wait_until(lambda: "dwell_ready 1" in metrics(servers[0])[0], 30, "the metric of readiness")

            def restart():
                postgres.kill()
                time.sleep(1)
                postgres.start()

            again = run.load("PostgreSQL is killed", drivers, seconds * 2, at_end=restart, statuses=(200, 500, 503))
            for server in servers:
                wait_until(server.is_ready, 30, "readiness")
            run.send_again("PostgreSQL is killed", again)
            run.compare("PostgreSQL is killed", drivers)
            for number, server in enumerate(servers):
                report.check(server.stop() == 0, f"SIGTERM ends server {number} with 0", server.log())
        finally:
            for server in servers:
                server.kill()
    report.note(f"{len(run.acknowledged)} acknowledged events")
    report.exit()


if __name__ == "__main__":
    main()
