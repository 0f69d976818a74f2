#!/usr/bin/env python3
"""Tests the operator commands for purchases, beside a running server. They show purchases and the reasons for their
status, move a purchase, and read notifications from a file. Also tests which purchase data remains after a deletion."""

import json
import uuid

from app_store import APPLE_ID, BUNDLE_ID, COINS, DAY, MONTHLY, Authority, now_ms, number
from processes import as_bytes, wait_until
from signing_in import Suite, expect

suite = Suite(__doc__)


def buy(lab, pair, transaction, renewal=None):
    body = {"signed_transaction": transaction, **({"signed_renewal_info": renewal} if renewal else {})}
    return lab.call("POST", "/native/purchases", body, pair["access_token"]).expect(200)


def statuses(lab, pair):
    answer = lab.call("GET", "/native/entitlements", token=pair["access_token"]).expect(200)
    return {one["product_id"]: one["status"] for one in answer.json["entitlements"]}


@suite.check("the facts, the verdict, and why")
def _(lab):
    pair, id, store = lab.apple_driver(), number(), lab.store
    driver = pair["user"]["id"]
    expect(lab.dwell("purchases", "--driver", driver), 0, "has no purchases")
    began = now_ms() - 33 * DAY
    retrying = store.renewal(id, isInBillingRetryPeriod=True, gracePeriodExpiresDate=now_ms() + 3 * DAY)
    buy(lab, pair, store.transaction(transactionId=id, purchaseDate=began), retrying)
    notice = store.notification("DID_FAIL_TO_RENEW", "GRACE_PERIOD", store.transaction(
        transactionId=id, purchaseDate=began), retrying)
    lab.call("POST", "/apple/store-notifications", {"signedPayload": notice}).expect(200)
    expect(lab.dwell("purchases", "--driver", driver), 0, f"{MONTHLY}  grace", "was not charged; Apple grants access",
           f"purchase {id} (Production), sent by this driver first", "notification DID_FAIL_TO_RENEW GRACE_PERIOD")
    found = json.loads(expect(lab.dwell("purchases", "--driver", driver, "--json"), 0).stdout)
    assert found["entitlements"][0]["status"] == "grace" and id in found["entitlements"][0]["why"], found
    assert found["purchases"][0]["transactions"][0]["price"] == 4990, found
    assert found["purchases"][0]["owner"] == "first_sender", found
    expect(lab.dwell("purchases", "--driver", "drv_nobody"), 1, "not found")


@suite.check("a purchase moves to another driver, and the next notification finds it there")
def _(lab):
    ann, bea, id = lab.apple_driver(), lab.apple_driver(), number()
    token = lab.me(ann["access_token"]).json["app_account_token"]
    signed = lab.store.transaction(transactionId=id, appAccountToken=token)
    buy(lab, ann, signed)
    words = ["purchases", "move", "--transaction", id, "--to", bea["user"]["id"]]
    expect(lab.dwell(*words), 1, f"belongs to {ann['user']['id']}", "confirm with --yes")
    expect(lab.dwell(*words, "--sandbox", "--yes"), 1, "No purchase")
    expect(lab.dwell(*words, "--yes"), 0, f"{id} belongs to {bea['user']['id']} now")
    assert statuses(lab, ann) == {} and statuses(lab, bea) == {MONTHLY: "active"}
    refunded = lab.store.transaction(transactionId=id, appAccountToken=token, revocationDate=now_ms())
    lab.call("POST", "/apple/store-notifications", {
        "signedPayload": lab.store.notification("REFUND", transaction=refunded)}).expect(200)
    assert statuses(lab, bea) == {MONTHLY: "refunded"}
    lab.call("POST", "/native/purchases", {"signed_transaction": signed}, ann["access_token"]).expect(409)
    for driver in (ann, bea):
        assert "operator_purchase_move" in [entry["action"] for entry in lab.audit(driver["user"]["id"])]


@suite.check("notifications from a file: each once, also beside the server; the others are named")
def _(lab):
    ann = lab.apple_driver()
    token = lab.me(ann["access_token"]).json["app_account_token"]
    payloads = [lab.store.notification("ONE_TIME_CHARGE", transaction=lab.store.product(
        COINS, "Consumable", appAccountToken=token)) for _ in range(20)]
    file = lab.folder / "history.jsonl"
    file.write_text("\n".join([json.dumps({"signedPayload": one}) for one in payloads[:10]] + payloads[10:]))
    for payload in payloads[:3]:
        lab.call("POST", "/apple/store-notifications", {"signedPayload": payload}).expect(200)
    expect(lab.dwell("purchases", "replay", str(file)), 0, "17 stored, 3 known, 0 rejected")
    expect(lab.dwell("purchases", "replay", str(file)), 0, "0 stored, 20 known, 0 rejected")
    assert statuses(lab, ann) == {COINS: "active"}
    answer = lab.call("GET", "/native/entitlements", token=ann["access_token"]).json
    assert answer["entitlements"][0]["quantity"] == 20, answer
    forged = Authority().sign({"notificationType": "TEST", "signedDate": now_ms()})
    file.write_text(f"{payloads[0]}\n{forged}\nx\n")
    expect(lab.dwell("purchases", "replay", str(file)), 1, "history.jsonl:2: untrusted_root",
           "history.jsonl:3: malformed", "0 stored, 1 known, 2 rejected")
    expect(lab.dwell("purchases", "replay", str(file), PURCHASE_APPS=""), 78, "PURCHASE_APPS")


@suite.check("a deletion leaves facts for a refund, and nothing that leads to the person")
def _(lab):
    ann, id, account = lab.apple_driver(), number(), number()
    token = lab.me(ann["access_token"]).json["app_account_token"]
    signed = lab.store.transaction(transactionId=id, appAccountToken=token, appTransactionId=account)
    buy(lab, ann, signed, lab.store.renewal(id, appTransactionId=account))
    rescinded = lab.store.authority.sign({
        "notificationType": "RESCIND_CONSENT", "notificationUUID": str(uuid.uuid4()), "signedDate": now_ms(), "appData": {
            "appAppleId": APPLE_ID, "bundleId": BUNDLE_ID, "environment": "Production",
            "signedAppTransactionInfo": lab.store.authority.sign({"appTransactionId": account})}})
    for payload in (lab.store.notification("FROM_THE_FUTURE", transaction=signed), rescinded):
        lab.call("POST", "/apple/store-notifications", {"signedPayload": payload}).expect(200)
    assert lab.sql("SELECT count(*) FROM store_notification WHERE app_transaction_id = ?", account) == [(1,)]
    exported = lab.call("GET", "/auth/me/export", token=ann["access_token"]).expect(200).json
    assert exported["purchase_transactions"][0]["payload"]["transactionId"] == id, exported
    lab.call("DELETE", "/auth/me", {"confirm": True}, ann["access_token"]).expect(200)
    expect(lab.dwell("verify-erased", "--driver", ann["user"]["id"], "--text", token, "--text", account), 0,
           "no remaining data")
    (kept,) = lab.sql("SELECT payload, signature FROM purchase_transaction WHERE transaction_id = ?", id)
    assert json.loads(as_bytes(kept[0]))["productId"] == MONTHLY and kept[1] is None, kept
    # The subscription of a deleted driver continues, and Apple signs new transactions for it. The server stores them
    # without the members that identify the person.
    name = {"appAccountToken": token, "appTransactionId": account}
    renewed = lab.store.transaction(transactionId=number(), originalTransactionId=id, **name)
    refunded = lab.store.transaction(transactionId=id, revocationDate=now_ms(), **name)
    for payload in (lab.store.notification("DID_RENEW", None, renewed, lab.store.renewal(id, appTransactionId=account)),
                    lab.store.notification("REFUND", transaction=refunded),
                    lab.store.notification("ANOTHER_FROM_THE_FUTURE", transaction=renewed)):
        lab.call("POST", "/apple/store-notifications", {"signedPayload": payload}).expect(200)
    expect(lab.dwell("verify-erased", "--driver", ann["user"]["id"], "--text", token, "--text", account), 0,
           "no remaining data")
    assert lab.sql("""SELECT count(*) FROM purchase_transaction JOIN purchase ON purchase.id = purchase
                      WHERE original_transaction_id = ? AND signature IS NULL""", id) == [(2,)]
    # The same person signs in again and gets a new account. The stored renewal and refund still lack the members that
    # identify a person. When the new account's app sends them, the server adds these members.
    again = lab.apple_driver()
    buy(lab, again, refunded)
    assert statuses(lab, again) == {MONTHLY: "active"}
    buy(lab, again, renewed)
    (kept,) = lab.sql("""SELECT count(*), count(signature) FROM purchase_transaction JOIN purchase
                         ON purchase.id = purchase WHERE original_transaction_id = ?""", id)
    assert tuple(kept) == (2, 2), kept


@suite.alone("the operator page counts what is active and what was refunded today", OPS_TOKEN="operator-of-these-checks")
def _(lab):
    def counted():
        return lab.call("GET", "/ops/picture", token="operator-of-these-checks").expect(200).json.get("purchases")
    wait_until(lambda: counted() == {"active": 0, "grace": 0, "billing_retry": 0, "refunds_today": 0}, 10, "the first count")
    for _ in range(3):
        buy(lab, lab.apple_driver(), lab.store.transaction())
    buy(lab, lab.apple_driver(), lab.store.transaction(environment="Sandbox"))
    buy(lab, lab.apple_driver(), lab.store.transaction(revocationDate=now_ms()))
    wait_until(lambda: counted() == {"active": 3, "grace": 0, "billing_retry": 0, "refunds_today": 1}, 15, "the next count")


suite.main()
