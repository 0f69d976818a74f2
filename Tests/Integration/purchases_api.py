#!/usr/bin/env python3
"""Tests the server's requests to Apple's App Store Server API. The server requests a transaction if an app sends only
its id, and requests notifications that it has missed. Apple's server stalls, returns wrong data, is busy, and stops."""

import secrets
import time

from app_store import COINS, DAY, LIFETIME, MONTHLY, AppStore, Authority, now_ms, number
from app_store_api import AppStoreAPI
from apple_server import failing, hanging_up, oversized, redirecting, saying, stalling
from client import token
from ocsp_responder import OCSPResponder
from processes import wait_until
from signing_in import Suite

suite = Suite(__doc__)

# The server must answer an app within this time, even if Apple does not answer. An app's own timeout is longer.
SECONDS_MAX = 20


def driver():
    return token(f"buyer-{secrets.token_hex(8)}")


def asking(lab, **environment):
    """Starts a replacement for Apple's API, and a second server that may call it. The second server has its own
    database."""
    api = lab.stack.enter_context(AppStoreAPI(lab.folder))
    return api, lab.start_server(f"asking-{secrets.token_hex(4)}", **api.environment(), **environment)


def coins(lab, server, buyer):
    """Returns the number of coins that the driver has bought."""
    found = lab.call("GET", "/native/entitlements", token=buyer, server=server).expect(200).json["entitlements"]
    return sum(one["quantity"] for one in found)


def read_to(server):
    """Returns for each environment how far the server has read Apple's history, in milliseconds since 1970."""
    return {name: int(at) for name, at in server.rows("SELECT environment, read_to_ms FROM notification_history")}


def claim(lab, server, buyer, id, product=LIFETIME, original=None):
    return lab.call("POST", "/native/purchases", {
        "transactionId": id, "productId": product, "originalTransactionId": original or id}, buyer, server=server)


@suite.alone("an app that only names a transaction: Apple is asked, production first")
def _(lab):
    api, server = asking(lab)
    buyer, id, other = driver(), number(), number()
    api.transactions["production"][id] = lab.store.product(LIFETIME, transactionId=id)
    answer = claim(lab, server, buyer, id).expect(200)
    assert answer.json["entitlements"][0]["status"] == "active", answer
    assert api.count("sandbox/inApps/v1/transactions") == 0, api.requests
    # Apple's reviewers use the sandbox.
    api.transactions["sandbox"][other] = lab.store.product(COINS, "Consumable", transactionId=other, environment="Sandbox")
    found = claim(lab, server, buyer, other, COINS).expect(200).json["entitlements"]
    assert {one["product_id"]: one["environment"] for one in found} == {LIFETIME: "production", COINS: "sandbox"}
    # Before an app's first release, Apple's production API rejects the key.
    api.released = False
    another = number()
    api.transactions["sandbox"][another] = lab.store.product(COINS, "Consumable", transactionId=another, environment="Sandbox")
    claim(lab, server, driver(), another, COINS).expect(200)
    claim(lab, server, driver(), number()).expect_problem(503, "upstream_unavailable")
    api.released = True
    # These claims are rejected: a transaction that does not match, one that Apple does not know, and one that belongs
    # to another account.
    claim(lab, server, driver(), number()).expect_pointers("/transactionId")
    claim(lab, server, driver(), id, MONTHLY).expect_pointers("/transactionId")
    claim(lab, server, driver(), id, original="1").expect_pointers("/transactionId")
    claim(lab, server, driver(), id).expect_problem(409, "purchase_owned_by_another")
    claim(lab, server, driver(), "../../v1", original="1").expect_pointers("/transactionId")
    claim(lab, lab.server, driver(), id).expect_pointers("/signed_transaction")
    assert not api.complaints, api.complaints


@suite.alone("an Apple that stalls, lies, is busy or away: 503 with Retry-After in time, and nothing is believed")
def _(lab):
    api, server = asking(lab)
    id = number()
    api.transactions["production"][id] = lab.store.product(LIFETIME, transactionId=id)
    forged = Authority().sign(lab.store.transaction_claims(transactionId=id, productId=LIFETIME))
    asked_again_at = str(now_ms() + 90_000)
    cases = {
        "500": failing(500), "429": failing(429), "hangs up": hanging_up, "redirect": redirecting("http://127.0.0.1:1/"),
        "no JSON": saying(b"<html>"), "another member": saying(b'{"signedTransactionInfo":7}'),
        "too long": oversized(8 << 20), "stalls": stalling(30),
        "asked again later": lambda handler, *_: handler.answer(429, b"{}", [("Retry-After", asked_again_at)]),
    }
    for what, behaviour in cases.items():
        api.behaviours = {"production": behaviour}
        begin = time.monotonic()
        answer = claim(lab, server, driver(), id)
        assert time.monotonic() - begin < SECONDS_MAX, what
        try:
            answer.expect_problem(503, "upstream_unavailable")
        except AssertionError as error:
            raise AssertionError(f"{what}: {error}") from None
        if what == "asked again later":
            assert 60 <= int(answer.headers["retry-after"]) <= 90, answer
    api.behaviours = {"production": saying(f'{{"signedTransactionInfo":"{forged}"}}'.encode())}
    claim(lab, server, driver(), id).expect(400)
    # A single failure is retried at once.
    failures = [True]

    def once(handler, status, body):
        handler.answer(503, b"{}") if failures and failures.pop() else handler.answer(status, body)
    api.behaviours = {"production": once}
    claim(lab, server, driver(), id).expect(200)
    api.stop()
    claim(lab, server, driver(), id).expect_problem(503, "upstream_unavailable")
    api.start()
    api.behaviours = {}
    # The server needs no request to Apple for a signed purchase.
    api.stop()
    lab.call("POST", "/native/purchases", {"signed_transaction": lab.store.product(LIFETIME)}, driver(),
             server=server).expect(200)


@suite.alone("at the start the history fills the gap, each notification once, also when Apple is away at first")
def _(lab):
    api, server = asking(lab)
    wait_until(lambda: set(read_to(server)) == {"Production", "Sandbox"}, 10, "the first look into the history")
    ann = driver()
    mine = lab.me(ann, server=server).expect(200).json["app_account_token"]
    payloads = [lab.store.notification("ONE_TIME_CHARGE", transaction=lab.store.product(
        COINS, "Consumable", appAccountToken=mine)) for _ in range(65)]
    for payload in payloads[:5]:
        lab.call("POST", "/apple/store-notifications", {"signedPayload": payload}, server=server).expect(200)
    server.stop()
    api.history["production"] = [(now_ms(), payload, index < 5) for index, payload in enumerate(payloads)]
    sandbox = lab.store.notification("TEST", data={"environment": "Sandbox"})
    forged = Authority().sign({"notificationType": "TEST", "signedDate": now_ms()})
    api.history["sandbox"] = [(now_ms(), sandbox, False), (now_ms(), forged, False)]
    server.start()

    wait_until(lambda: coins(lab, server, ann) == 65, 20, "the history")
    assert not api.complaints, api.complaints
    for _ in range(2):
        before = read_to(server)
        server.stop()
        server.start()
        wait_until(lambda: all(at > before[name] for name, at in read_to(server).items()), 20, "another look")
    assert coins(lab, server, ann) == 65


@suite.alone("what an interrupted pass did not read is read after a restart, also if notifications come meanwhile")
def _(lab):
    api, server = asking(lab)
    wait_until(lambda: len(read_to(server)) == 2, 10, "the first look into the history")
    ann = driver()
    mine = lab.me(ann, server=server).expect(200).json["app_account_token"]

    def bought():
        return lab.store.notification("ONE_TIME_CHARGE", transaction=lab.store.product(
            COINS, "Consumable", appAccountToken=mine))
    server.stop()
    # Makes the database look as if the server had been off for 40 days. Apple's sandbox keeps notifications for only 30
    # days, so those of the first ten days are lost.
    server.rows("UPDATE notification_history SET read_to_ms = read_to_ms - ?", 40 * DAY)
    before = read_to(server)
    api.history["production"] = [(now_ms() - 35 * DAY, bought(), True) for _ in range(45)]
    api.history["sandbox"] = [(now_ms() - 10 * DAY, lab.store.notification("TEST", data={"environment": "Sandbox"}), True)]

    def third_page_fails(handler, status, body):
        handler.answer(*((503, b"{}") if "paginationToken=page%2B%2F%3D%2640" in handler.path else (status, body)))
    api.behaviours = {"production": third_page_fails}
    server.start()
    wait_until(lambda: coins(lab, server, ann) == 40, 20, "the first two pages")
    lab.call("POST", "/apple/store-notifications", {"signedPayload": bought()}, server=server).expect(200)
    # A page of Apple's production notifications fails. The server must still read all notifications of the sandbox.
    wait_until(lambda: read_to(server)["Sandbox"] > before["Sandbox"] + 39 * DAY, 20, "the sandbox")
    # Production is read up to the day with the failing page.
    assert before["Production"] <= read_to(server)["Production"] < before["Production"] + 6 * DAY
    server.kill()
    api.behaviours = {}
    server.start()
    wait_until(lambda: coins(lab, server, ann) == 46, 20, "the rest")
    wait_until(lambda: read_to(server)["Production"] > before["Production"] + 39 * DAY, 10, "the record")
    assert not api.complaints, api.complaints


@suite.alone("before the first release of the app, Apple's production environment counts as not read")
def _(lab):
    api = lab.stack.enter_context(AppStoreAPI(lab.folder))
    api.released = False
    server = lab.start_server("unreleased", **api.environment())
    wait_until(lambda: "no notification history of this app yet" in server.log_path.read_text(), 10, "production")
    wait_until(lambda: set(read_to(server)) == {"Sandbox"}, 10, "the sandbox")
    server.stop()
    api.released = True
    server.start()
    wait_until(lambda: set(read_to(server)) == {"Production", "Sandbox"}, 10, "production after the release")


@suite.alone("a leaf that Apple revoked ends what it signed; a responder that is away or lies changes nothing")
def _(lab):
    responder = lab.stack.enter_context(OCSPResponder())
    store = AppStore(ocsp_url=responder.url)
    responder.authority = store.authority
    (lab.folder / "revoked").mkdir()
    server = lab.start_server("checking", **store.environment(lab.folder / "revoked"))
    ann = driver()

    def show():
        return lab.call("POST", "/native/purchases", {"signed_transaction": store.product(
            LIFETIME)}, ann, server=server)

    def found():
        return lab.call("GET", "/native/entitlements", token=ann, server=server).expect(200).json["entitlements"]

    def sql(statement):
        return server.rows(statement)

    def restart():
        server.stop()
        server.start()

    def unanswered():
        return server.log_path.read_text().count("certificate status is unavailable")

    # The server asks the OCSP responder in the background. After each step, the test waits for the server to get the
    # answer, and only then changes the responder.
    responder.stop()
    show().expect(200)
    sql("UPDATE purchase_signer SET checked_at_ms = NULL")
    before = unanswered()
    restart()
    wait_until(lambda: unanswered() > before, 10, "the check without a responder")
    assert len(found()) == 1, found()
    responder.start()
    # A body that is not an OCSP response, such as a proxy's page, has the same effect as no answer.
    responder.says = "nonsense"
    before = unanswered()
    restart()
    wait_until(lambda: unanswered() > before, 10, "the check with nonsense")
    assert len(found()) == 1 and sql("SELECT checked_at_ms FROM purchase_signer") == [(None,)], found()
    responder.says = "forged"
    asked = responder.requests
    restart()
    wait_until(lambda: sql("SELECT checked_at_ms FROM purchase_signer") != [(None,)], 10, "the record of an answer")
    assert responder.requests == asked + 1, responder.requests
    assert len(found()) == 1, found()
    # The server has an answer for this leaf certificate, so it asks again only after a day.
    asked = responder.requests
    restart()
    time.sleep(0.5)
    assert responder.requests == asked
    responder.says = "revoked"
    sql("UPDATE purchase_signer SET checked_at_ms = checked_at_ms - 86400001")
    restart()
    wait_until(lambda: found() == [], 10, "the end of what the leaf signed")
    show().expect(400)
    # The leaf stays revoked after a restart, even without the responder.
    responder.stop()
    restart()
    assert found() == []
    wait_until(lambda: show().status == 400, 5, "the refusal of the leaf")


@suite.alone("Apple's leaf, intermediate and OCSP keys change between notifications; an old leaf is revoked: only its facts end")
def _(lab):
    responder = lab.stack.enter_context(OCSPResponder())
    store = AppStore(ocsp_url=responder.url)
    authority = responder.authority = store.authority
    (lab.folder / "rotating-root").mkdir()
    server = lab.start_server("rotating", **store.environment(lab.folder / "rotating-root"))
    ann = driver()
    mine = lab.me(ann, server=server).expect(200).json["app_account_token"]

    def notify(product):
        payload = store.notification("ONE_TIME_CHARGE", transaction=store.product(product, appAccountToken=mine))
        lab.call("POST", "/apple/store-notifications", {"signedPayload": payload}, server=server).expect(200)
        return payload

    def products():
        found = lab.call("GET", "/native/entitlements", token=ann, server=server).expect(200).json["entitlements"]
        return {one["product_id"] for one in found if one["gives_access"]}

    def checked():
        return server.rows("SELECT count(*) FROM purchase_signer WHERE checked_at_ms IS NOT NULL")[0][0]

    def forget_checks():
        server.rows("UPDATE purchase_signer SET checked_at_ms = NULL")

    def check_again():
        forget_checks()
        server.stop()
        server.start()
        wait_until(lambda: checked() == len(authority.issued), 10, "a look at every leaf")

    first, old = authority.leaf.serial_number, notify("one")
    authority.new_leaf()
    notify("two")
    authority.new_intermediate()
    authority.new_leaf()
    notify("three")
    # Apple sends the old notification again after its keys changed.
    lab.call("POST", "/apple/store-notifications", {"signedPayload": old}, server=server).expect(200)
    # The chain has the old intermediate and the present leaf.
    mixed = authority.sign({"notificationType": "TEST", "signedDate": now_ms()}, chain=[
        authority.leaf, authority.issued[0][1], authority.root])
    lab.call("POST", "/apple/store-notifications", {"signedPayload": mixed}, server=server).expect(401)
    assert products() == {"one", "two", "three"}
    for key in range(3):
        check_again()
        assert products() == {"one", "two", "three"}, key
        responder.new_key()
    responder.revoked = {first}
    check_again()
    wait_until(lambda: products() == {"two", "three"}, 10, "the end of what the first leaf signed")
    lab.call("POST", "/apple/store-notifications", {"signedPayload": old}, server=server).expect(401)
    notify("four")
    assert products() == {"two", "three", "four"}


suite.main()
