#!/usr/bin/env python3
"""Tests Redis Cluster, Redis Sentinel and TLS with real Redis servers. Drivers stay limited while slots move to another
node, while a replica replaces its primary, and while all nodes are down.

Two Dwell servers share each group of Redis servers. Their databases are separate, so only Redis can combine their
counts. The test starts its own Redis servers and ignores --redis-url."""

import argparse
import contextlib
import os
import re
import subprocess
import threading
import time

from client import Client, token
from phones import Load, Phone
from ports import free_port
from processes import Folder, Redis, Server, arguments, compare_with_disk, wait_until
from redis_groups import PASSWORD, SENTINEL_PASSWORD, SLOTS, Authority, Cluster, Sentinels, TLSRedis, slot
from report import Report

# The number of events that the limit allows a driver in these tests.
LIMIT = 6
# The time within which a server must notice a promotion.
NOTICE_SECONDS = 30


class Drivers:
    """Drivers that no earlier check used, chosen by their slot."""

    def __init__(self):
        self.count = 0

    def one(self, accepts=lambda _: True):
        """Returns a driver whose slot `accepts` accepts."""
        while True:
            self.count += 1
            driver = f"driver-{os.getpid()}-{self.count}"
            if accepts(slot(driver)):
                return driver

    def third(self, index):
        """Returns a driver whose slot belongs to primary `index` (0, 1 or 2) before any slot has moved."""
        return self.one(lambda number: number * 3 // SLOTS == index)


def event(key):
    return {"event_id": key, "event": "chargerTargeted",
            "occurred_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}


class Servers:
    """Two servers with separate databases and one shared group of Redis servers."""

    def __init__(self, options, folder, urls, timeout_milliseconds=2000):
        self.all = []
        for name, url in zip(("one", "two"), urls):
            (folder / name).mkdir()
            self.all.append(Server(
                argparse.Namespace(**{**vars(options), "redis_url": url}), folder / name, {
                    "RATE_LIMIT_SESSION_EVENTS": str(LIMIT), "RATE_LIMIT_PRESESSION_EVENTS": str(LIMIT),
                    "RATE_LIMIT_WINDOW_SECONDS": "3600", "REDIS_TIMEOUT_MS": str(timeout_milliseconds),
                    "LOG_LEVEL": "info", "METRICS_PORT": str(free_port())}))
        self.acknowledged = {id(server): set() for server in self.all}

    def __enter__(self):
        for server in self.all:
            server.start()
        return self

    def __exit__(self, *_):
        for server in self.all:
            server.kill()

    def post(self, server, driver, key):
        """Returns the status of an event."""
        with Client(server.port, token(driver)) as client:
            status, _ = client.post("/native/events", event(key))
        if status == 200:
            self.acknowledged[id(server)].add((driver, key))
        return status

    def alternate(self, driver, count, prefix=""):
        """Posts `count` events of the driver, to the servers in turn. Returns their statuses."""
        return [self.post(self.all[index % 2], driver, f"{driver}-{prefix}{index}") for index in range(count)]

    def fill(self, driver):
        """Exhausts the driver's limit at the first server. The driver is then over the limit in Redis and in this
        server's memory."""
        return [self.post(self.all[0], driver, f"{driver}-full-{index}") for index in range(LIMIT + 2)]

    def figure(self, server, name, label=""):
        """Returns the value of a metric."""
        with Client(int(server.environment["METRICS_PORT"]), None) as client:
            text = client.request("GET", "/metrics").body.decode()
        found = re.search(rf"^{name}{re.escape(label)} ([0-9.e+]+)$", text, re.MULTILINE)
        return float(found[1]) if found else None

    def by(self, which):
        """Returns how many decisions `which` ("redis" or "process") made, as the sum over both servers."""
        return sum(
            self.figure(server, "dwell_redis_decisions_total", f'{{by="{which}"}}') or 0 for server in self.all)

    def connected(self, server):
        return (self.figure(server, "dwell_redis_nodes", '{state="connected"}'),
                self.figure(server, "dwell_redis_nodes", '{state="lost"}'))

    def ready(self, server):
        with Client(server.port, None) as client:
            status, answer = client.get("/readyz")
        return status, answer["checks"]["redis"]

    def wait_for(self, nodes, seconds=NOTICE_SECONDS):
        """Waits until each server has connections to exactly `nodes` nodes."""
        wait_until(lambda: all(self.is_connected(server, nodes) for server in self.all), seconds,
                   f"the connections to {nodes} nodes")

    def is_connected(self, server, nodes):
        try:
            return (self.connected(server) == (nodes, 0)
                    and self.figure(server, "dwell_redis_breaker_state", '{state="closed"}') == 1)
        except ConnectionRefusedError:
            # The server opens the port for metrics shortly after the port for requests.
            return False


def check_shared(report, servers, drivers, what, is_complete=True):
    """Checks that both servers together allow each driver only LIMIT events. If `is_complete` is true, all nodes of
    Redis work, and Redis must make every decision."""
    before = servers.by("process")
    for driver in drivers:
        statuses = servers.alternate(driver, LIMIT + 2)
        report.check(statuses == [200] * LIMIT + [429] * 2, f"{what}: two servers share one limit", statuses)
    if is_complete:
        in_process = servers.by("process") - before
        report.check(in_process == 0, f"{what}: Redis made every decision", in_process)


def check_refusals(report, servers, driver, what):
    """Checks that the servers share the limit on rejected events. A server decides by a count in its memory. When the
    server charges an event, Redis replies with the shared count, which replaces the server's own."""
    invalid = {"event": "chargerTargeted"}
    one, two = servers.all

    def post(server):
        with Client(server.port, token(driver)) as client:
            return client.post("/native/events", invalid)[0]

    with Client(one.port, token(driver)) as client:
        for count in (500, 100):
            status, answer = client.post("/native/events/batch", {"events": [invalid] * count})
            report.check(status == 200, f"{what}: {count} refused events", answer)
    statuses = [post(one), post(two)]
    report.check(
        statuses == [429, 400], f"{what}: after 600 refused events, the other server reads only the first body", statuses)
    # After the other server's first charge, Redis replies with the total count. On a busy machine, this reply arrives a
    # few responses late, so the test posts until it gets 429.
    read = 1
    while read < 50 and post(two) != 429:
        read += 1
        time.sleep(0.01)
    report.check(read < 50, f"{what}: then the other server refuses too", read)
    report.note(f"{what}: the other server read {read} bodies")


@contextlib.contextmanager
def under_load(report, servers, what):
    """Runs the body while phones post to the first server. Checks that every request got 200."""
    drivers = Drivers()
    server = servers.all[0]
    load = Load(server.port, [], per_second=None)
    stop = threading.Event()

    def run():
        # A phone stops before its driver's limit, and new phones follow.
        while not stop.is_set():
            phones = [Phone(f"load-{what.replace(' ', '-')}-{drivers.one()}") for _ in range(8)]
            part = Load(server.port, phones, per_second=10, repeat_every=3)
            part.run(0.45)
            load.exchanges += part.exchanges
            load.unanswered += part.unanswered
            load.broken += part.broken

    sender = threading.Thread(target=run)
    sender.start()
    try:
        yield load
    finally:
        stop.set()
        sender.join()
    servers.acknowledged[id(server)] |= load.acknowledged()
    refused = [exchange for exchange in load.exchanges if exchange.status != 200]
    report.check(
        load.exchanges and not refused and not load.broken and not load.unanswered,
        f"{what}: each of {len(load.exchanges)} requests of the phones is answered 200",
        *refused, *load.unanswered, f"{load.broken} connections broke")
    wrong = load.wrong_words()
    report.check(not wrong, f"{what}: new events answer ok, repeats already_processed", *wrong)


def check_end(report, servers, what):
    """Checks the disk, the logs and the stop of both servers."""
    for name, server in zip(("one", "two"), servers.all):
        acknowledged = servers.acknowledged[id(server)]
        # The events of a deleted driver stay, under another name.
        erased = {row for row in server.stored_keys() if row[0].startswith("erased-")}
        compare_with_disk(report, server, acknowledged, acknowledged | erased, f"{what}, server {name}")
        log = server.log_path.read_text()
        leaked = [line for line in log.splitlines() if PASSWORD in line or SENTINEL_PASSWORD in line]
        report.check(not leaked, f"{what}, server {name}: no password in the log", *leaked)
        report.check(server.stop() == 0, f"{what}, server {name}: SIGTERM ends it with 0", server.log())


# Redis Cluster


def move_slot(report, servers, cluster, drivers):
    """Moves a slot step by step. Redis decides at every step."""
    old_driver = drivers.third(0)
    moving = slot(old_driver)
    same_slot = lambda number: number == moving
    # These three drivers have the slot that moves. They have no keys in Redis before the move.
    new_driver, last_driver, after = (drivers.one(same_slot) for _ in range(3))
    source, target = cluster.nodes[0], cluster.nodes[1]
    source_id, target_id = source.ask("CLUSTER", "MYID"), target.ask("CLUSTER", "MYID")
    before = servers.by("process")

    with under_load(report, servers, "a slot moves"):
        statuses = servers.alternate(old_driver, 2, "before-")
        target.ask("CLUSTER", "SETSLOT", str(moving), "IMPORTING", source_id)
        source.ask("CLUSTER", "SETSLOT", str(moving), "MIGRATING", target_id)
        # The source node has the window of `old_driver`, and answers TRYAGAIN for it. For `new_driver`, the source node
        # answers ASK, so the server creates this driver's window on the target node.
        statuses += servers.alternate(old_driver, 2, "migrating-")
        new_statuses = servers.alternate(new_driver, 3, "migrating-")
        report.check(
            target.ask("CLUSTER", "COUNTKEYSINSLOT", str(moving)) == "1",
            "a slot moves: a new key begins at the target", target.ask("CLUSTER", "COUNTKEYSINSLOT", str(moving)))
        keys = source.ask("CLUSTER", "GETKEYSINSLOT", str(moving), "100").split()
        moved = source.ask(
            "MIGRATE", "127.0.0.1", str(target.port), "", "0", "5000", "AUTH", PASSWORD, "KEYS", *keys)
        report.check(moved == "OK", "a slot moves: its keys move", moved)
        statuses += servers.alternate(old_driver, 1, "migrated-")
        last_statuses = servers.alternate(last_driver, 2, "migrated-")
        for node in (target, source, *cluster.nodes[2:3]):
            node.ask("CLUSTER", "SETSLOT", str(moving), "NODE", target_id)
        # Redis answers a server's first call with MOVED.
        statuses += servers.alternate(old_driver, 3, "moved-")
        new_statuses += servers.alternate(new_driver, 5, "moved-")
        last_statuses += servers.alternate(last_driver, 6, "moved-")
        check = [200] * LIMIT + [429] * 2
        report.check(statuses == check, "a slot moves: a driver with a window keeps one limit", statuses)
        report.check(new_statuses == check, "a slot moves: so does a driver who comes meanwhile", new_statuses)
        report.check(last_statuses == check, "a slot moves: and one who comes after the keys", last_statuses)
    in_process = servers.by("process") - before
    report.check(in_process == 0, "a slot moves: Redis made every decision", in_process)
    check_shared(report, servers, [after], "a slot has moved")


def kill_primary(report, servers, cluster, drivers):
    """Kills one primary. Its shard works again when its replica is promoted. The other shards must keep working."""
    full = drivers.third(2)
    servers.fill(full)
    victim = cluster.primary(slot(full))
    with under_load(report, servers, "a primary is killed"):
        victim.kill()
        # A replica replaces the dead primary only after NODE_TIMEOUT_MILLISECONDS. Until then, /readyz reports the
        # loss.
        report.run("a primary is killed: readyz says that a part of Redis is lost", lambda: wait_until(
            lambda: all(servers.ready(server) == (200, "partly_lost") for server in servers.all), 10,
            "readyz with partly_lost"))
        statuses = [servers.post(servers.all[0], full, f"{full}-down-{index}") for index in range(4)]
        report.check(statuses == [429] * 4, "a primary is killed: who was over the limit stays over it", statuses)
        check_shared_by_others(report, servers, drivers)
        wait_until(lambda: cluster.primary(slot(full)) is not None, NOTICE_SECONDS, "the promotion of the replica")
        servers.wait_for(3)
        report.note(f"primaries known: {servers.connected(servers.all[0])}")
        check_shared(report, servers, [drivers.third(index) for index in range(3)], "the replica is promoted")
        victim.start()
        cluster.wait_until_complete()
        check_shared(report, servers, [drivers.third(index) for index in range(3)], "the old primary is back")
    report.check(
        all(servers.ready(server) == (200, "ok") for server in servers.all), "readyz: Redis is ok again",
        *(servers.ready(server) for server in servers.all))


def check_shared_by_others(report, servers, drivers):
    """Checks the servers while one of three primaries is dead, before its replica is promoted."""
    # For the drivers of the dead primary, each server decides by the counts in its own memory.
    alone = drivers.third(2)
    statuses = servers.alternate(alone, LIMIT)
    report.check(statuses == [200] * LIMIT, "a primary is killed: its drivers go on", statuses)
    others = [drivers.third(0), drivers.third(1)]
    check_shared(report, servers, others, "a primary is killed, other shards", is_complete=False)
    states = [servers.ready(server) for server in servers.all]
    report.check(
        all(state in ((200, "partly_lost"), (200, "ok")) for state in states),
        "a primary is killed: readyz says so until the promotion", *states)


def stop_everything(report, servers, cluster, drivers):
    full = [drivers.third(index) for index in range(3)]
    for driver in full:
        servers.fill(driver)
    with under_load(report, servers, "all nodes are down"):
        for node in cluster.nodes:
            node.kill()
        for driver in full:
            status = servers.post(servers.all[0], driver, f"{driver}-down")
            report.check(status == 429, "all nodes are down: who was over the limit stays over it", status)
        driver = drivers.one()
        statuses = [servers.post(servers.all[0], driver, f"{driver}-{index}") for index in range(LIMIT + 1)]
        report.check(
            statuses == [200] * LIMIT + [429], "all nodes are down: each server has the limit to itself", statuses)
        wait_until(
            lambda: all(servers.ready(server) == (200, "lost") for server in servers.all), 10, "readyz with lost")
        for node in cluster.nodes:
            node.start()
        cluster.wait_until_complete()
        servers.wait_for(3)
        check_shared(report, servers, [drivers.third(index) for index in range(3)], "all nodes are back, empty")
        for driver in full:
            status = servers.post(servers.all[0], driver, f"{driver}-back")
            report.check(status == 429, "all nodes are back: who was over the limit stays over it", status)


def command(options, server, *words):
    done = subprocess.run(
        [options.dwell.resolve(), *words], env=server.environment, cwd=server.folder, timeout=60,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return done.returncode, done.stdout


def erase_everywhere(report, servers, drivers, options):
    """For each node, `verify-erased` must find a driver's keys, and `driver erase` must delete them. Both must work
    while the server runs, and also after it has stopped."""
    server = servers.all[0]
    for index, is_running in ((0, True), (1, True), (2, True), (0, False), (1, False), (2, False)):
        what = f"shard {index}, with{'' if is_running else 'out'} a server"
        driver = drivers.third(index)
        servers.alternate(driver, 2)
        if not is_running:
            server.stop()
        found = command(options, server, "verify-erased", "--driver", driver)
        report.check(found[0] == 1 and "is in Redis" in found[1], f"{what}: verify-erased finds the keys", *found)
        erased = command(options, server, "driver", "erase", "--id", driver, "--yes")
        report.check(erased[0] == 0 and "warning" not in erased[1], f"{what}: the driver is deleted", *erased)
        found = command(options, server, "verify-erased", "--driver", driver)
        report.check(found[0] == 0, f"{what}: no key is left", *found)
        if not is_running:
            server.start()
        servers.acknowledged[id(server)] = {
            pair for pair in servers.acknowledged[id(server)] if pair[0] != driver}
    servers.wait_for(3)


def check_cluster(report, options):
    drivers = Drivers()
    with Folder() as folder, Cluster(folder) as cluster:
        # The first URL names all nodes, and begins with a replica. The second URL names a single node.
        urls = [cluster.url(*cluster.nodes[3:], *cluster.nodes[:3]), cluster.url(cluster.nodes[1])]
        with Servers(options, folder, urls) as servers:
            servers.wait_for(3)
            report.check(
                all(servers.ready(server) == (200, "ok") for server in servers.all), "cluster: readyz says ok",
                *(servers.ready(server) for server in servers.all))
            check_shared(report, servers, [drivers.third(index) for index in range(3)], "cluster")
            for index in range(3):
                check_refusals(report, servers, drivers.third(index), f"cluster, shard {index}")
            erase_everywhere(report, servers, drivers, options)
            move_slot(report, servers, cluster, drivers)
            kill_primary(report, servers, cluster, drivers)
            stop_everything(report, servers, cluster, drivers)
            check_end(report, servers, "cluster")


# Redis Sentinel


def check_sentinel(report, options):
    drivers = Drivers()
    with Folder() as folder, Sentinels(folder) as sentinels:
        with Servers(options, folder, [sentinels.url] * 2) as servers:
            servers.wait_for(1)
            check_shared(report, servers, [drivers.one(), drivers.one()], "sentinel")
            check_refusals(report, servers, drivers.one(), "sentinel")
            full = drivers.one()
            servers.fill(full)
            with under_load(report, servers, "sentinels promote"):
                old = sentinels.primary()
                old.kill()
                # The process decides until the promotion.
                alone = drivers.one()
                statuses = [servers.post(servers.all[0], alone, f"{alone}-{index}") for index in range(LIMIT + 1)]
                report.check(
                    statuses == [200] * LIMIT + [429], "sentinels promote: events are answered meanwhile", statuses)
                wait_until(
                    lambda: sentinels.primary() not in (None, old), NOTICE_SECONDS, "the promotion by the sentinels")
                servers.wait_for(1)
                check_shared(report, servers, [drivers.one(), drivers.one()], "sentinels promoted")
                statuses = [servers.post(server, full, f"{full}-after") for server in servers.all]
                report.check(statuses == [429] * 2, "sentinels promoted: the windows are still full", statuses)

            old.start()
            wait_until(
                lambda: old.fields("INFO", "replication").get("master_link_status") == "up", NOTICE_SECONDS,
                "the return of the old primary as a replica")
            with under_load(report, servers, "a planned failover"):
                new = sentinels.primary()

                def is_ordered():
                    return sentinels.sentinels[0].ask("SENTINEL", "FAILOVER", sentinels.NAME) == "OK"

                wait_until(is_ordered, NOTICE_SECONDS, "the order of a failover")
                wait_until(lambda: sentinels.primary() not in (None, new), NOTICE_SECONDS, "the planned failover")
                wait_until(
                    lambda: new.fields("INFO", "replication").get("role") == "slave", NOTICE_SECONDS,
                    "the demotion of the old primary")
                servers.wait_for(1)
                time.sleep(1)
                servers.wait_for(1)
                check_shared(report, servers, [drivers.one(), drivers.one()], "after a planned failover")
            check_end(report, servers, "sentinel")


# TLS


def check_tls(report, options):
    with Folder() as folder:
        authority = Authority(folder)
        (folder / "other").mkdir()
        stranger = Authority(folder / "other")
        node = ["--cluster-enabled", "yes", "--tls-cluster", "yes", "--cluster-port", str(free_port())]
        for what, host, arguments in (
                ("TLS", "127.0.0.1", []), ("TLS with a host name", "localhost", []),
                ("TLS, a cluster", "127.0.0.1", node)):
            (folder / what).mkdir()
            with TLSRedis(folder / what, authority, host, arguments) as redis:
                if arguments:
                    redis.ask("CLUSTER", "ADDSLOTSRANGE", "0", str(SLOTS - 1))
                    wait_until(lambda: redis.fields("CLUSTER", "INFO")["cluster_state"] == "ok", 20, "the cluster")
                (folder / what / "servers").mkdir()
                with Servers(options, folder / what / "servers", [redis.url_over_tls(host)] * 2) as servers:
                    servers.wait_for(1)
                    drivers = Drivers()
                    check_shared(report, servers, [drivers.one(), drivers.one()], what)
                    driver = drivers.one()
                    servers.fill(driver)
                    redis.kill()
                    status = servers.post(servers.all[0], driver, f"{driver}-down")
                    report.check(status == 429, f"{what}, killed: the process decides", status)
                    redis.start()
                    servers.wait_for(1)
                    check_shared(report, servers, [drivers.one()], f"{what}, started again")
                    check_end(report, servers, what)

        (folder / "wrong").mkdir()
        with TLSRedis(folder / "wrong", authority, "127.0.0.1") as redis:
            # Both connections must fail. The certificate does not contain the first URL's host name. The authority in
            # the second URL did not sign the certificate.
            urls = [redis.url_over_tls("localhost"), redis.url_over_tls(authority=stranger)]
            with Servers(options, folder / "wrong", urls) as servers:
                for server, mistake in zip(servers.all, ("another host", "another authority")):
                    wait_until(lambda: "is not trusted" in server.log(), 10, "the log line about the certificate")
                    report.check(
                        servers.connected(server) == (0, 1), f"TLS: a certificate of {mistake} is refused",
                        server.log())
                driver = Drivers().one()
                statuses = servers.alternate(driver, 2)
                report.check(statuses == [200] * 2, "TLS with a wrong certificate: the process decides", statuses)


# Mistakes in REDIS_URL


def check_mistakes(report, options):
    with Folder() as folder, Redis(folder) as redis:
        address = redis.url.removeprefix("redis://")
        urls = [f"redis://{address},{address}", f"redis+sentinel://{address}/main"]
        with Servers(options, folder, urls) as servers:
            several, sentinel = servers.all
            wait_until(lambda: "several hosts" in several.log(), 10, "the log line about several hosts")
            wait_until(lambda: "Redis unavailable" in sentinel.log(), 10, "the log line about the sentinel")
            driver = Drivers().one()
            statuses = servers.alternate(driver, 2)
            report.check(statuses == [200] * 2, "a wrong REDIS_URL: the process decides", statuses)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--only", default="", help="run the groups of checks with this word in their names")
    options = parser.parse_args()
    report = Report("redis cluster")
    for check in (check_cluster, check_sentinel, check_tls, check_mistakes):
        if options.only in check.__name__:
            check(report, options)
    report.exit()


if __name__ == "__main__":
    main()
