#!/usr/bin/env python3
"""Tests the export of a driver with much data (contract, section 6). It must contain each event once, use constant
memory, and be produced only as fast as the client reads. Some exports are interrupted."""

import http.client
import json
import re
import secrets
import socket
import time

from client import Client, rendered
from phones import rfc3339
from processes import wait_until
from signing_in import Suite

suite = Suite(__doc__)

EVENTS = 6000
# Metadata may have at most 8 KiB in JSON.
TEXT = "x" * (8 * 1024 - 40)
# This many events stay below the limit of 1 MiB for a batch.
BATCH = 120
# The events have 47 MiB. Reading caches and the allocator let the server grow by 13 to 26 MiB, whatever their number.
GROWTH_KIB_MAX = 40 * 1024
PATH = "/auth/me/export"


def store(lab, pair, count=EVENTS):
    """Stores events with nearly the largest possible metadata. Returns their keys."""
    keys = [f"export-{secrets.token_hex(4)}-{number}" for number in range(count)]
    # Sends the events in the order of their times. No event is late, so the server does not fold earlier events again.
    first = int(time.time() * 1000) - count
    occurred_at = {key: rfc3339(first + number) for number, key in enumerate(keys)}
    with Client(lab.server.port, pair["access_token"]) as client:
        for start in range(0, count, BATCH):
            events = [{"event_id": key, "event": "chargerTargeted", "occurred_at": occurred_at[key],
                       "metadata": {"text": TEXT, "key": key[-12:]}} for key in keys[start:start + BATCH]]
            status, answer = client.post("/native/events/batch", {"events": events})
            assert status == 200 and all(one["status_code"] == 200 for one in answer["results"]), (status, answer)
    return keys


def memory_kib(lab, name):
    with open(f"/proc/{lab.server.process.pid}/status", encoding="ascii") as file:
        return int(re.search(rf"{name}:\s+(\d+) kB", file.read()).group(1))


def forget_peak(lab):
    with open(f"/proc/{lab.server.process.pid}/clear_refs", "w", encoding="ascii") as file:
        file.write("5")


class Exporting:
    """An export whose response is read in parts. A context manager."""

    def __init__(self, lab, pair):
        self.connection = http.client.HTTPConnection("127.0.0.1", lab.server.port, timeout=20)
        # With a small receive buffer on the client's side, the server soon notices that the client does not read.
        self.connection.sock = socket.socket()
        self.connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024)
        self.connection.sock.settimeout(20)
        self.connection.sock.connect(("127.0.0.1", lab.server.port))
        self.connection.request("GET", PATH, headers={"Authorization": f"Bearer {pair['access_token']}"})
        self.answer = self.connection.getresponse()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.connection.close()


def expect_whole(document, pair, keys):
    assert document["user"] == {"id": pair["user"]["id"], **{
        name: pair["user"].get(name) for name in ("name", "email", "phone", "role")}}, document["user"]
    exported = [event["event_id"] for event in document["events"]]
    assert exported == keys, f"{len(exported)} events, {len(set(exported))} different, of {len(keys)}"
    assert all(event["metadata"] == {"text": TEXT, "key": event["event_id"][-12:]} for event in document["events"])
    assert list(document) == ["exported_at", "user", "journey", "apple_identities", "sign_in_sessions", "devices",
                              "waiting_notifications", "sessions", "session_codes", "events", "app_account_tokens",
                              "purchase_transactions", "purchase_renewals", "store_notifications",
                              "consumption_consents", "consumption_requests", "audit"], list(document)
    assert "exported" in [entry["action"] for entry in document["audit"]]


@suite.check("much: all of it, each event once, in memory that does not grow with it")
def _(lab):
    pair = lab.apple_driver()
    keys = store(lab, pair)
    # The server's first response allocates memory that the server keeps. The test therefore makes this request before
    # it measures.
    lab.me(pair["access_token"]).expect(200)
    forget_peak(lab)
    before = memory_kib(lab, "VmRSS")
    with Exporting(lab, pair) as export:
        assert export.answer.status == 200 and export.answer.headers["cache-control"] == "no-store", export.answer.status
        assert export.answer.headers["content-type"] == "application/json"
        document = json.loads(export.answer.read())
    grown = memory_kib(lab, "VmHWM") - before
    expect_whole(document, pair, keys)
    assert grown < GROWTH_KIB_MAX, f"the server grew by {grown} KiB"
    print(f"# {len(keys)} events exported, the server grew by {grown} KiB")


@suite.check("much: HTTP/1.0 gets it until the connection ends, HEAD gets no content, and either leaves the place free")
def _(lab):
    pair = lab.apple_driver()
    keys = store(lab, pair, 300)
    with Client(lab.server.port, pair["access_token"]) as client:
        for _ in range(3):
            client.socket.sendall(rendered("HEAD", PATH, client.token))
            received = b""
            while not received.endswith(b"\r\n\r\n"):
                received += client.socket.recv(65536)
            assert received.startswith(b"HTTP/1.1 200 "), received
        assert client.request("GET", "/auth/me").status == 200
    with socket.create_connection(("127.0.0.1", lab.server.port), timeout=20) as old:
        old.sendall(rendered("GET", PATH, pair["access_token"]).replace(b"HTTP/1.1", b"HTTP/1.0"))
        with old.makefile("rb") as file:
            head, _, body = file.read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and b"chunked" not in head.lower(), head
    expect_whole(json.loads(body), pair, keys)


@suite.check("HEAD says what GET would, exports nothing, and is no line of the audit")
def _(lab):
    pair = lab.apple_driver()
    store(lab, pair, 1)
    with Client(lab.server.port, pair["access_token"]) as client:
        for _ in range(3):
            client.socket.sendall(rendered("HEAD", PATH, client.token))
            received = b""
            while not received.endswith(b"\r\n\r\n"):
                received += client.socket.recv(65536)
            head = received.lower()
            assert head.startswith(b"http/1.1 200 ") and b"content-type: application/json" in head, received
            assert b"content-disposition: attachment" in head and b"cache-control: no-store" in head, received
            # For HEAD, Content-Length must be absent or have the value that it has for GET (RFC 9110, section 8.6).
            assert b"content-length" not in head, received
        client.socket.sendall(rendered("HEAD", PATH, "no-token"))
        assert client.socket.recv(65536).startswith(b"HTTP/1.1 401 ")
    document = lab.call("GET", PATH, token=pair["access_token"]).expect(200).json
    assert [entry["action"] for entry in document["audit"]].count("exported") == 1, document["audit"]


@suite.check("it says the verdict on each event, the settings that it was judged by, and where the driver stands")
def _(lab):
    pair = lab.apple_driver()
    token, now = pair["access_token"], int(time.time() * 1000)
    session = f"s-{secrets.token_hex(4)}"
    for number, (name, extra) in enumerate([
        ("chargerTargeted", {"charger_id": "c-1"}), ("enteredChargerIntentZone", {}), ("anchorDwellComplete", {}),
        ("exclusiveActivatedByWeb", {"session_id": session}), ("enteredMerchantZone", {"session_id": session}),
    ]):
        event = {"event_id": f"k{number}", "event": name, "occurred_at": rfc3339(now - 5000 + number), **extra}
        lab.call("POST", "/native/events", event, token=token).expect(200)
    stands = lab.call("GET", "/native/session", token=token).expect(200).json
    document = lab.call("GET", PATH, token=token).expect(200).json
    journey, events = document["journey"], document["events"]
    assert journey["state"] == stands["state"] == "SESSION_ACTIVE", (journey, stands)
    assert journey["ended_by"] is None, journey
    assert journey["session_id"] == session and journey["target_charger_id"] == "c-1", journey
    assert journey["hard_deadline"] == stands["deadlines"]["hard"]["at"] and journey["grace_deadline"] is None, journey
    assert journey["events_deleted_before"] is None, journey
    assert [(one["transition"], one["reason"], one["state"]) for one in events] == [
        ("none", None, "IDLE"), ("applied", None, "NEAR_CHARGER"), ("applied", None, "ANCHORED"),
        ("applied", None, "SESSION_ACTIVE"), ("rejected", "must_depart_first", "SESSION_ACTIVE")], events
    assert all(one["settings_version"] == stands["settings_version"] for one in events), events
    assert all(one["implied"] == [] and one["clock_rule"] == "no_send_time" and one["skew_ms"] == 0
               for one in events), events
    assert [(one["state"], one["ended_by"]) for one in document["sessions"]] == [("SESSION_ACTIVE", None)], document
    for name, of, number in [("exclusiveActivatedByWeb", f"{session}-2", 5), ("visitVerifiedByWeb", f"{session}-2", 6)]:
        event = {"event_id": f"k{number}", "event": name, "occurred_at": rfc3339(now - 5000 + number), "session_id": of}
        lab.call("POST", "/native/events", event, token=token).expect(200)
    document = lab.call("GET", PATH, token=token).expect(200).json
    assert {one["session_id"]: (one["state"], one["ended_by"]) for one in document["sessions"]} == {
        session: ("SESSION_ENDED", "superseded"), f"{session}-2": ("SESSION_ENDED", "verified")}, document["sessions"]
    assert [one["ended_by"] for one in document["events"]] == [None] * 6 + ["verified"], document["events"]


@suite.check("a slow reader is waited for, has the only export of its driver, and gets what came meanwhile or not")
def _(lab):
    pair, other = lab.apple_driver(), lab.apple_driver()
    keys = store(lab, pair)
    with Exporting(lab, pair) as export:
        forget_peak(lab)
        before = memory_kib(lab, "VmRSS")
        read = export.answer.read(100_000)
        refused = lab.call("GET", PATH, token=pair["access_token"])
        refused.expect_problem(429, "rate_limited")
        assert "in progress" in refused.json["detail"] and "tries" not in refused.json["detail"], refused.json
        lab.call("GET", PATH, token=other["access_token"]).expect(200)
        later = store(lab, pair, 1)
        time.sleep(0.3)
        assert memory_kib(lab, "VmHWM") - before < GROWTH_KIB_MAX
        read += export.answer.read()
    document = json.loads(read)
    assert [event["event_id"] for event in document["events"]] in (keys, keys + later)
    # The driver may export again after a complete export, and also after an interrupted one.
    with Exporting(lab, pair) as export:
        assert export.answer.status == 200
        export.answer.read(1000)
    wait_until(lambda: is_free(lab, pair), 10, "the place of an export whose reader is gone")


def is_free(lab, pair):
    with Exporting(lab, pair) as export:
        return export.answer.status == 200


@suite.check("a driver deleted in the middle of it: the document breaks off, and nothing of anybody else is in it")
def _(lab):
    pair = lab.apple_driver()
    store(lab, pair)
    with Exporting(lab, pair) as export:
        read = export.answer.read(1000)
        lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)
        stranger = lab.apple_driver()
        store(lab, stranger, 10)
        try:
            read += export.answer.read()
            raise AssertionError(f"{len(read)} bytes, and no sign that they are not all")
        except http.client.IncompleteRead as error:
            read += error.partial
    assert stranger["user"]["id"].encode() not in read
    lab.call("GET", PATH, token=stranger["access_token"]).expect(200)


suite.main()
