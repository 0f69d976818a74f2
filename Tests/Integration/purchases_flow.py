#!/usr/bin/env python3
"""Tests purchases in the App Store over HTTP (contract, section 9): requests of apps, notifications of Apple, owners of
purchases, and entitlements. Also tests kill -9 between a notification and its response."""

import json
import re
import secrets
import socket
import threading
import time
import uuid

from app_store import APPLE_ID, BUNDLE_ID, COINS, DAY, LIFETIME, MONTHLY, YEARLY, AppStore, Authority, now_ms, number
from client import Client, rendered, token
from processes import REPOSITORY, as_bytes
from signing_in import Suite

METRICS_TOKEN = "metrics-of-these-checks"
suite = Suite(__doc__, METRICS_TOKEN=METRICS_TOKEN)

PURCHASES, ENTITLEMENTS, NOTIFICATIONS = "/native/purchases", "/native/entitlements", "/apple/store-notifications"


def driver():
    return token(f"buyer-{secrets.token_hex(8)}")


def post(lab, access_token, transaction, renewal=None):
    return lab.call("POST", PURCHASES, {
        "signed_transaction": transaction, **({"signed_renewal_info": renewal} if renewal else {})}, access_token)


def notify(lab, payload):
    return lab.call("POST", NOTIFICATIONS, {"signedPayload": payload})


def entitlements(lab, access_token):
    return lab.call("GET", ENTITLEMENTS, token=access_token).expect(200).json["entitlements"]


def statuses(lab, access_token):
    return {one["product_id"]: one["status"] for one in entitlements(lab, access_token)}


def account_token(lab, access_token):
    found = lab.me(access_token).expect(200).json["app_account_token"]
    assert str(uuid.UUID(found)) == found
    return found


# --- the app ------------------------------------------------------------------------------------------------------


@suite.check("a purchase is answered with the entitlement, which is on disk")
def _(lab):
    buyer, id = driver(), number()
    answer = post(lab, buyer, lab.store.transaction(transactionId=id), lab.store.renewal(id)).expect(200)
    (one,) = answer.json["entitlements"]
    assert one["status"] == "active" and one["gives_access"] and one["auto_renews"], one
    assert one["product_id"] == MONTHLY and one["environment"] == "production", one
    assert one["transaction_id"] == one["original_transaction_id"] == id, one
    lab.restart()
    assert entitlements(lab, buyer) == [one]


@suite.check("the entity tag is strong, and the same until something changes")
def _(lab):
    buyer, id = driver(), number()
    first = post(lab, buyer, lab.store.transaction(transactionId=id)).expect(200)
    etag = first.headers["etag"]
    assert etag.startswith('"'), etag
    again = lab.call("GET", ENTITLEMENTS, token=buyer).expect(200)
    assert again.headers["etag"] == etag and again.body == first.body
    assert again.headers["cache-control"] == "private, no-cache", again
    lab.call("GET", ENTITLEMENTS, token=buyer, headers={"If-None-Match": etag}).expect(304)
    notify(lab, lab.store.notification("REFUND", transaction=lab.store.transaction(
        transactionId=id, revocationDate=now_ms(), revocationReason=0))).expect(200)
    changed = lab.call("GET", ENTITLEMENTS, token=buyer, headers={"If-None-Match": etag}).expect(200)
    assert changed.json["entitlements"][0]["status"] == "refunded", changed


@suite.check("lifetime products, consumables, family sharing and the sandbox")
def _(lab):
    buyer, store = driver(), lab.store
    post(lab, buyer, store.product(LIFETIME)).expect(200)
    post(lab, buyer, store.product(COINS, "Consumable", quantity=3)).expect(200)
    post(lab, buyer, store.product(COINS, "Consumable", quantity=2)).expect(200)
    post(lab, buyer, store.transaction(inAppOwnershipType="FAMILY_SHARED")).expect(200)
    post(lab, buyer, store.transaction(environment="Sandbox", productId=YEARLY)).expect(200)
    found = {one["product_id"]: one for one in entitlements(lab, buyer)}
    assert "access_ends_at" not in found[LIFETIME] and found[LIFETIME]["kind"] == "non_consumable", found
    assert found[COINS]["quantity"] == 5 and found[MONTHLY]["ownership"] == "family_shared", found
    assert found[YEARLY]["environment"] == "sandbox" and found[YEARLY]["gives_access"], found


@suite.check("an ownership that Apple may add gives access, and ends without being a refund")
def _(lab):
    buyer, id = driver(), number()
    seat = {"transactionId": id, "inAppOwnershipType": "ASSIGNED"}
    answer = post(lab, buyer, lab.store.transaction(**seat)).expect(200)
    assert answer.json["entitlements"][0]["gives_access"], answer
    notify(lab, lab.store.notification("REVOKE", transaction=lab.store.transaction(
        **seat, revocationDate=now_ms(), revocationType="ASSIGNMENT_REVOKE"))).expect(200)
    assert statuses(lab, buyer) == {MONTHLY: "revoked"}


@suite.check("the refund of an upgrade does not bring back the replaced product")
def _(lab):
    buyer, id, other = driver(), number(), number()
    began = now_ms() - 12 * DAY
    monthly = lab.store.transaction(transactionId=id, purchaseDate=began)
    yearly = {"transactionId": other, "originalTransactionId": id, "productId": YEARLY,
              "purchaseDate": began + 10 * DAY, "expiresDate": began + 375 * DAY}
    post(lab, buyer, monthly).expect(200)
    post(lab, buyer, lab.store.transaction(**yearly)).expect(200)
    assert statuses(lab, buyer) == {MONTHLY: "expired", YEARLY: "active"}
    notify(lab, lab.store.notification("REFUND", transaction=lab.store.transaction(
        **yearly, revocationDate=now_ms(), revocationType="REFUND_FULL"))).expect(200)
    assert statuses(lab, buyer) == {MONTHLY: "expired", YEARLY: "refunded"}


@suite.check("a driver without purchases has none, and another driver's are not told")
def _(lab):
    buyer = driver()
    post(lab, buyer, lab.store.transaction()).expect(200)
    assert entitlements(lab, driver()) == []


# --- owners -------------------------------------------------------------------------------------------------------


@suite.check("two account tokens with one purchase date: the higher id decides, also if it has more digits")
def _(lab):
    ann, eve, digits, at = driver(), driver(), number(), now_ms() - 1_000_000
    first, second = f"9{digits}", f"10{digits}"
    post(lab, ann, lab.store.transaction(
        transactionId=first, purchaseDate=at, appAccountToken=account_token(lab, ann))).expect(200)
    post(lab, eve, lab.store.transaction(
        transactionId=second, originalTransactionId=first, purchaseDate=at,
        appAccountToken=account_token(lab, eve))).expect(200)
    assert entitlements(lab, ann) == []


@suite.check("of the reads of an unknown driver, only GET /auth/me stores something: the account token")
def _(lab):
    name = f"buyer-{secrets.token_hex(8)}"
    reader = token(name)
    for path in (ENTITLEMENTS, "/native/session", "/native/sessions", "/native/config", "/auth/sessions", "/api/auth/me"):
        lab.call("GET", path, token=reader).expect(200)
        assert lab.sql("SELECT count(*) FROM driver WHERE driver_id = ?", name) == [(0,)], path
    account_token(lab, reader)
    assert lab.sql("SELECT count(*) FROM driver WHERE driver_id = ?", name) == [(1,)]


@suite.check("who shows a purchase first owns it; another account gets 409 and nothing else")
def _(lab):
    ann, eve, signed = driver(), driver(), lab.store.transaction()
    post(lab, ann, signed).expect(200)
    post(lab, eve, signed).expect_problem(409, "purchase_owned_by_another")
    post(lab, ann, signed).expect(200)
    assert entitlements(lab, eve) == [] and len(entitlements(lab, ann)) == 1


@suite.check("the account token that Apple signed decides, whoever shows the purchase")
def _(lab):
    ann, eve = driver(), driver()
    mine = account_token(lab, ann)
    assert account_token(lab, ann) == mine != account_token(lab, eve)
    signed = lab.store.transaction(appAccountToken=mine.upper())
    post(lab, eve, signed).expect_problem(409, "purchase_owned_by_another")
    # The server rejected eve's request, but stored the purchase for ann, because the purchase names ann's account
    # token.
    assert statuses(lab, ann) == {MONTHLY: "active"}
    post(lab, ann, signed).expect(200)


@suite.check("the account token of the last bought transaction decides, not of the last signed one")
def _(lab):
    ann, bea, id = driver(), driver(), number()
    lapsed = {"transactionId": id, "purchaseDate": now_ms() - 90 * DAY, "appAccountToken": account_token(lab, ann)}
    post(lab, ann, lab.store.transaction(**lapsed)).expect(200)
    post(lab, bea, lab.store.transaction(
        originalTransactionId=id, appAccountToken=account_token(lab, bea))).expect(200)
    # Apple signs the lapsed transaction again, because ann asks for a refund.
    notify(lab, lab.store.notification("CONSUMPTION_REQUEST", transaction=lab.store.transaction(**lapsed))).expect(200)
    assert statuses(lab, ann) == {} and statuses(lab, bea) == {MONTHLY: "active"}
    post(lab, ann, lab.store.transaction(**lapsed)).expect_problem(409, "purchase_owned_by_another")


@suite.check("a notification that comes before the app is kept for its owner")
def _(lab):
    ann, id = driver(), number()
    notify(lab, lab.store.notification("SUBSCRIBED", "INITIAL_BUY", lab.store.transaction(
        transactionId=id, appAccountToken=account_token(lab, ann)))).expect(200)
    assert statuses(lab, ann) == {MONTHLY: "active"}
    # A purchase without an account token has no owner until a driver shows it.
    bea, signed = driver(), lab.store.transaction()
    notify(lab, lab.store.notification("SUBSCRIBED", "INITIAL_BUY", signed)).expect(200)
    assert statuses(lab, bea) == {}
    post(lab, bea, signed).expect(200)


# --- Apple --------------------------------------------------------------------------------------------------------


@suite.check("a year of notifications, forwards and backwards, doubled: the same in the end")
def _(lab):
    def year(id, account):
        """Yields (kind, subtype, transaction, renewal) in the order of occurrence."""
        begin, store = now_ms() - 360 * DAY, lab.store
        for month in range(12):
            start = begin + month * 30 * DAY
            here = {"transactionId": id if month == 0 else f"{id}{month:02}", "originalTransactionId": id,
                    "purchaseDate": start, "signedDate": start, "appAccountToken": account}
            yield "DID_RENEW", None, store.transaction(**here), store.renewal(id, signedDate=start)
            if month == 4:
                refunded = {**here, "signedDate": start + DAY, "revocationDate": start + DAY, "revocationReason": 0}
                yield "REFUND", None, store.transaction(**refunded), None
                yield "REFUND_REVERSED", None, store.transaction(**{**here, "signedDate": start + 2 * DAY}), None
        ended = begin + 12 * 30 * DAY
        yield "DID_FAIL_TO_RENEW", "GRACE_PERIOD", store.transaction(**here), store.renewal(
            id, isInBillingRetryPeriod=True, gracePeriodExpiresDate=ended + 6 * DAY, signedDate=ended)
    results = []
    for order in (1, -1):
        ann, id = driver(), number()
        facts = list(year(id, account_token(lab, ann)))[::order]
        for kind, subtype, transaction, renewal in facts:
            payload = lab.store.notification(kind, subtype, transaction, renewal)
            notify(lab, payload).expect(200)
            notify(lab, payload).expect(200)
        (one,) = entitlements(lab, ann)
        results.append({name: value for name, value in one.items()
                        if not name.endswith("_at") and not name.endswith("transaction_id")})
    assert results[0] == results[1], results
    assert results[0]["status"] == "grace", results


def documented_types():
    """Returns the types and subtypes in the table of docs/purchases.md. NotificationTypesTests checks that this table
    agrees with the code."""
    page = (REPOSITORY / "docs/purchases.md").read_text()
    rows = re.findall(r"^\| `([A-Z_]+)` \| (?:`([A-Z_]+)`)? \| ", page, re.MULTILINE)
    return [(kind, subtype or None) for kind, subtype in rows]


@suite.check("each documented type is taken, and one that nobody knows is kept")
def _(lab):
    app = {"appAppleId": APPLE_ID, "bundleId": BUNDLE_ID, "environment": "Production"}
    # Some notification types have their details in another member than `data`. `objects` maps such a type and its
    # subtype to the name and the content of this member.
    objects = {
        "RENEWAL_EXTENSION SUMMARY": ("summary", {**app, "productId": MONTHLY, "succeededCount": 5, "failedCount": 0}),
        "RESCIND_CONSENT": ("appData", {**app, "signedAppTransactionInfo": "x.y.z"}),
        "UNCLAIM_SEATS": ("unclaimInfo", {**app, "unclaimSeatIds": [str(uuid.uuid4())]}),
        **{f"EXTERNAL_PURCHASE_TOKEN {subtype}": ("externalPurchaseToken", {
            "appAppleId": APPLE_ID, "bundleId": BUNDLE_ID, "externalPurchaseId": str(uuid.uuid4())})
           for subtype in ("ACTIVE_TOKEN_REMINDER", "CREATED", "UNREPORTED")},
    }
    kinds = documented_types()
    assert len(kinds) > 40 and set(objects) <= {f"{kind} {subtype or ''}".strip() for kind, subtype in kinds}, kinds
    for kind, subtype in kinds:
        what, id = f"{kind} {subtype or ''}".strip(), str(uuid.uuid4())
        if what in objects:
            member, value = objects[what]
            payload = lab.store.authority.sign({
                "notificationType": kind, **({"subtype": subtype} if subtype else {}), "notificationUUID": id,
                "version": "2.0", "signedDate": now_ms(), member: value})
        else:
            transaction = None if kind == "TEST" else lab.store.transaction()
            payload = lab.store.notification(kind, subtype, transaction, notificationUUID=id)
        notify(lab, payload).expect(200).expect_no_store()
        rows = lab.sql("SELECT type, subtype, payload IS NOT NULL AS is_kept FROM store_notification WHERE uuid = ?", id)
        # Of these types, the server stores the notification's payload only for those in `objects`. A transaction has
        # its own row, so the server does not also store the payload of its notification.
        assert rows == [(kind, subtype, what in objects)], (what, rows)
    notify(lab, lab.store.notification("FROM_THE_FUTURE", "X")).expect(200).expect_no_store()
    kept = lab.sql("SELECT payload FROM store_notification WHERE type = 'FROM_THE_FUTURE'")
    assert kept and b"FROM_THE_FUTURE" in as_bytes(kept[0][0]), kept
    for kind, member, value in (
            ("UNCLAIM_SEATS", "unclaimInfo", {**app, "unclaimSeatIds": [str(uuid.uuid4())]}),
            ("RESCIND_CONSENT", "appData", {**app, "signedAppTransactionInfo": "x.y.z"}),
            ("IN_ANOTHER_OBJECT", "orderInfo", {"orders": ["an order"]})):
        claims = {"notificationType": kind, "notificationUUID": str(uuid.uuid4()), "version": "2.0", "signedDate": now_ms()}
        notify(lab, lab.store.authority.sign({**claims, member: value})).expect(200).expect_no_store()
        (kept,) = lab.sql("SELECT payload FROM store_notification WHERE uuid = ?", claims["notificationUUID"])
        assert json.loads(as_bytes(kept[0]))[member] == value, kept
        claims["notificationUUID"] = str(uuid.uuid4())
        foreign = lab.store.authority.sign({**claims, member: {**value, "bundleId": "com.other"}})
        assert notify(lab, foreign).status == 401
    metrics = lab.call("GET", "/metrics", token=METRICS_TOKEN).body.decode()
    for kind in {kind for kind, _ in kinds} | {"other"}:
        assert f'dwell_store_notifications_total{{type="{kind}",outcome="stored"}}' in metrics or (
            f'dwell_store_notifications_total{{outcome="stored",type="{kind}"}}' in metrics), (kind, metrics[-2000:])


@suite.check("a notification of 20 kB with everything in it is taken")
def _(lab):
    id = number()
    padding = {"extra": "x" * 4000}
    signed = lab.store.transaction(transactionId=id, **padding), lab.store.renewal(id, **padding)
    payload = lab.store.notification("DID_RENEW", None, *signed)
    assert len(payload) > 20_000, len(payload)
    notify(lab, payload).expect(200)


@suite.check("forged, broken and foreign ones: 401, one text, no effect; and 1 MB is 413")
def _(lab):
    store, good = lab.store, lab.store.authority
    before = lab.sql("SELECT count(*) FROM store_notification")
    claims = {"notificationType": "TEST", "notificationUUID": str(uuid.uuid4()), "version": "2.0",
              "signedDate": now_ms(), "data": {"appAppleId": APPLE_ID, "bundleId": BUNDLE_ID, "environment": "Production"}}
    stranger = Authority()
    payload = store.notification("TEST")
    head, body, signature = payload.split(".")
    bad = {
        "another authority": stranger.sign(claims), "no leaf marker": Authority(leaf_oid=None).sign(claims),
        "the root of another": good.sign(claims, chain=[good.leaf, good.intermediate, stranger.root]),
        "the leaf of another": good.sign(claims, chain=[stranger.leaf, good.intermediate, good.root]),
        "order": good.sign(claims, chain=good.chain[::-1]), "four": good.sign(claims, chain=good.chain + [good.root]),
        "two": good.sign(claims, chain=good.chain[:2]), "a leaf as root": good.sign(claims, chain=[good.leaf] * 3),
        "alg none": good.sign(claims, header={"alg": "none"}), "alg HS256": good.sign(claims, header={"alg": "HS256"}),
        "key": good.sign(claims, key=stranger.key), "signature": f"{head}.{body}.{signature[:-4]}AAAA",
        "no signature": f"{head}.{body}.", "another bundle": store.notification("TEST", data={"bundleId": "com.other"}),
        "another app": store.notification("TEST", data={"appAppleId": 1}),
        "no app": store.notification("TEST", data={"appAppleId": None}),
        "Xcode": store.notification("TEST", data={"environment": "Xcode"}),
        "long ago": store.notification("TEST", signedDate=now_ms() - 401 * DAY), "garbage": "x.y.z",
    }
    texts = set()
    for what, payload in bad.items():
        answer = notify(lab, payload)
        assert answer.status == 401, f"{what}: {answer}"
        texts.add(answer.json["detail"])
    assert len(texts) == 1, texts
    notify(lab, store.notification("TEST", signedDate=now_ms() + DAY)).expect_problem(503, "service_unavailable")
    notify(lab, "x" * 1_000_000).expect_problem(413, "content_too_large")
    assert lab.sql("SELECT count(*) FROM store_notification") == before
    buyer = driver()
    post(lab, buyer, stranger.sign(store.transaction_claims())).expect_pointers("/signed_transaction")
    post(lab, buyer, store.transaction(bundleId="com.other")).expect_pointers("/signed_transaction")
    post(lab, buyer, store.transaction(), store.renewal("1")).expect_pointers("/signed_transaction")
    # The last argument must be a signed renewal. A signed transaction is rejected there, although its signature is
    # valid.
    transaction = store.transaction()
    post(lab, buyer, transaction, transaction).expect_pointers("/signed_transaction")
    lab.call("POST", PURCHASES, {"transactionId": "1", "productId": "p", "originalTransactionId": "1"},
             buyer).expect_pointers("/signed_transaction")
    assert entitlements(lab, buyer) == []


@suite.check("a signed notification and transaction, truncated: 4xx, and nothing is stored")
def _(lab):
    store, buyer, id = lab.store, driver(), number()
    transaction, renewal = store.transaction(transactionId=id), store.renewal(id)
    payload = store.notification("DID_RENEW", None, transaction, renewal)
    tables = "purchase", "purchase_transaction", "purchase_renewal", "store_notification"

    def rows():
        return [lab.sql(f"SELECT count(*) FROM {table}") for table in tables]
    before = rows()

    def ends(text):
        """Returns the lengths to which the test truncates `text`: about 150 spread over the text, the last 90, and a
        few around each dot."""
        dots = [place for place, character in enumerate(text) if character == "."]
        return sorted({*range(1, len(text), len(text) // 150), *range(len(text) - 90, len(text)),
                       *(place + step for place in dots for step in range(-2, 4))})
    with Client(lab.server.port, buyer, timeout=30) as client:
        for end in ends(payload):
            body = json.dumps({"signedPayload": payload[:end]}).encode()
            status = client.request("POST", NOTIFICATIONS, body)[0]
            assert status == 401, (end, status)
        for end in ends(transaction):
            body = json.dumps({"signed_transaction": transaction[:end]}).encode()
            assert client.request("POST", PURCHASES, body)[0] == 400, end
        for end in ends(renewal):
            body = json.dumps({"signed_transaction": transaction, "signed_renewal_info": renewal[:end]}).encode()
            assert client.request("POST", PURCHASES, body)[0] == 400, end
        # The request itself, truncated inside its JSON.
        whole = json.dumps({"signedPayload": payload}).encode()
        for end in (1, 17, 20, len(whole) // 2, len(whole) - 2, len(whole) - 1):
            assert client.request("POST", NOTIFICATIONS, whole[:end])[0] == 400, end
    assert rows() == before
    notify(lab, payload).expect(200)


@suite.alone("kill -9 between notifications and their answers: each takes effect once")
def _(lab):
    ann = driver()
    mine = account_token(lab, ann)
    for round in range(4):
        sent = []
        for _ in range(40):
            id = number()
            payload = lab.store.notification("ONE_TIME_CHARGE", transaction=lab.store.product(
                COINS, "Consumable", transactionId=id, quantity=1, appAccountToken=mine))
            sent.append(payload)
        sockets = []
        for payload in sent:
            connection = socket.create_connection(("127.0.0.1", lab.server.port), timeout=10)
            connection.sendall(rendered(
                "POST", NOTIFICATIONS, None, json.dumps({"signedPayload": payload}).encode()))
            sockets.append(connection)
        time.sleep(0.01 * round)
        lab.restart()
        for connection in sockets:
            connection.close()
        # Apple sends a notification again if it gets no response. The test sends all notifications again, some of them
        # twice.
        for payload in sent + sent[:10]:
            notify(lab, payload).expect(200)
        (coins,) = entitlements(lab, ann)
        assert coins["quantity"] == 40 * (round + 1), coins
    assert lab.sql("SELECT count(*), count(DISTINCT uuid) FROM store_notification") == [(160, 160)]
    assert lab.server.integrity() == "ok"


@suite.alone("Apple's few addresses are not counted; whoever sends anything else is", RATE_LIMIT_AUTH="3", RATE_LIMIT_NOTIFICATIONS="5")
def _(lab):
    for _ in range(60):
        notify(lab, lab.store.notification("TEST")).expect(200)
    for _ in range(2):
        notify(lab, "x.y.z").expect(401)
    # Apple signed both of the following payloads, but the first is a transaction, and the second is for another app.
    for _ in range(2):
        notify(lab, lab.store.transaction()).expect(401)
    notify(lab, lab.store.notification("TEST", data={"bundleId": "com.example.other"})).expect(401)
    notify(lab, lab.store.notification("TEST")).expect_problem(429, "rate_limited")


@suite.alone("a purchase window of its own", RATE_LIMIT_PURCHASES="2")
def _(lab):
    buyer = driver()
    for _ in range(2):
        post(lab, buyer, lab.store.transaction()).expect(200)
    answer = post(lab, buyer, lab.store.transaction()).expect_problem(429, "rate_limited")
    assert answer.headers["ratelimit-policy"] == '"purchases";q=2;w=60', answer
    assert len(entitlements(lab, buyer)) == 1


@suite.alone("two apps, and no app", PURCHASE_APPS=f"{BUNDLE_ID}:{APPLE_ID},com.example.second:2")
def _(lab):
    notify(lab, lab.store.notification("TEST", data={"bundleId": "com.example.second", "appAppleId": 2})).expect(200)
    notify(lab, lab.store.notification("TEST", data={"bundleId": "com.example.second"})).expect(401)
    off = lab.start_server("off", PURCHASE_APPS="")
    for method, path, body in (("POST", PURCHASES, {"signed_transaction": "x"}), ("GET", ENTITLEMENTS, None),
                               ("POST", NOTIFICATIONS, {"signedPayload": "x"})):
        lab.call(method, path, body, driver(), server=off).expect_problem(404, "not_found")
    assert "app_account_token" not in lab.me(driver(), server=off).json


@suite.alone("the sandbox only where it is allowed; Xcode's unsigned ones in development", PURCHASE_ENVIRONMENTS="production")
def _(lab):
    buyer, store = driver(), lab.store
    # Xcode writes times with fractions of a millisecond.
    claims = store.transaction_claims(environment="Xcode")
    claims.update({name: claims[name] + 0.25 for name in ("purchaseDate", "originalPurchaseDate", "expiresDate", "signedDate")})
    sandbox, xcode = store.transaction(environment="Sandbox"), Authority().sign(claims)
    post(lab, buyer, sandbox).expect(400)
    post(lab, buyer, xcode).expect(400)
    notify(lab, store.notification("TEST", data={"environment": "Sandbox"})).expect(401)
    open_ = lab.start_server("open", PURCHASE_ENVIRONMENTS="sandbox,xcode")
    for signed, environment in ((sandbox, "sandbox"), (xcode, "xcode")):
        answer = lab.call("POST", PURCHASES, {"signed_transaction": signed}, driver(), server=open_).expect(200)
        assert answer.json["entitlements"][0]["environment"] == environment, answer
    assert lab.call("POST", PURCHASES, {"signed_transaction": store.transaction()}, driver(), server=open_).status == 400
    for wrong in ({"PURCHASE_ENVIRONMENTS": "xcode"}, {}):
        run = lab.dwell("check-config", APP_ENV="production", OTP_DELIVERY="", **wrong)
        assert run.returncode != 0, run
        assert "PURCHASE_ROOT_CERTIFICATE_FILE" in run.stdout + run.stderr, run


suite.main()
