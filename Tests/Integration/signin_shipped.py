#!/usr/bin/env python3
"""Tests the requests of shipped apps, in their order and with their members (contract, sections 3 and 6). The driver
app uses a single token. The v1 web app has a native part, which posts events with the web view's token."""

import secrets
import time

from apple_server import claims_of
from signing_in import Suite, new_phone, other_code

suite = Suite(__doc__)


def expect_success(answer, *members):
    said = answer.expect(200).expect_no_store().json
    assert set(said) == {"success", *members} and said["success"] is True, answer
    return said


def expect_profile(answer, **members):
    user = expect_success(answer, "user")["user"]
    assert set(user) == {"id", "name", "email", "phoneNumber", "role"}, answer
    assert {name: user[name] for name in members} == members, answer
    return user


@suite.check("the driver app: a code, one token, its profile at every launch, a push token, a new token")
def _(lab):
    phone = new_phone()
    lab.phones.add(phone)
    seen = lab.receiver.codes.get(phone)
    expect_success(lab.call("POST", "/api/auth/send-code", {"phoneNumber": phone}), "otp_sent")
    code = lab.receiver.next_code(phone, seen)
    refused = lab.call("POST", "/api/auth/verify-code", {"phoneNumber": phone, "code": other_code(code)})
    assert refused.expect_problem(401, "unauthorized").json["success"] is False, refused
    said = expect_success(lab.call("POST", "/api/auth/verify-code", {"phoneNumber": phone, "code": code}), "token", "user")
    token, user = said["token"], said["user"]
    claims = claims_of(token)
    assert claims["exp"] - claims["iat"] == 30 * 86400 and user["phoneNumber"] == phone, said

    # The app sends these requests at its start. It signs out if one of them does not return 200.
    expect_profile(lab.call("POST", "/api/auth/validate", token=token), id=user["id"])
    expect_profile(lab.call("GET", "/api/drivers/profile", token=token), id=user["id"], name=None, phoneNumber=phone)

    profile = {"name": "Ada", "email": "ada@example.org", "phoneNumber": phone, "vehicle": {"make": "Audi", "year": 2024}}
    expect_profile(lab.call("PUT", "/api/drivers/profile", profile, token), name="Ada", email="ada@example.org")
    expect_profile(lab.call("PUT", "/api/drivers/profile", {"name": "Ada L."}, token), email="ada@example.org")
    expect_profile(lab.call("GET", "/api/drivers/profile", token=token), name="Ada L.", email="ada@example.org")

    push = secrets.token_hex(32)
    device = {"token": push, "platform": "iOS", "deviceId": secrets.token_hex(8)}
    expect_success(lab.call("POST", "/api/push/register-token", device, token))
    expect_success(lab.call("POST", "/api/push/register-token", device, token))
    assert lab.sql("SELECT count(*) FROM device") == [(1,)], "one device, however often it is registered"

    renewed = expect_success(lab.call("POST", "/api/auth/refresh", token=token), "token")["token"]
    expect_profile(lab.call("GET", "/api/drivers/profile", token=renewed), id=user["id"])
    expect_success(lab.call("DELETE", "/api/auth/me", token=renewed), "deleted", "receipt", "deleted_at")
    lab.call("GET", "/api/drivers/profile", token=renewed).expect_problem(401, "unauthorized")


def native_event(name, session=None, **more):
    """Returns an event as the native part of the app writes it. Its times are whole seconds, it has a key of its own,
    and the values in its metadata are strings."""
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    event_id = secrets.token_hex(16).upper()
    return {"schema_version": "1.0", "event_id": event_id, "idempotency_key": event_id, "event": name,
            "occurred_at": now, "timestamp": now, "source": "ios_native",
            **({"session_id": session, "app_state": "background"} if session else {"charger_id": "charger-1"}),
            "metadata": {"previous_state": "IDLE"}, **more}


def visit(lab, token):
    """Posts the events of one visit with one token, as the native part does. Returns the state in the last response."""
    session = secrets.token_hex(16)
    for name in ("charger_targeted", "entered_charger_intent_zone", "anchor_dwell_complete"):
        answer = lab.call("POST", "/v1/native/pre-session-events", native_event(name), token).expect(200)
    for name in ("exclusive_activated", "departed_charger", "entered_merchant_zone", "visit_verified"):
        answer = lab.call("POST", "/v1/native/session-events", native_event(name, session), token).expect(200)
    return answer.json["session"]["state"]


@suite.alone("the v1 web app: a code, a pair, and a token for its native half that outlives a visit",
             ACCESS_TOKEN_TTL_SECONDS="2", METRICS_TOKEN="the-token-of-the-metrics")
def _(lab):
    phone = new_phone()
    lab.phones.add(phone)
    seen = lab.receiver.codes.get(phone)
    started = lab.call("POST", "/v1/auth/otp/start", {"phone": phone}).expect(200).expect_no_store()
    assert started.json == {"otp_sent": True}, started
    code = lab.receiver.next_code(phone, seen)
    lab.call("POST", "/v1/auth/otp/verify", {"phone": phone, "code": other_code(code)}).expect_problem(401, "unauthorized")
    pair = lab.call("POST", "/v1/auth/otp/verify", {"phone": phone, "code": code}).expect_pair()
    claims = claims_of(pair["access_token"])
    assert pair["expires_in"] == claims["exp"] - claims["iat"] == 86400, pair

    # Waits until an access token of /auth has expired. The token of /v1/auth lasts a day, so it is still valid. The
    # native part of the web app uses only this token.
    short = lab.phone_driver()["access_token"]
    time.sleep(max(0, claims_of(short)["exp"] - time.time()) + 0.1)
    lab.expect_refused(short)
    lab.call("GET", "/v1/native/config", token=pair["access_token"]).expect(200)
    assert visit(lab, pair["access_token"]) == "SESSION_ENDED"

    # The app sends this ping inside a zone, in the background. The app reads only the status of the response.
    for path in ("/v1/charging-sessions/background-ping", "/native/background-ping", "/v1/native/background-ping"):
        answer = lab.call("POST", path, {"lat": 52.520008, "lng": 13.404954}, pair["access_token"]).expect(204)
        assert answer.body == b"", answer
        lab.call("POST", path, {"lat": 52.520008, "lng": 13.404954}, short).expect_problem(401, "unauthorized")
    metrics = lab.call("GET", "/metrics", token="the-token-of-the-metrics").expect(200).body.decode()
    assert "\ndwell_background_pings_total 3\n" in metrics, metrics[:3000]
    assert "13.404954" not in lab.log() and "52.520008" not in lab.log(), "a coordinate in the log"

    # The web view refreshes its tokens. This uses up the old refresh token, but the session stays the same.
    renewed = lab.call("POST", "/v1/auth/refresh", {"refresh_token": pair["refresh_token"]}).expect_pair()
    assert renewed["expires_in"] == 86400 and claims_of(renewed["access_token"])["sid"] == claims["sid"], renewed
    short_lived = lab.refresh(renewed["refresh_token"]).expect_pair()
    assert short_lived["expires_in"] == 2, "the other route gives what ACCESS_TOKEN_TTL_SECONDS says"

    # Despite the longer lifetime, a sign-out ends the session at once.
    lab.call("POST", "/auth/logout", token=renewed["access_token"]).expect(204)
    lab.call("POST", "/v1/native/session-events", native_event("departed_charger", "s"), pair["access_token"]
             ).expect_problem(401, "unauthorized")


@suite.alone("V1_ACCESS_TOKEN_TTL_SECONDS is what it says", V1_ACCESS_TOKEN_TTL_SECONDS="7200")
def _(lab):
    phone = new_phone()
    code = lab.code_for(phone)
    pair = lab.call("POST", "/v1/auth/otp/verify", {"phone": phone, "code": code}).expect_pair()
    claims = claims_of(pair["access_token"])
    assert pair["expires_in"] == claims["exp"] - claims["iat"] == 7200, pair


@suite.check("PUT /auth/me replaces the whole profile, PATCH only what it names")
def _(lab):
    driver = lab.phone_driver()
    token = driver["access_token"]

    def expect(method, body, **members):
        said = lab.call(method, "/auth/me", body, token).expect(200).expect_no_store().json
        assert said == {**driver["user"], **members}, said
        assert lab.user(token) == said

    expect("PUT", {"name": "Ada", "email": "ada@example.org"}, name="Ada", email="ada@example.org")
    expect("PATCH", {"name": "Ada L."}, name="Ada L.", email="ada@example.org")
    expect("PUT", {"email": "a@example.org"}, name=None, email="a@example.org")
    expect("PUT", {}, name=None, email=None)
    lab.call("PUT", "/auth/me", {"name": 1}, token).expect_pointers("/name")


@suite.check("the same code does not sign in on two routes")
def _(lab):
    phone = new_phone()
    code = lab.code_for(phone)
    lab.call("POST", "/api/auth/verify-code", {"phoneNumber": phone, "code": code}).expect(200)
    for path, name in (("/auth/otp/verify", "phone"), ("/v1/auth/otp/verify", "phone"), ("/api/auth/verify-code", "phoneNumber")):
        lab.call("POST", path, {name: phone, "code": code}).expect_problem(401, "unauthorized")


suite.main()
