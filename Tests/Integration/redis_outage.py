#!/usr/bin/env python3
"""Makes Redis unavailable under load: killed, restarted empty, hung, slow, read-only, full, flushed. All events must be
stored and answered without noticeably longer waits, and a driver over the limit must stay over it. Ignores --redis-url.

While waits are measured, the database is in memory, because other programs slow down a disk. If requests wait too long
in a phase, all phases are repeated with a new server and Redis.

A phase fails only if its requests wait too long in all three attempts. If Redis is the cause, every attempt is slow. A
busy machine rarely makes all three slow."""

import os
import pathlib
import signal
import threading
import time

from client import Client, token
from phones import Load, Phone, latencies, percentile, rfc3339
from ports import free_port
from processes import Folder, Redis, Server, arguments, compare_with_disk
from report import Report

# The number of events of each class that a driver may post during the whole run. A phone under load stays below it.
# `use_up` reaches it with one batch.
LIMIT = 500
PER_SECOND = 10
REDIS_TIMEOUT_SECONDS = 0.05
# The server must adapt within this time after Redis goes away or comes back. The median wait does not include the
# requests in this time.
SETTLED_SECONDS = 1
ATTEMPTS = 3
MEMORY = pathlib.Path("/dev/shm")


def phases(redis):
    """Returns a list of (name, action on Redis, seconds before scaling)."""
    stop, go_on = signal.SIGSTOP, signal.SIGCONT
    return [
        ("there", lambda: None, 3),
        ("killed", redis.kill, 4),
        ("started again, empty", redis.start, 4),
        ("hung (SIGSTOP)", lambda: redis.signal(stop), 4),
        ("going on (SIGCONT)", lambda: redis.signal(go_on), 3),
        ("pausing its clients for 1 s", lambda: redis.command("CLIENT", "PAUSE", "1000", "ALL"), 4),
        ("read-only", lambda: redis.command("REPLICAOF", "127.0.0.1", str(free_port())), 3),
        ("writable again", lambda: redis.command("REPLICAOF", "NO", "ONE"), 3),
        ("full", lambda: redis.command("CONFIG", "SET", "maxmemory", "1"), 3),
        ("no longer full", lambda: redis.command("CONFIG", "SET", "maxmemory", "0"), 3),
        ("flushed, scripts too", lambda: [redis.command("FLUSHALL"), redis.command("SCRIPT", "FLUSH")], 3),
    ]


def pre_session_event(key, milliseconds_ago=0):
    occurred_at = rfc3339(int(time.time() * 1000) - milliseconds_ago)
    return {"event_id": key, "event": "chargerTargeted", "occurred_at": occurred_at}


def use_up(client, report):
    """Posts as many events as the limit allows a driver, each in a millisecond of its own. The server orders hundreds
    of events of one millisecond more slowly."""
    events = [pre_session_event(f"greedy-{index}", milliseconds_ago=LIMIT - index) for index in range(LIMIT)]
    status, answer = client.post("/native/events/batch", {"events": events})
    stored = [result for result in answer["results"] if result["status_code"] == 200] if status == 200 else []
    report.check(len(stored) == LIMIT, f"one driver may post {LIMIT} events", answer if status != 200 else len(stored))
    status, answer = client.post("/native/events", pre_session_event("greedy-there"))
    report.check(status == 429, "and no more", answer)


def check_phase(report, name, exchanges, started, baseline, tolerance):
    """Checks the `exchanges` of one phase. `baseline` has the median and the maximum wait of the first phase, in
    seconds. Returns whether requests of this phase waited too long."""
    report.note(f"Redis {name}: {len(exchanges)} requests, {latencies(exchanges)}")
    refused = [exchange for exchange in exchanges if exchange.status != 200]
    report.check(exchanges and not refused, f"Redis {name}: every answer is 200", *refused)
    late = []
    slowest = max((exchange.seconds for exchange in exchanges), default=0)
    allowed = baseline[1] + 0.1 + tolerance
    if slowest > allowed:
        late.append(f"Redis {name}: somebody waited {slowest * 1000:.1f} ms, over {allowed * 1000:.0f} ms")
    # After SETTLED_SECONDS, Redis is available again or the circuit breaker is open. Only a few requests may still wait
    # long, such as the breaker's probes. If all requests still waited for Redis, most would take the whole timeout and
    # the median would show this.
    later = [exchange.seconds for exchange in exchanges if exchange.at > started + SETTLED_SECONDS]
    allowed = baseline[0] + REDIS_TIMEOUT_SECONDS / 2
    if not later or percentile(later, 0.5) > allowed:
        late.append(f"Redis {name}: after {SETTLED_SECONDS} s the median of {len(later)} was over {allowed * 1000:.0f} ms")
    for line in late:
        report.note(line)
    return bool(late)


def main():
    parser = arguments(__doc__)
    parser.add_argument("--phones", default=16, type=int)
    parser.add_argument(
        "--tolerance-ms", default=100, type=float, help="what a busy machine may add to any wait (default: 100)")
    options = parser.parse_args()

    report = Report("redis outage")
    # For each phase, whether its requests waited too long in every attempt so far.
    late = play(options, report)
    for _ in range(1, ATTEMPTS):
        if any(late.values()):
            report.note(f"once more, for {', '.join(name for name in late if late[name])}")
            again = play(options, report)
            late = {name: late[name] and again[name] for name in late}
    for name in late:
        report.check(not late[name], f"Redis {name}: nobody waits for it")
    report.exit()


def play(options, report):
    """Runs all phases once. Returns, for each phase, whether requests waited too long."""
    with Folder() as folder, Folder(MEMORY if MEMORY.is_dir() else None) as memory, Redis(folder) as redis:
        options.redis_url = redis.url
        limits = {
            "RATE_LIMIT_SESSION_EVENTS": str(LIMIT), "RATE_LIMIT_PRESESSION_EVENTS": str(LIMIT),
            "RATE_LIMIT_WINDOW_SECONDS": "3600", "REDIS_TIMEOUT_MS": str(int(REDIS_TIMEOUT_SECONDS * 1000)),
        }
        with Server(options, folder, limits, memory) as server:
            return run(options, report, redis, server)


def run(options, report, redis, server):
    greedy_driver = f"greedy-{os.getpid()}"
    steps = [(name, act, max(seconds * options.scale, 2.5)) for name, act, seconds in phases(redis)]
    # The limit applies to the whole run.
    total_seconds = sum(seconds for _, _, seconds in steps)
    per_second = min(PER_SECOND, LIMIT / total_seconds)
    phones = [Phone(f"outage-{os.getpid()}-{index}") for index in range(options.phones)]
    load = Load(server.port, phones, per_second=per_second, repeat_every=7)
    starts = []
    with Client(server.port, token(greedy_driver)) as greedy:
        use_up(greedy, report)
        sender = threading.Thread(target=load.run, args=(total_seconds,))
        sender.start()
        try:
            for name, act, seconds in steps:
                if name == "killed":
                    report.check(redis.command("DBSIZE") != ":0", "Redis there: the server keeps something in it")
                started = time.monotonic()
                starts.append(started)
                act()
                if name == "killed":
                    status, answer = greedy.post("/native/events", pre_session_event("greedy-killed"))
                    report.check(status == 429, "Redis killed: who was over the limit stays over it", answer)
                time.sleep(max(0, started + seconds - time.monotonic()))
        finally:
            sender.join()

    report.check(redis.command("DBSIZE") != ":0", "in the end the server keeps something in Redis again")

    ends = starts[1:] + [float("inf")]
    slices = [
        [exchange for exchange in load.exchanges if start <= exchange.at < end] for start, end in zip(starts, ends)]
    there = [exchange.seconds for exchange in slices[0]]
    baseline = percentile(there, 0.5), max(there, default=0)
    late = {
        name: check_phase(report, name, exchanges, started, baseline, options.tolerance_ms / 1000)
        for (name, _, _), exchanges, started in zip(steps, slices, starts)}

    report.check(load.broken == 0 and not load.unanswered, "every request was answered", load.broken, *load.unanswered)
    wrong = load.wrong_words()
    report.check(not wrong, "new events answer ok, repeats already_processed", *wrong)
    acknowledged = load.acknowledged() | {(greedy_driver, f"greedy-{index}") for index in range(LIMIT)}
    compare_with_disk(report, server, acknowledged, acknowledged, "after it all")
    report.check(server.stop() == 0, "SIGTERM ends the server with 0", server.log())
    return late


if __name__ == "__main__":
    main()
