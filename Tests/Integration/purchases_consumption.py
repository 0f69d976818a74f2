#!/usr/bin/env python3
"""Tests how the server answers Apple's requests for consumption information (CONSUMPTION_REQUEST). It answers only if
the owner's consent is recorded. In some checks, Apple is unavailable, the consent is withdrawn, or the server is killed
before it has answered."""

import json
import secrets
import time

from app_store import COINS, now_ms, number
from app_store_api import AppStoreAPI
from apple_server import failing
from client import token
from processes import wait_until
from signing_in import Suite, expect

METRICS_TOKEN = "metrics-of-these-checks"
CONSENT = "/native/purchases/consent"
HOUR = 3_600_000
suite = Suite(__doc__, METRICS_TOKEN=METRICS_TOKEN)


class Shop:
    """A server that has its own database and may call Apple, and a driver who bought coins on this server."""

    def __init__(self, lab, name):
        self.lab = lab
        self.api = lab.stack.enter_context(AppStoreAPI(lab.folder))
        self.server = lab.start_server(name, METRICS_TOKEN=METRICS_TOKEN, LOG_LEVEL="info", **self.api.environment())
        self.driver = f"buyer-{secrets.token_hex(8)}"
        self.token = token(self.driver)
        self.id = self.buy()

    def buy(self, **changes):
        id = number()
        self.call("POST", "/native/purchases", {"signed_transaction": self.lab.store.product(
            COINS, "Consumable", transactionId=id, **changes)}).expect(200)
        return id

    def call(self, method, path, body=None):
        return self.lab.call(method, path, body, self.token, server=self.server)

    def show(self, *words):
        return expect(self.lab.dwell("purchases", "--driver", self.driver, *words,
                                     **self.server.database_settings()), 0)

    def consent(self, is_given):
        answer = self.call("PUT", CONSENT, {"consumption": is_given}).expect(200).json
        assert answer["consumption"] is is_given and set(answer) == {"consumption", "changed_at"}, answer
        return answer["changed_at"]

    def request(self, id=None, signed=None, environment="Production"):
        """Sends Apple's notification. The server answers the notification at once and processes the request later."""
        signed = signed or now_ms()
        transaction = self.lab.store.product(
            COINS, "Consumable", transactionId=id or self.id, environment=environment)
        payload = self.lab.store.notification(
            "CONSUMPTION_REQUEST", transaction=transaction, signedDate=signed, data={
                "environment": environment, "consumptionRequestReason": "UNINTENDED_PURCHASE"})
        self.send(payload)
        return payload

    def send(self, payload):
        begin = time.monotonic()
        self.lab.call("POST", "/apple/store-notifications", {"signedPayload": payload}, server=self.server).expect(200)
        assert time.monotonic() - begin < 10, "the answer waited"

    def sql(self, statement):
        return self.server.rows(statement)

    def outcomes(self):
        return [row[0] for row in self.sql("SELECT outcome FROM consumption_request ORDER BY id")]

    def wait_for(self, *outcomes, seconds=10):
        wait_until(lambda: self.outcomes() == list(outcomes), seconds, f"{outcomes} instead of {self.outcomes()}")

    def count(self, outcome):
        metrics = self.lab.call("GET", "/metrics", token=METRICS_TOKEN, server=self.server).body.decode()
        lines = [line for line in metrics.splitlines()
                 if line.startswith("dwell_consumption_requests_total") and f'"{outcome}"' in line]
        return int(float(lines[0].split()[-1]))


@suite.alone("with consent Apple gets the smallest answer, once; without it, or after it was withdrawn, nothing")
def _(lab):
    shop = Shop(lab, "shop")
    shop.request()
    shop.wait_for("no_consent")
    expect(shop.show(), 0, "consumption information: never asked", "notification CONSUMPTION_REQUEST",
           "not answered: no consent")
    first = shop.consent(True)
    assert shop.consent(True) == first
    payload = shop.request()
    shop.wait_for("no_consent", "answered")
    body = {"customerConsented": True, "deliveryStatus": "DELIVERED", "sampleContentProvided": False}
    assert shop.api.consumption == [("production", shop.id, body)], shop.api.consumption
    # Apple sends the same notification again, which has no effect.
    shop.send(payload)
    sandbox = shop.buy(environment="Sandbox")
    shop.request(sandbox, environment="Sandbox")
    shop.wait_for("no_consent", "answered", "answered")
    assert shop.api.consumption[1:] == [("sandbox", sandbox, body)], shop.api.consumption
    assert shop.consent(False) > first
    shop.request()
    shop.wait_for("no_consent", "answered", "answered", "no_consent")
    # No driver has shown this purchase to the server, so no driver's consent applies to the request.
    shop.request(number())
    shop.wait_for("no_consent", "answered", "answered", "no_consent", "no_consent")
    assert len(shop.api.consumption) == 2, shop.api.consumption
    assert (shop.count("answered"), shop.count("no_consent")) == (2, 3)
    log = shop.server.log_path.read_text()
    assert log.count("consumption request answered") == 2, log[-3000:]
    assert log.count("consumption request not answered") == 3 and "no_consent" in log, log[-3000:]
    expect(shop.show(), 0, "consumption information: consent withdrawn 20", ", answered 20", "not answered: no consent")
    found = json.loads(shop.show("--json").stdout)
    assert found["consumption_consent"]["given"] is False, found
    assert "answered" in [one["consumption_outcome"] for purchase in found["purchases"]
                          for one in purchase["notifications"]], found
    assert not shop.api.complaints, shop.api.complaints


@suite.alone("Apple away, kill -9 in between, and back: one answer, within the twelve hours")
def _(lab):
    shop = Shop(lab, "away")
    shop.consent(True)
    shop.api.behaviours = {"production": failing(503)}
    shop.request()
    wait_until(lambda: shop.sql("SELECT attempt_count FROM consumption_request") == [(1,)], 20, "a failed attempt")
    shop.server.kill()
    shop.api.stop()
    shop.server.start()
    # Makes the next attempt due now. Otherwise, the test would wait eight or more seconds.
    due = f"UPDATE consumption_request SET next_attempt_at_ms = {now_ms()} WHERE outcome IS NULL"
    shop.sql(due)
    wait_until(lambda: shop.sql("SELECT attempt_count FROM consumption_request") == [(2,)], 20, "another failed attempt")
    assert shop.outcomes() == [None] and shop.api.consumption == []
    shop.api.behaviours = {}
    shop.api.start()
    shop.server.kill()
    shop.sql(due)
    shop.server.start()
    shop.wait_for("answered")
    assert [one[:2] for one in shop.api.consumption] == [("production", shop.id)], shop.api.consumption
    assert "consumption information could not be sent; retrying" in shop.server.log_path.read_text()


@suite.alone("consent withdrawn while Apple is away; too late; refused by Apple")
def _(lab):
    shop = Shop(lab, "late")
    shop.consent(True)
    shop.api.behaviours = {"production": failing(503)}
    shop.request()
    wait_until(lambda: shop.sql("SELECT attempt_count FROM consumption_request") == [(1,)], 20, "a failed attempt")
    shop.consent(False)
    shop.api.behaviours = {}
    shop.sql(f"UPDATE consumption_request SET next_attempt_at_ms = {now_ms()}")
    shop.wait_for("no_consent")
    shop.consent(True)
    shop.request(signed=now_ms() - 12 * HOUR)
    shop.wait_for("no_consent", "too_late")
    assert shop.api.consumption == [], shop.api.consumption
    shop.api.behaviours = {"production": failing(400)}
    shop.request()
    shop.wait_for("no_consent", "too_late", "rejected")
    assert (shop.count("too_late"), shop.count("rejected")) == (1, 1)


@suite.check("the consent: its form, its moment in the export, and its deletion")
def _(lab):
    pair = lab.apple_driver()
    mine = pair["access_token"]
    for wrong in ({}, {"consumption": None}, {"consumption": 1}, {"consumption": "true"}):
        lab.call("PUT", CONSENT, wrong, mine).expect_pointers("/consumption")
    lab.call("PUT", CONSENT, {"consumption": True}).expect(401)
    at = lab.call("PUT", CONSENT, {"consumption": True}, mine).expect(200).json["changed_at"]
    exported = lab.call("GET", "/auth/me/export", token=mine).expect(200).json
    assert exported["consumption_consents"] == [{"is_given": True, "changed_at": at}], exported["consumption_consents"]
    lab.call("DELETE", "/auth/me", {"confirm": True}, mine).expect(200)
    expect(lab.dwell("verify-erased", "--driver", pair["user"]["id"]), 0, "no remaining data")
    assert lab.sql("SELECT count(*) FROM consumption_consent") == [(0,)]


@suite.alone("a window of its own routes", RATE_LIMIT_PURCHASES="2")
def _(lab):
    mine = token("somebody")
    for is_given in (True, False):
        lab.call("PUT", CONSENT, {"consumption": is_given}, mine).expect(200)
    lab.call("PUT", CONSENT, {"consumption": True}, mine).expect_problem(429, "rate_limited")
    off = lab.start_server("off", PURCHASE_APPS="")
    lab.call("PUT", CONSENT, {"consumption": True}, mine, server=off).expect_problem(404, "not_found")


suite.main()
