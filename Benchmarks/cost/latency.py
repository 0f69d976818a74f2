"""Measures how much one driver who stays within the rate limits slows down the other drivers.

This driver sends requests as fast as possible until the rate limit of each kind is used up. The latencies of the other
drivers' events are measured alternately without and with this driver.

The client of this driver runs on the same machine. It needs processor time, so the measured latencies are too high."""

import json
import multiprocessing
import statistics
import threading
import time

from client import Client, token
from processes import UNLIMITED, Folder, Server

ROUNDS = 2
SECONDS = 20
# The load of the other drivers, who take turns: the number of connections, and the pause in seconds after a response.
CONNECTIONS = 4
PAUSE = 0.01
DRIVERS = 600
JOURNEY = 20_000


class Others:
    def __init__(self, port):
        self.port, self.count, self.lock = port, 0, threading.Lock()
        self.tokens = [token(f"other-{number}") for number in range(DRIVERS)]

    def next(self):
        with self.lock:
            self.count += 1
            return self.count

    def latencies(self, seconds):
        """Posts events for that many seconds. Returns their latencies, sorted."""
        found, end = [[] for _ in range(CONNECTIONS)], time.monotonic() + seconds
        threads = [threading.Thread(target=self.post, args=(list_, end)) for list_ in found]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return sorted(latency for list_ in found for latency in list_)

    def post(self, found, end):
        with Client(self.port, self.tokens[0]) as client:
            while time.monotonic() < end:
                number = self.next()
                client.token = self.tokens[number % DRIVERS]
                body = json.dumps({
                    "event": "session_restored", "event_id": f"other-{number}", "session_id": f"other-{number % DRIVERS}",
                    "occurred_at": f"2026-11-05T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"}).encode()
                start = time.monotonic()
                status = client.request("POST", "/native/events", body).status
                found.append(time.monotonic() - start)
                assert status == 200, status
                time.sleep(PAUSE)


def spend(port, name, make, ends, sent):
    """Sends requests that `make` returns, until `ends` is set or a request gets 429. Counts them in `sent`."""
    with Client(port, token(name), timeout=120) as client:
        while not ends.is_set():
            method, path, content, headers = make(name, sent.value)
            if client.request(method, path, content, headers).status == 429:
                break
            sent.value += 1


def attack(port, name, attacks, ends, sent):
    threads = [
        threading.Thread(target=spend, args=(port, name, make, ends, count)) for (_, make), count in zip(attacks, sent)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def measure(options, attacks, prepare):
    """Returns the lines of the table. `attacks` has pairs of a name and a function that makes requests. Another process
    sends the requests of all attacks at the same time.

    `prepare(server, name)` stores the data of the driver `name`, on a server without rate limits."""
    processes = multiprocessing.get_context("fork")
    names = [f"attacker-{number}" for number in range(ROUNDS)]
    alone, beside, counts = [], [], []
    with Folder() as folder:
        with Server(options, folder, UNLIMITED | {"LOG_LEVEL": "error"}) as server:
            for name in names:
                prepare(server, name)
        with Server(options, folder, {"LOG_LEVEL": "error"}) as server:
            others = Others(server.port)
            others.latencies(3)
            for name in names:
                alone.append(others.latencies(SECONDS))
                ends, sent = processes.Event(), [processes.Value("i") for _ in attacks]
                process = processes.Process(target=attack, args=(server.port, name, attacks, ends, sent))
                process.start()
                beside.append(others.latencies(SECONDS))
                ends.set()
                process.join()
                counts.append([count.value for count in sent])
    lines = []
    for what, at in (("median", 0.5), ("99th percentile", 0.99)):
        pairs = [(each[int(at * len(each))], other[int(at * len(other))]) for each, other in zip(alone, beside)]
        without, with_ = (statistics.median(values) * 1000 for values in zip(*pairs))
        ratio = statistics.median(other / each for each, other in pairs)
        lines.append(f"| {what} | {without:.2f} | {with_:.2f} | {ratio:.2f} |")
    lines.append("")
    lines.append("Requests sent in each round: " + "; ".join(
        f"{what}: {statistics.median(sent):.0f}" for (what, _), sent in zip(attacks, zip(*counts))) + ".")
    return lines
