#!/usr/bin/env python3
"""Tests the account (contract, section 6): profile, export, devices, audit and erasure. An erasure signs the driver out
at once and leaves no identifying data in the files. If the driver has many events, it takes several transactions."""

import contextlib
import hashlib
import json
import secrets
import sqlite3
import subprocess
import time

from apple_server import claims_of
from client import token as external_token
from phones import rfc3339
from processes import POSTGRES, wait_until
from signing_in import Suite, at_once, expect_user, new_phone

suite = Suite(__doc__)


def event(key, name="chargerTargeted", **more):
    return {"event_id": key, "event": name, "occurred_at": rfc3339(int(time.time() * 1000)), **more}


def post(lab, pair, key, name="chargerTargeted", **more):
    return lab.call("POST", "/native/events", event(key, name, **more), pair["access_token"]).expect(200)


def word():
    """Returns a word that cannot occur in a file by chance."""
    return secrets.token_hex(12)


# --- profile ------------------------------------------------------------------------------------------------------


@suite.check("me: the user; an external token's driver has an id, and at most a role")
def _(lab):
    pair = lab.apple_driver()
    answer = lab.me(pair["access_token"]).expect(200).expect_no_store()
    expect_user(answer.json, answer)
    user = answer.json
    assert user.pop("app_account_token") and user == pair["user"], answer
    name = f"external-{word()}"
    user = lab.me(external_token(name)).expect(200).json
    assert user["id"] == name and not any(user.get(member) for member in ("name", "email", "phone")), user


@suite.check("PATCH me: sets, leaves, takes away; nothing else is the client's to set")
def _(lab):
    pair = lab.apple_driver()

    def patch(body):
        return lab.call("PATCH", "/auth/me", body, pair["access_token"])

    user = patch({"name": "Zo\u00eb \u5f20", "email": "zoe@example.org"}).expect(200).json
    assert (user["name"], user["email"]) == ("Zo\u00eb \u5f20", "zoe@example.org"), user
    assert patch({"name": "Ann"}).expect(200).json == {**user, "name": "Ann"}
    assert patch({}).expect(200).json == {**user, "name": "Ann"}
    assert patch({"name": None}).expect(200).json.get("name") is None
    after = patch({"role": "admin", "id": "somebody", "phone": "+4915112345678", "sub": "x"})
    if after.status == 200:
        said = after.json
        assert (said["id"], said.get("role"), said.get("phone")) == (user["id"], user.get("role"), None), after
    assert lab.me(pair["access_token"]).json["email"] == "zoe@example.org"
    lab.restart()
    assert lab.me(pair["access_token"]).json["email"] == "zoe@example.org"


@suite.check("PATCH me: what is no name and no email is 400 with pointers")
def _(lab):
    pair = lab.apple_driver()
    for body, pointers in (
            ({"name": 1}, ["/name"]), ({"email": "x"}, ["/email"]), ({"name": "x" * 5000}, ["/name"]),
            ({"name": "a\u0000b"}, ["/name"]), ({"email": "a@b\r\nc@d"}, ["/email"]), ({"email": "a@b@c"}, ["/email"]),
            ({"name": [], "email": {}}, ["/email", "/name"])):
        lab.call("PATCH", "/auth/me", body, pair["access_token"]).expect_pointers(*pointers)
    lab.call("PATCH", "/auth/me", b"[]", pair["access_token"]).expect(400)


# --- export -------------------------------------------------------------------------------------------------------


@suite.check("export: everything held about the driver, nothing of another's, and no secret")
def _(lab):
    subject, push = f"apple.{word()}", word()
    mine = lab.apple_driver(subject, name="Ann Export")
    other = lab.apple_driver(name="Somebody Else")
    session = f"session-{word()}"
    key, note = f"key-{word()}", word()
    post(lab, mine, key, metadata={"note": note})
    post(lab, mine, f"{key}-2", "exclusiveActivatedByWeb", session_id=session)
    post(lab, other, f"key-{word()}", metadata={"note": "another's"})
    device = {"platform": "ios", "environment": "production", "app_version": "2.1"}
    assert lab.call("PUT", f"/native/devices/{push}", device, mine["access_token"]).status in (200, 201, 204)
    answer = lab.call("GET", "/auth/me/export", token=mine["access_token"]).expect(200).expect_no_store()
    text = answer.body.decode()
    json.loads(text)
    for part in (mine["user"]["id"], "Ann Export", subject, key, note, session, push, mine["user"]["email"]):
        assert part in text, f"{part} is not in the export"
    for part in (other["user"]["id"], "Somebody Else", "another's", mine["refresh_token"], mine["access_token"],
                 hashlib.sha256(mine["refresh_token"].encode()).hexdigest()):
        assert part not in text, f"{part} is in the export"
    assert "exported" in [entry["action"] for entry in lab.audit(mine["user"]["id"])]


# --- devices ------------------------------------------------------------------------------------------------------


def devices(lab, pair):
    """Returns the export, because no other route lists the devices."""
    exported = lab.call("GET", "/auth/me/export", token=pair["access_token"]).expect(200).json
    return json.dumps(exported)


DEVICE = {"platform": "ios", "environment": "sandbox", "app_version": "1.0"}


@suite.check("devices: put, put again, delete; one's own only")
def _(lab):
    pair, other, push = lab.apple_driver(), lab.apple_driver(), word()
    path = f"/native/devices/{push}"
    for _ in range(2):
        assert lab.call("PUT", path, DEVICE, pair["access_token"]).status in (200, 201, 204)
    assert push in devices(lab, pair)
    answer = lab.call("DELETE", path, token=other["access_token"])
    assert answer.status in (204, 404), answer
    assert push in devices(lab, pair), "another driver removed it"
    lab.call("DELETE", path, token=pair["access_token"]).expect(204)
    assert push not in devices(lab, pair)
    assert lab.call("DELETE", path, token=pair["access_token"]).status in (204, 404)


@suite.check("devices: moved when another driver signs in on the same phone")
def _(lab):
    first, second, push = lab.apple_driver(), lab.apple_driver(), word()
    lab.call("PUT", f"/native/devices/{push}", DEVICE, first["access_token"])
    lab.call("PUT", f"/native/devices/{push}", DEVICE, second["access_token"])
    assert push not in devices(lab, first) and push in devices(lab, second)
    moved = [entry for entry in lab.audit(first["user"]["id"]) if entry["action"] == "device_removed"]
    assert moved and not moved[0].get("address") and not moved[0].get("request_id"), f"it tells of another driver: {moved}"


@suite.check("devices: gone with their sign-in session, however it ends; those of another session stay")
def _(lab):
    phone = new_phone()
    ends = (
        lambda pair: lab.call("POST", "/auth/logout", token=pair["access_token"]).expect(204),
        lambda pair: lab.call("DELETE", f"/auth/sessions/{claims_of(pair['access_token'])['sid']}",
                              token=pair["access_token"]).expect(204))
    stays = lab.phone_driver(phone)
    kept = word()
    lab.call("PUT", f"/native/devices/{kept}", DEVICE, stays["access_token"])
    for end in ends:
        pair, push = lab.phone_driver(phone), word()
        lab.call("PUT", f"/native/devices/{push}", DEVICE, pair["access_token"])
        assert push in devices(lab, stays)
        end(pair)
        said = devices(lab, stays)
        assert push not in said and kept in said


@suite.check("devices: what is no token or no device is refused with pointers")
def _(lab):
    pair = lab.apple_driver()
    for push in ("x" * 513, "a%20b", "a%00b", "%C3%A9", "a%2Fb"):
        answer = lab.call("PUT", f"/native/devices/{push}", DEVICE, pair["access_token"])
        assert answer.status in (400, 404), answer
    lab.call("PUT", f"/native/devices/{'x' * 512}", DEVICE, pair["access_token"])
    path = f"/native/devices/{word()}"
    lab.call("PUT", path, {}, pair["access_token"]).expect(400)
    for member in ("platform", "environment"):
        lab.call("PUT", path, {**DEVICE, member: 1}, pair["access_token"]).expect_pointers(f"/{member}")
        lab.call("PUT", path, {**DEVICE, member: "x" * 500}, pair["access_token"]).expect_pointers(f"/{member}")
    lab.call("PUT", path, {**DEVICE, "app_version": "x" * 500}, pair["access_token"]).expect_pointers("/app_version")


# --- the audit ----------------------------------------------------------------------------------------------------


@suite.check("the audit: who, what, when, from where and how it ended, of every action; no number, no address of mail")
def _(lab):
    phone = new_phone()
    lab.verify_code(phone, "000000")
    pair = lab.phone_driver(phone)
    request_id = f"audit-{word()}"
    lab.call("PATCH", "/auth/me", {"name": "Ann", "email": f"{word()}@example.org"}, pair["access_token"],
             headers={"X-Request-Id": request_id}).expect(200)
    lab.refresh(pair["refresh_token"]).expect(200)
    push = word()
    lab.call("PUT", f"/native/devices/{push}", DEVICE, pair["access_token"])
    lab.call("DELETE", f"/native/devices/{push}", token=pair["access_token"])
    lab.call("GET", "/auth/me/export", token=pair["access_token"])
    lab.call("POST", "/auth/logout", token=pair["access_token"])
    entries = lab.audit(pair["user"]["id"])
    actions = [entry["action"] for entry in reversed(entries)]
    expected = ["sign_in_otp", "profile_changed", "refresh", "device_added", "device_removed", "exported", "sign_out"]
    assert [action for action in actions if action in expected] == expected, actions
    changed = next(entry for entry in entries if entry["action"] == "profile_changed")
    assert changed["request_id"] == request_id and changed["outcome"] == "done", changed
    assert changed["address"] == "127.0.0.1" and changed["driver"] == pair["user"]["id"], changed
    assert changed["sid"] == claims_of(pair["access_token"])["sid"], changed
    text = json.dumps(lab.sql("SELECT * FROM audit"), default=bytes.hex)
    for part in (phone, phone.lstrip("+"), "@example.org", "Ann", push):
        assert part not in text, f"{part} is in the audit"
    assert lab.dwell("audit", "--driver", pair["user"]["id"]).returncode == 0
    limited = lab.dwell("audit", "--driver", pair["user"]["id"], "--json", "--limit", "1")
    assert limited.returncode == 0 and "sign_out" in limited.stdout and "exported" not in limited.stdout, limited
    nobody = lab.dwell("audit", "--driver", "nobody", "--json")
    assert nobody.returncode == 1 and json.loads(nobody.stdout)["entries"] == [], nobody


@suite.alone("the audit has the refusals too: codes, tokens, sends", OTP_SENDS_PER_NUMBER="1")
def _(lab):
    before = lab.sql("SELECT coalesce(max(id), 0) FROM audit")[0][0]
    phone = new_phone()
    lab.verify_code(phone, "000000").expect(401)
    lab.present("x.y.z", "nonce").expect(401)
    lab.refresh("unknown").expect(401)
    lab.start_code(phone).expect(200)
    lab.start_code(phone).expect_problem(429, "rate_limited")
    rows = lab.sql("SELECT action, outcome FROM audit WHERE id > ? ORDER BY id", before)
    assert rows == [("sign_in_otp", "refused"), ("sign_in_apple", "refused"), ("refresh", "refused"),
                    ("otp_send", "done"), ("otp_send", "refused")], rows


# --- erasure ------------------------------------------------------------------------------------------------------


def erase(lab, pair, body=None):
    return lab.call("DELETE", "/auth/me", {"confirm": True} if body is None else body, pair["access_token"])


@suite.check("deletion wants its confirmation, in so many words")
def _(lab):
    pair = lab.apple_driver()
    for body in ({}, {"confirm": False}, {"confirm": "true"}, {"confirm": 1}, {"confirm": None}, {"confirmed": True}):
        erase(lab, pair, body).expect_pointers("/confirm")
    assert lab.call("DELETE", "/auth/me", token=pair["access_token"]).status in (400, 415)
    assert lab.call("DELETE", "/auth/me?confirm=true", token=pair["access_token"]).status in (400, 415)
    lab.expect_alive(pair["access_token"])


@suite.check("deletion: a receipt, and every token is refused from then on, over kill -9 too")
def _(lab):
    phone = new_phone()
    here, there = lab.phone_driver(phone), lab.phone_driver(phone)
    newer = lab.refresh(there["refresh_token"]).expect_pair()
    receipt = erase(lab, here).expect(200).expect_no_store().json
    assert receipt["deleted"] is True and isinstance(receipt["receipt"], str) and receipt["deleted_at"], receipt
    for _ in range(2):
        for pair in (here, there, newer):
            lab.expect_refused(pair["access_token"])
            lab.refresh(pair["refresh_token"]).expect_problem(401, "unauthorized")
            for method, path in (("GET", "/native/session"), ("GET", "/auth/me/export"), ("GET", "/auth/sessions")):
                lab.call(method, path, token=pair["access_token"]).expect_problem(401, "unauthorized")
        lab.call("POST", "/native/events", event("late"), here["access_token"]).expect_problem(401, "unauthorized")
        erase(lab, here).expect_problem(401, "unauthorized")
        lab.restart()


@suite.check("deletion: a reader that stays, such as a backup, holds up nobody else", on=["sqlite"])
def _(lab):
    def seconds(name):
        pair, begun = lab.apple_driver(), time.monotonic()
        for number in range(40):
            post(lab, pair, f"{name}-{number}")
        return time.monotonic() - begun

    before = seconds("before")
    with contextlib.closing(sqlite3.connect(lab.server.database_path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM event").fetchone()
        erase(lab, lab.apple_driver()).expect(200)
        after = seconds("after")
    # A reader of the database prevents the truncation of the WAL. If each of the forty events waited a tenth of a
    # second for the truncation, they would take four seconds longer.
    assert after < 3 * before + 2, (before, after)


@suite.check("deletion: the same person signs in again as somebody new")
def _(lab):
    subject, phone = f"apple.{word()}", new_phone()
    apple, otp = lab.apple_driver(subject, name="Old Name"), lab.phone_driver(phone)
    post(lab, apple, "old-key")
    erase(lab, apple).expect(200)
    erase(lab, otp).expect(200)
    again = lab.apple_driver(subject)
    assert again["user"]["id"] != apple["user"]["id"] and again["user"].get("name") is None, again["user"]
    assert lab.phone_driver(phone)["user"]["id"] != otp["user"]["id"]
    assert lab.call("GET", "/native/session", token=again["access_token"]).expect(200).json["state"] == "IDLE"


@suite.check("deletion of a driver of another service: its tokens of that second are refused, a later one starts anew")
def _(lab):
    name = f"external-{word()}"
    token, ahead = external_token(name), external_token(name, ahead_seconds=58)
    lab.call("POST", "/native/events", event(word()), token).expect(200)
    lab.call("POST", "/native/events", event(word()), ahead).expect(200)
    lab.call("DELETE", "/auth/me", {"confirm": True}, token).expect(200)
    same_second = external_token(name, 7100)
    lab.expect_refused(token)
    if claims_of(same_second)["iat"] == claims_of(token)["iat"]:
        lab.expect_refused(same_second)
    lab.restart()
    lab.expect_refused(token)
    wait_until(lambda: lab.me(external_token(name)).status == 200, 120, "a later token of that driver")
    later = external_token(name)
    assert lab.call("GET", "/native/sessions", token=later).expect(200).json["sessions"] == []
    lab.expect_refused(token)
    lab.expect_refused(ahead)


@suite.check("deletion at the same time as events: what comes after is refused, and leaves nobody behind")
def _(lab):
    for _ in range(5):
        pair = lab.apple_driver()
        key = word()

        def send(index):
            return lambda: [lab.call("POST", "/native/events", event(f"{key}-{index}-{number}"), pair["access_token"]).status
                            for number in range(10)]

        results = at_once(*[send(index) for index in range(4)], lambda: erase(lab, pair).status)
        assert results[-1] == 200 and {status for sent in results[:-1] for status in sent} <= {200, 401}, results
        for sent in results[:-1]:
            assert 401 not in sent or set(sent[sent.index(401):]) == {401}, results
        lab.expect_refused(pair["access_token"])
        assert lab.sql("SELECT count(*) FROM driver WHERE driver_id = ?", pair["user"]["id"]) == [(0,)]


@suite.alone("deletion leaves nothing that identifies in the files, and events without a link to a person",
             exchanging=True)
def _(lab):
    subject, phone = f"apple.{word()}", new_phone()
    name, email, push = f"Name {word()}", f"{word()}@example.org", f"push-{word()}"
    key, session, note, agent = f"key-{word()}", f"session-{word()}", word(), f"Agent/{word()}"
    request_id = f"request-{word()}"
    nonce = word()
    identity = lab.apple.identity_token(subject, nonce, email=email, email_verified=True)
    apple = lab.present(
        identity, nonce, {"name": name, "authorization_code": lab.apple.authorization_code(subject)},
        headers={"User-Agent": agent, "X-Request-Id": request_id}).expect_pair()
    otp = lab.phone_driver(phone)
    counts = []
    for pair in (apple, otp):
        post(lab, pair, f"{key}-{pair['user']['id']}", metadata={"note": note, "lat": 52.1})
        post(lab, pair, f"{key}-a-{pair['user']['id']}", "exclusiveActivatedByWeb",
             session_id=f"{session}-{pair['user']['id']}")
        lab.call("POST", "/native/sessions", {"session_id": f"{session}-r-{pair['user']['id']}"}, pair["access_token"])
        lab.call("PUT", f"/native/devices/{push}-{pair['user']['id']}", DEVICE, pair["access_token"])
        lab.call("PATCH", "/auth/me", {"name": name}, pair["access_token"]).expect(200)
        counts.append(lab.sql(
            "SELECT count(*) FROM event JOIN driver ON driver.id = event.driver WHERE driver_id = ?", pair["user"]["id"]))
    events = lab.sql("SELECT count(*) FROM event")
    identifying = [subject, phone, phone.lstrip("+"), name, email, push, key, session, note, agent, request_id,
                   apple["user"]["id"], otp["user"]["id"]]
    identifying += [claims_of(pair["access_token"])["sid"] for pair in (apple, otp)]
    # The audit has a line for each sent code, with the address of the request. The first line is older than the
    # driver's account. The deletion must remove the address from this line too.
    assert lab.sql("SELECT count(*) FROM audit WHERE action = 'otp_send' AND address IS NOT NULL") != [(0,)]
    before = b"".join(lab.bytes_on_disk().values())
    assert POSTGRES or all(part.encode() in before for part in (subject, phone, name, push, key, session, note, agent)), "found nothing"
    receipts = [erase(lab, pair).expect(200).json["receipt"] for pair in (apple, otp)]
    expect_erased(lab, identifying)
    assert lab.sql("SELECT count(*) FROM audit WHERE action = 'otp_send' AND address IS NOT NULL") == [(0,)]
    assert lab.sql("SELECT count(*) FROM event") == events and counts == [[(2,)], [(2,)]], (events, counts)
    for number, (receipt, pair) in enumerate(zip(receipts, (apple, otp))):
        run = lab.dwell("verify-erased", "--driver", pair["user"]["id"])
        assert run.returncode == 0, run
        run = lab.dwell("verify-erased", "--receipt", receipt)
        assert run.returncode == 0, run
        rows = lab.sql("SELECT count(*) FROM audit WHERE reason = ?", receipt)
        assert rows == [(1,)], (number, rows)
    lab.restart(clean=True)
    expect_erased(lab, identifying)


def expect_erased(lab, identifying):
    for file, content in lab.bytes_on_disk().items():
        for part in identifying:
            at = content.find(part.encode())
            assert at < 0, f"{part} is left in {file}: {content[max(0, at - 60):at + 60]}"


@suite.check("verify-erased finds what is left")
def _(lab):
    pair = lab.apple_driver()
    run = lab.dwell("verify-erased", "--driver", pair["user"]["id"])
    assert run.returncode == 1, run
    phone = new_phone()
    lab.phone_driver(phone)
    gone = lab.apple_driver()
    erase(lab, gone).expect(200)
    run = lab.dwell("verify-erased", "--driver", gone["user"]["id"], "--phone", phone)
    assert run.returncode == 1, run
    assert lab.dwell("verify-erased", "--driver", gone["user"]["id"]).returncode == 0


@contextlib.contextmanager
def holding_last_event(lab, driver):
    """Makes a deletion last long enough to be observed. On PostgreSQL, the deletion waits for another session's lock on
    the driver's last event. On SQLite, a deletion is slow enough without a lock."""
    if not POSTGRES:
        yield
        return
    url = lab.server.database_url
    statement = f"""BEGIN; SELECT 1 FROM event JOIN driver ON driver.id = event.driver WHERE driver_id = '{driver}'
        ORDER BY seq DESC LIMIT 1 FOR UPDATE OF event; SELECT pg_sleep(600)"""
    holder = subprocess.Popen(["psql", "-Xq", "-d", f"{url}?application_name=holder", "-c", statement],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    sleeping = "SELECT pid FROM pg_stat_activity WHERE application_name = 'holder' AND wait_event = 'PgSleep'"
    try:
        wait_until(lambda: lab.sql(sleeping), 30, "the lock of the last event")
        yield
    finally:
        lab.sql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'holder'")
        holder.wait()


@suite.check("erasure of many events over kill -9 between two pieces: the next start completes it")
def _(lab):
    pair, other = lab.apple_driver(), lab.apple_driver()
    name = word()
    for start in range(0, 12_000, 500):
        events = [event(f"{name}-{number}", "seen_again", metadata={"plate": name}) for number in range(start, start + 500)]
        lab.call("POST", "/native/events/batch", {"events": events}, pair["access_token"]).expect(200)

    def unfinished():
        return lab.sql("SELECT count(*) FROM erasure")[0][0]

    def ask():
        try:
            return erase(lab, pair).status
        except (ConnectionError, OSError):
            return None

    def kill():
        wait_until(lambda: unfinished() == 1, 10, "the beginning of the deletion")
        # Other requests do not wait for the deletion, and the driver is already signed out.
        post(lab, other, word())
        lab.expect_refused(pair["access_token"])
        lab.server.kill()

    with holding_last_event(lab, pair["user"]["id"]):
        status, _ = at_once(ask, kill)
    assert status is None, status
    run = lab.dwell("verify-erased", "--driver", pair["user"]["id"])
    assert run.returncode == 1 and "not complete" in run.stdout, run
    assert unfinished() == 1
    run = lab.dwell("check")
    assert run.returncode == 0 and "1 driver not completely deleted" in run.stdout, run
    lab.server.start()
    lab.expect_refused(pair["access_token"])
    lab.call("POST", "/native/events", event("late"), pair["access_token"]).expect_problem(401, "unauthorized")
    wait_until(lambda: unfinished() == 0, 30, "the end of the deletion")
    wait_until(lambda: lab.dwell("verify-erased", "--driver", pair["user"]["id"], "--text", name).returncode == 0,
               10, "the end of the last byte")
    receipt = lab.sql("SELECT reason FROM audit WHERE action = 'erased' ORDER BY id DESC LIMIT 1")[0][0]
    run = lab.dwell("verify-erased", "--receipt", receipt)
    assert run.returncode == 0, run
    run = lab.dwell("check")
    assert run.returncode == 0 and "not completely" not in run.stdout, run


@suite.check("erasure over kill -9: it is whole or not at all")
def _(lab):
    for _ in range(5):
        pair = lab.apple_driver()
        for number in range(20):
            post(lab, pair, f"{word()}-{number}")

        def kill():
            time.sleep(0.005)
            lab.server.kill()

        def ask():
            try:
                return erase(lab, pair).status
            except (ConnectionError, OSError):
                return None

        status, _ = at_once(ask, kill)
        lab.server.start()
        refused = lab.me(pair["access_token"]).status == 401
        rows = lab.sql("SELECT count(*) FROM driver WHERE driver_id = ?", pair["user"]["id"])[0][0]
        assert refused == (rows == 0), (status, refused, rows)
        assert status != 200 or refused, "acknowledged, and undone by the crash"


suite.main()
