#!/usr/bin/env python3
"""Two servers on a PostgreSQL with a synchronous standby. In each round, all processes of the primary are killed under
load, and the standby is promoted. The old primary then becomes the standby of the new one.

No acknowledged event is missing, and none is stored twice. The servers write again within ten seconds of the promotion,
without a restart. Until then, requests that need the database get 503 with Retry-After.

At the end, one server is stopped while no primary runs. The server must exit within SHUTDOWN_TIMEOUT_SECONDS. The full
test is --rounds 20.

PostgreSQL waits for the disk at each COMMIT. To simulate the loss of the primary's machine, all its processes are
killed. The old primary's files are read only once the old primary follows the new one."""

import collections
import contextlib
import json
import os
import random
import threading
import time

from client import Client, token
from phones import percentile, rfc3339
from postgresql import Pair
from processes import UNLIMITED, Folder, Server, arguments, compare_with_disk, psql
from report import Report

SHUTDOWN_SECONDS = 5
# The grace period is long, because its expiry would store an event that no client has sent.
SETTINGS = {
    **UNLIMITED, "NATIVE_GRACE_PERIOD_SECONDS": "3600", "RATE_LIMIT_AUTH": "0", "OTP_DELIVERY": "log",
    "SHUTDOWN_TIMEOUT_SECONDS": str(SHUTDOWN_SECONDS)}
# How long some rounds are without a primary. This exceeds the ten seconds for which a request waits for the database.
LONG_OUTAGE_SECONDS = 14
WRITING_AGAIN_SECONDS = 10

Attempt = collections.namedtuple("Attempt", "server begin end status")


class Poster(threading.Thread):
    """A client that posts one event after another, and repeats each event until it is acknowledged. After a failure,
    the client uses the other server, as a proxy would. Each driver has two such clients."""

    def __init__(self, servers, driver, number, ends):
        super().__init__(daemon=True)
        self.servers, self.ends = servers, ends
        self.driver, self.token = driver, token(driver)
        self.number, self.turn = number, number
        self.attempts, self.acknowledged, self.sent, self.wrong = [], set(), set(), []

    def run(self):
        client, count = None, 0
        while not self.ends.is_set():
            count += 1
            name = ("enteredChargerIntentZone", "exitedChargerIntentZone")[count % 2]
            event = {
                "event_id": f"{self.driver}-{self.number}-{count}", "event": name, "charger_id": "charger-1",
                "occurred_at": rfc3339(int(time.time() * 1000))}
            self.sent.add((self.driver, event["event_id"]))
            # The last event, too, is sent until it is acknowledged.
            while True:
                client, status = self.post(client, event)
                if status == 200:
                    break
                time.sleep(0.1)
            self.acknowledged.add((self.driver, event["event_id"]))
        if client:
            client.socket.close()

    def post(self, client, event):
        begin, server, status = time.monotonic(), self.turn % 2, None
        try:
            client = client or Client(self.servers[server].port, self.token, timeout=40)
            status, body = client.post("/native/events", event)
            if status not in (200, 500, 503) or status == 503 and not body.get("retry_after"):
                self.wrong.append(f"{status} {body}")
        except (OSError, ValueError) as error:
            # The test stops neither server, so the server is at fault if a connection breaks or a response cannot be
            # parsed.
            self.wrong.append(repr(error))
            client = None
        self.attempts.append(Attempt(server, begin, time.monotonic(), status))
        if status != 200 and client:
            client.socket.close()
            client = None
            self.turn += 1
        return client, status


class Questions:
    """Requests that are sent while the database is away. All of them except GET /native/config need the database."""

    def __init__(self, servers, driver):
        self.servers = servers
        refresh = {"refresh_token": "r" * 43}
        self.requests = [
            ("GET", "/readyz", None, None), ("GET", "/native/session", None, driver),
            ("GET", "/native/sessions", None, driver), ("GET", "/native/config", None, driver),
            ("GET", "/native/session/stream", None, driver), ("POST", "/auth/refresh", refresh, None),
            ("POST", "/auth/otp/start", {"phone": "+4915112345678"}, None), ("GET", "/auth/me", None, driver),
            ("POST", "/native/sessions", {"session_id": f"{driver}-registered"}, driver)]

    def ask(self):
        """Sends all requests to every server at the same time. Returns one (request, status, Retry-After, seconds) for
        each response."""
        answers = []

        def ask(server, method, path, body, driver):
            begin = time.monotonic()
            with Client(server.port, driver and token(driver), timeout=40) as client:
                try:
                    answer = client.request(method, path, body and json.dumps(body).encode())
                except OSError as error:
                    answers.append((f"{method} {path}", repr(error), None, time.monotonic() - begin))
                    return
            answers.append((
                f"{method} {path}", answer.status, answer.headers.get("retry-after"), time.monotonic() - begin))

        threads = [
            threading.Thread(target=ask, args=(server, *request)) for request in self.requests for server in self.servers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(answers)


def check_answers(report, what, answers):
    """Checks that all `Questions` get 503, with two exceptions. GET /native/config may also get 200, because it needs
    no database. A registration may also get 500, because the server may not know whether its COMMIT succeeded."""
    wrong = []
    for request, status, retry_after, seconds in answers:
        if request == "GET /native/config":
            right = status in (200, 503)
        elif request == "POST /native/sessions":
            right = status in (500, 503)
        else:
            right = status == 503
        if not right or status == 503 and not retry_after or seconds > 15:
            wrong.append((request, status, retry_after, round(seconds, 1)))
    report.check(not wrong, f"{what}: {len(answers)} requests are answered with 503 and Retry-After", *wrong)
    for request, status, retry_after, seconds in answers[::2]:
        report.note(f"without a database: {request} {status}, Retry-After {retry_after}, after {seconds:.1f} s")


class Run:
    def __init__(self, report, options, chance, pair, servers):
        self.report, self.options, self.chance = report, options, chance
        self.pair, self.servers = pair, servers
        self.acknowledged, self.sent = set(), set()
        self.seconds, self.statuses = [], collections.Counter()

    def round(self, number):
        report, what = self.report, f"round {number}"
        is_long = number % 5 == 1
        ends = threading.Event()
        drivers = [f"failover-{os.getpid()}-{number}-{index // 2}" for index in range(self.options.clients)]
        posters = [Poster(self.servers, driver, index, ends) for index, driver in enumerate(drivers)]
        for poster in posters:
            poster.start()
        time.sleep(self.chance.uniform(0.5, 1.5))
        self.pair.kill_primary()
        if is_long:
            time.sleep(1)
            check_answers(report, what, Questions(self.servers, drivers[0]).ask())
            time.sleep(max(0, LONG_OUTAGE_SECONDS - 12))
        else:
            time.sleep(self.chance.uniform(0, 3))
        promoted = time.monotonic()
        self.pair.promote()
        again = self.wait_for_writes(posters, promoted)
        time.sleep(0.5)
        ends.set()
        for poster in posters:
            poster.join()
        self.acknowledged |= {key for poster in posters for key in poster.acknowledged}
        self.sent |= {key for poster in posters for key in poster.sent}
        self.statuses += collections.Counter(attempt.status for poster in posters for attempt in poster.attempts)
        wrong = [wrong for poster in posters for wrong in poster.wrong]
        report.check(not wrong, f"{what}: every answer is 200, 500, or 503 with Retry-After", *wrong)
        report.check(
            max(again) < WRITING_AGAIN_SECONDS,
            f"{what}: both servers write again within {WRITING_AGAIN_SECONDS} s of the promotion", *again)
        self.seconds += again
        self.compare(what)
        if number % 2:
            self.pair.rewind()
        else:
            self.pair.copy()

    def wait_for_writes(self, posters, promoted):
        """Returns for each server the number of seconds from the promotion to the server's next 200."""
        deadline = promoted + 40
        while True:
            first = [
                min((attempt.end for poster in posters for attempt in list(poster.attempts)
                     if attempt.server == server and attempt.status == 200 and attempt.end > promoted), default=None)
                for server in range(2)]
            if None not in first or time.monotonic() > deadline:
                return [(end or deadline) - promoted for end in first]
            time.sleep(0.02)

    def compare(self, what):
        compare_with_disk(self.report, self.servers[0], self.acknowledged, self.sent, what)
        wrong = psql(self.servers[0].database_url, """SELECT driver_id, last_seq, max(seq), count(seq)
            FROM driver LEFT JOIN event ON event.driver = driver.id GROUP BY driver.id, driver.lane
            HAVING last_seq <> count(seq) OR last_seq <> coalesce(max(seq), 0)""")
        self.report.check(not wrong, f"{what}: the numbers of each driver's events have no gap", *wrong)


def stop_without_database(report, pair, server):
    """Stops the server while no primary runs and requests wait for the database. The server can no longer make its last
    writes."""
    pair.kill_primary()
    time.sleep(1)
    asking = threading.Thread(target=Questions([server], f"failover-{os.getpid()}-stop").ask)
    asking.start()
    time.sleep(0.5)
    begin = time.monotonic()
    status = server.stop()
    seconds = time.monotonic() - begin
    asking.join()
    report.check(
        status == 0 and seconds < SHUTDOWN_SECONDS + 1,
        "without a database, SIGTERM ends a server with 0 within SHUTDOWN_TIMEOUT_SECONDS",
        f"status {status} after {seconds:.1f} s", server.log())
    report.note(f"without a database, a server ended {seconds:.1f} s after SIGTERM")


def main():
    parser = arguments(__doc__)
    parser.add_argument("--rounds", default=1, type=int, help="before scaling (default: 1)")
    parser.add_argument("--clients", default=24, type=int)
    parser.add_argument("--seed", default=int(time.time()), type=int, help="of the moments of the kills")
    options = parser.parse_args()
    rounds = max(1, round(options.rounds * options.scale))
    report = Report("failover")
    report.note(f"{rounds} rounds, --seed {options.seed}")
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        pair = stack.enter_context(Pair())
        pair.primary.create_database("failover")
        settings = {**SETTINGS, "DATABASE_URL": pair.url("failover")}
        servers = [
            stack.enter_context(Server(options, stack.enter_context(Folder()), settings)) for _ in range(2)]
        processes = [server.process.pid for server in servers]
        run = Run(report, options, random.Random(options.seed), pair, servers)
        for number in range(1, rounds + 1):
            run.round(number)
        check = servers[0].command("check")
        report.check(check.returncode == 0, "dwell check finds nothing wrong", check.stdout, check.stderr)
        report.check([server.process.pid for server in servers] == processes, "no server was started again")
        report.check(servers[0].stop() == 0, "SIGTERM ends a server with 0", servers[0].log())
        stop_without_database(report, pair, servers[1])
    report.note(
        f"{len(run.acknowledged)} acknowledged events over {rounds} failovers in {time.monotonic() - began:.0f} s; "
        f"answers {dict(run.statuses)}; writing again after p50 {percentile(run.seconds, 0.5):.2f} s, "
        f"max {max(run.seconds):.2f} s")
    report.exit()


if __name__ == "__main__":
    main()
