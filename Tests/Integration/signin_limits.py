#!/usr/bin/env python3
"""Tests the limit of the sign-in routes (contract, sections 4 and 8). RATE_LIMIT_AUTH limits the requests to all these
routes per address and window. It never fails open, and the limits on events are independent of it."""

import re
import time

from client import token
from phones import rfc3339
from processes import Folder, Redis, wait_until
from signing_in import Suite, at_once, new_phone

LIMIT = 6
METRICS_TOKEN = "metrics-of-these-checks"
suite = Suite(__doc__)
LIMITED = {"limits": True, "RATE_LIMIT_AUTH": str(LIMIT), "OTP_SENDS_PER_ADDRESS": "1000", "OTP_SENDS_PER_NETWORK": "1000"}


def requests(lab):
    """Returns functions that send a request, one for each kind of route. No request signs a driver in."""
    return [
        lambda **more: lab.refresh("unknown", **more),
        lambda **more: lab.verify_code(new_phone(), "000000", **more),
        lambda **more: lab.present("x", "n", **more),
        lambda **more: lab.call("POST", "/api/auth/refresh", **more),
        lambda **more: lab.call("POST", "/apple/notifications", {"payload": "x"}, **more),
        lambda **more: lab.call("GET", "/auth/me", **more),
    ]


def spend(lab, count=LIMIT, **more):
    kinds = requests(lab)
    answers = [kinds[index % len(kinds)](**more) for index in range(count)]
    assert all(answer.status in (400, 401) for answer in answers), [str(answer) for answer in answers]
    return answers


@suite.alone("so many requests per address and window over all routes, then 429 with Retry-After", **LIMITED)
def _(lab):
    answers = spend(lab)
    for request in requests(lab):
        request().expect_problem(429, "rate_limited")
    for answer in answers:
        assert answer.headers.get("ratelimit-policy") and answer.headers.get("ratelimit"), answer
    # Events from the same address are not counted against this limit.
    body = {"event_id": "k", "event": "chargerTargeted", "occurred_at": rfc3339(int(time.time() * 1000))}
    lab.call("POST", "/native/events", body, token("driver")).expect(200)
    lab.call("GET", "/healthz").expect(200)


@suite.alone("the window slides: after it there is room again", **{**LIMITED, "RATE_LIMIT_WINDOW_SECONDS": "8"})
def _(lab):
    spend(lab)
    answer = lab.refresh("unknown").expect_problem(429, "rate_limited")
    time.sleep(int(answer.headers["retry-after"]) + 0.2)
    lab.refresh("unknown").expect_problem(401, "unauthorized")


@suite.alone("the same X-Request-Id again is not free", **LIMITED)
def _(lab):
    spend(lab, headers={"X-Request-Id": "the-same"})
    lab.refresh("unknown", headers={"X-Request-Id": "the-same"}).expect_problem(429, "rate_limited")


@suite.alone("an address that a client makes up is not believed, and a trusted proxy's is", **LIMITED)
def _(lab):
    for index in range(LIMIT):
        lab.refresh("unknown", headers={"X-Forwarded-For": f"192.0.2.{index}"}).expect(401)
    lab.refresh("unknown", headers={"X-Forwarded-For": "198.51.100.1"}).expect_problem(429, "rate_limited")
    behind = lab.start_server("behind", TRUSTED_PROXIES="127.0.0.0/8")
    for index in range(LIMIT + 2):
        answer = lab.refresh("unknown", headers={"X-Forwarded-For": f"203.0.113.{index}"}, server=behind)
        answer.expect_problem(401, "unauthorized")
    # An IPv6 /64 counts as one address, because one household usually has a whole /64.
    statuses = [lab.refresh("unknown", headers={"X-Forwarded-For": f"2001:db8:1:2::{index}"}, server=behind).status
                for index in range(1, LIMIT + 2)]
    assert statuses == [401] * LIMIT + [429], statuses
    lab.refresh("unknown", headers={"X-Forwarded-For": "2001:db8:1:3::1"}, server=behind).expect(401)


@suite.alone("at once: never more than the limit", **LIMITED)
def _(lab):
    statuses = sorted(answer.status for answer in at_once(*[lambda: lab.refresh("unknown") for _ in range(40)]))
    assert statuses == [401] * LIMIT + [429] * (40 - LIMIT), statuses


@suite.alone("0 turns it off", limits=True, RATE_LIMIT_AUTH="0")
def _(lab):
    for _ in range(60):
        answer = lab.refresh("unknown").expect(401)
        assert "ratelimit" not in answer.headers, answer


@suite.alone("the default is 30 in 60 seconds", limits=True)
def _(lab):
    statuses = [lab.refresh("unknown").status for _ in range(31)]
    assert statuses == [401] * 30 + [429], statuses


def uses_redis(lab, server):
    answer = lab.call("GET", "/metrics", token=METRICS_TOKEN, server=server).expect(200)
    return (re.search(rb'^dwell_redis_connections [1-9][0-9]*$', answer.body, re.MULTILINE)
            and b'\ndwell_redis_breaker_state{state="closed"} 1\n' in answer.body)


def wait_for_redis(lab, servers):
    wait_until(lambda: all(uses_redis(lab, server) for server in servers), 30, "the connections to Redis")


@suite.alone("never failing open: with Redis gone the process decides, and with it back they agree", limits=True,
             RATE_LIMIT_AUTH="0")
def _(lab):
    with Folder() as folder, Redis(folder) as redis:
        servers = [
            lab.start_server(name, RATE_LIMIT_AUTH=str(LIMIT), REDIS_URL=redis.url, METRICS_TOKEN=METRICS_TOKEN,
                             TRUSTED_PROXIES="127.0.0.0/8") for name in ("one", "two")]
        server = servers[0]

        def statuses_from(address, count, asked):
            return [lab.refresh("unknown", server=asked[index % len(asked)], headers={"X-Forwarded-For": address}).status
                    for index in range(count)]

        statuses = [lab.refresh("unknown", server=server).status for _ in range(LIMIT + 2)]
        assert statuses == [401] * LIMIT + [429] * 2, statuses
        redis.kill()
        statuses = [lab.refresh("unknown", server=server).status for _ in range(LIMIT + 4)]
        assert statuses.count(401) <= LIMIT and statuses[-1] == 429, statuses
        for asked in servers:
            statuses = statuses_from("192.0.2.1", LIMIT + 2, [asked])
            assert statuses == [401] * LIMIT + [429] * 2, ("each process decides by itself", statuses)
        redis.start()
        wait_for_redis(lab, servers)
        # The restarted Redis has no counts, but the first server still has its own count.
        assert lab.refresh("unknown", server=server).status == 429
        statuses = statuses_from("192.0.2.2", LIMIT + 4, servers)
        assert statuses == [401] * LIMIT + [429] * 4, ("both agree", statuses)


@suite.alone("two servers with one Redis share the limit", limits=True, RATE_LIMIT_AUTH="0")
def _(lab):
    with Folder() as folder, Redis(folder) as redis:
        # If Redis needs longer than the timeout, each server decides by its own counts. A busy machine would often
        # exceed the default timeout, so this test sets a longer one.
        settings = {"RATE_LIMIT_AUTH": str(LIMIT), "REDIS_URL": redis.url, "REDIS_TIMEOUT_MS": "2000",
                    "METRICS_TOKEN": METRICS_TOKEN}
        servers = [lab.start_server(name, **settings) for name in ("one", "two")]
        # A ready server may still lack a connection to Redis. Without this connection, it decides by its own counts.
        wait_for_redis(lab, servers)
        statuses = [lab.refresh("unknown", server=servers[index % 2]).status for index in range(LIMIT + 4)]
        assert statuses == [401] * LIMIT + [429] * 4, statuses


suite.main()
