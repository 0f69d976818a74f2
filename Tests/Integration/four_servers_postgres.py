#!/usr/bin/env python3
"""Four servers on one PostgreSQL, and 600 drivers who use all four servers. Each round kills servers with SIGKILL under
load, and some rounds also kill the postmaster of PostgreSQL. The full test is --rounds 100.

No acknowledged event is lost, and none is stored twice. Each driver's version and highest event number both equal the
count of the driver's events.

PostgreSQL waits for the disk at each COMMIT. A killed process loses nothing from the kernel's page cache. This test
therefore does not show what a loss of power would do."""

import collections
import contextlib
import os
import random
import threading
import time

from client import Client, token
from phones import Load, Phone
from postgresql import Postgres
from processes import UNLIMITED, Folder, Server, arguments, compare_with_disk, psql, wait_until
from report import Report

SERVERS = 4
# The grace period must not end during the test. Its end would store an event that no client has sent.
SETTINGS = {**UNLIMITED, "NATIVE_GRACE_PERIOD_SECONDS": "3600"}


class SharedPhone(Phone):
    """One of several phones of a driver. Phones of one driver use the same sessions, but different event keys."""

    def __init__(self, driver, access_token, suffix):
        super().__init__(driver, access_token)
        self.suffix = suffix

    def next_event(self):
        event = super().next_event()
        return {**event, "event_id": event["event_id"] + self.suffix}


class Run:
    def __init__(self, report, options, chance, postgres, servers):
        self.report, self.options, self.chance = report, options, chance
        self.postgres, self.servers = postgres, servers
        self.tokens = {name: token(name) for name in (f"four-{os.getpid()}-{n}" for n in range(options.drivers))}
        self.acknowledged, self.sent = set(), set()
        self.kills = collections.Counter()

    def round(self, number):
        """Sends events through all servers, and kills some of the servers meanwhile. Then sends each unacknowledged
        event again."""
        killed = self.chance.sample(range(SERVERS), self.chance.choice((1, 1, 2, 3, 4)))
        kills_postgres = number % 3 == 2
        loads = [
            Load(server.port, [
                SharedPhone(driver, self.tokens[driver], f"-{letter}-{number}")
                for driver in self.chance.sample(sorted(self.tokens), self.options.connections)], repeat_every=10)
            for server, letter in zip(self.servers, "abcd")]
        threads = [threading.Thread(target=load.run, args=(self.chance.uniform(0.8, 1.6), None, 20)) for load in loads]
        for thread in threads:
            thread.start()
        time.sleep(self.chance.uniform(0.3, 0.8))
        self.kill([self.servers[index] for index in killed], kills_postgres)
        for thread in threads:
            thread.join()

        exchanges = [exchange for load in loads for exchange in load.exchanges]
        # A server that was not killed answers every request, even while PostgreSQL is away. A killed server leaves
        # requests unanswered.
        allowed = (200, 500, 503) if kills_postgres else (200,)
        wrong = [exchange for exchange in exchanges if exchange.status not in allowed]
        wrong += [sent for index, load in enumerate(loads) if index not in killed for sent in load.unanswered]
        again = [exchange.sent for exchange in exchanges if exchange.status != 200]
        again += [sent for load in loads for sent in load.unanswered]
        self.acknowledged |= {key for load in loads for key in load.acknowledged()}
        self.sent |= self.acknowledged | {(sent.driver, sent.key) for sent in again}
        what = f"{len(killed)} servers{' and PostgreSQL' if kills_postgres else ''} killed"
        self.report.check(not wrong, f"round {number}, {what}: {len(exchanges)} right answers", *wrong)
        self.send_again(number, again)
        self.compare(number)

    def kill(self, servers, kills_postgres):
        """Kills the servers, and PostgreSQL if `kills_postgres` is true. Then starts them again."""
        for server in servers:
            server.kill()
        if kills_postgres:
            self.postgres.kill()
            time.sleep(self.chance.uniform(0, 0.5))
            self.postgres.start()
        for server in servers:
            server.start()
        self.kills["servers"] += len(servers)
        self.kills["PostgreSQL"] += kills_postgres

    def send_again(self, number, events):
        """Sends each event through any server. Each must be acknowledged now."""
        for server in self.servers:
            wait_until(server.is_ready, 30, "readiness")
        self.chance.shuffle(events)
        wrong = []

        def send(server, part):
            with Client(server.port, None) as client:
                for sent in part:
                    client.token = self.tokens[sent.driver]
                    status, body = client.post("/native/events", sent.event)
                    if status != 200:
                        wrong.append(f"{status} {body}")

        threads = [
            threading.Thread(target=send, args=(server, events[index::SERVERS]))
            for index, server in enumerate(self.servers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.report.check(
            not wrong, f"round {number}: {len(events)} events without an acknowledgement are sent again", *wrong)
        self.acknowledged |= {(sent.driver, sent.key) for sent in events}

    def compare(self, number):
        """Checks that each driver's version and highest event number equal the count of the driver's events. The
        version counts transactions. Each event has its own transaction, because a driver never has two requests at one
        server at once."""
        counted = """SELECT driver.driver_id, driver.version, driver.last_seq, max(event.seq), count(event.seq),
                count(DISTINCT event.idempotency_key)
            FROM driver LEFT JOIN event ON event.driver = driver.id GROUP BY driver.id, driver.lane"""
        rows = psql(self.servers[0].database_url, counted)
        wrong = [row for row in rows if len(set(row[1:])) != 1]
        self.report.check(not wrong, f"round {number}: version = last number = count for each of {len(rows)} drivers", *wrong)
        stored = sum(row[4] for row in rows)
        self.report.check(
            stored == len(self.acknowledged), f"round {number}: {stored} events are stored", len(self.acknowledged))


def main():
    parser = arguments(__doc__)
    parser.add_argument("--rounds", default=4, type=int, help="before scaling (default: 4)")
    parser.add_argument("--drivers", default=600, type=int)
    parser.add_argument("--connections", default=300, type=int, help="of each server (default: 300)")
    parser.add_argument("--seed", default=int(time.time()), type=int, help="of the moments of the kills")
    options = parser.parse_args()
    rounds = max(1, round(options.rounds * options.scale))
    report = Report("four servers on PostgreSQL")
    report.note(f"{rounds} rounds, --seed {options.seed}")
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        postgres = stack.enter_context(Postgres(["max_connections = 200"], is_durable=True))
        settings = {**SETTINGS, "DATABASE_URL": postgres.create_database("four")}
        servers = [
            stack.enter_context(Server(options, stack.enter_context(Folder()), settings)) for _ in range(SERVERS)]
        run = Run(report, options, random.Random(options.seed), postgres, servers)
        for number in range(1, rounds + 1):
            run.round(number)
        compare_with_disk(report, servers[0], run.acknowledged, run.sent, "in the end")
        check = servers[0].command("check")
        report.check(check.returncode == 0, "dwell check finds nothing wrong", check.stdout, check.stderr)
        for number, server in enumerate(servers):
            report.check(server.stop() == 0, f"SIGTERM ends server {number} with 0", server.log())
    report.note(
        f"{len(run.acknowledged)} acknowledged events of {options.drivers} drivers, {run.kills['servers']} kills of servers "
        f"and {run.kills['PostgreSQL']} of PostgreSQL in {time.monotonic() - began:.0f} s")
    report.exit()


if __name__ == "__main__":
    main()
