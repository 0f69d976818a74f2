#!/usr/bin/env python3
"""Tests every route of openapi.json, except those for operators. Sends every kind of invalid credential, and requests
another driver's data with a valid credential. The test fails if a route has no entry in CASES.

(PageTests checks that openapi.json has every route.)"""

import dataclasses
import json
import secrets
import time
import typing

from apple_server import claims_of
from phones import rfc3339
from signing_in import GARBAGE, Suite, resigned

suite = Suite(__doc__)


# --- the cases ----------------------------------------------------------------------------------------------------


def event(driver, **more):
    return {"event_id": secrets.token_hex(8), "event": "sessionRestored", "session_id": driver["session"],
            "occurred_at": rfc3339(int(time.time() * 1000)), "timestamp": rfc3339(int(time.time() * 1000)), **more}


def pre_session_event(driver):
    return {**event(driver, event="chargerTargeted"), "session_id": None}


def ping(driver):
    return {"lat": 52.5, "lng": 13.4}


@dataclasses.dataclass
class Case:
    """A request for a route, and the expected results. `body` takes a driver. The path and the body name this driver's
    data."""
    body: typing.Callable = lambda driver: None
    # Whether the route needs a driver's access token.
    driver: bool = True
    # The status for a request that names another driver's data. None: the request cannot name such data.
    others: typing.Optional[int] = None
    streams: bool = False
    # The status if the server rejects this request even with a valid token. None: the server accepts the request.
    refused: typing.Optional[int] = None


ANYONE = Case(driver=False)
CASES = {
    "POST /native/events": Case(event, others=404),
    "POST /native/events/batch": Case(lambda driver: {"events": [event(driver)]}, others=200),
    "POST /native/sessions": Case(lambda driver: {"session_id": driver["session"]}, others=404),
    "GET /native/sessions": Case(),
    "GET /native/sessions/{session_id}": Case(others=404),
    "POST /native/sessions/{session_id}/verify": Case(lambda driver: {"code": "123456"}, others=404, refused=409),
    # Only services may use this route, so a driver's token gets 403. services.bats and verification_codes.bats test the
    # route with a service's token.
    "POST /native/sessions/{session_id}/verification-code": Case(others=403, refused=403),
    "GET /native/session": Case(),
    "GET /native/session/stream": Case(streams=True),
    "GET /native/config": Case(),
    "POST /v1/native/session-events": Case(event, others=404),
    "POST /v1/native/pre-session-events": Case(pre_session_event),
    "GET /v1/native/config": Case(),
    "POST /native/background-ping": Case(ping),
    "POST /v1/native/background-ping": Case(ping),
    "POST /v1/charging-sessions/background-ping": Case(ping),
    "PUT /native/devices/{token}": Case(lambda driver: {"platform": "ios", "environment": "sandbox", "app_version": "1"}),
    "DELETE /native/devices/{token}": Case(others=204),
    "POST /native/purchases": Case(lambda driver: {"signed_transaction": driver["purchase"]}, others=409),
    "PUT /native/purchases/consent": Case(lambda driver: {"consumption": False}),
    "GET /native/entitlements": Case(),

    "POST /auth/apple": Case(lambda driver: {"identity_token": "x", "nonce": "n"}, driver=False),
    "POST /auth/otp/start": Case(lambda driver: {"phone": "+4915112345678"}, driver=False),
    "POST /auth/otp/verify": Case(lambda driver: {"phone": "+4915112345678", "code": "000000"}, driver=False),
    "POST /auth/refresh": Case(lambda driver: {"refresh_token": "x"}, driver=False),
    "POST /auth/logout": Case(lambda driver: {"refresh_token": driver["refresh_token"]}, others=204),
    "GET /auth/sessions": Case(),
    "DELETE /auth/sessions/{id}": Case(others=404),
    "GET /auth/me": Case(),
    "PATCH /auth/me": Case(lambda driver: {"name": "Ann"}),
    "PUT /auth/me": Case(lambda driver: {"name": "Ann"}),
    "DELETE /auth/me": Case(lambda driver: {"confirm": True}),
    "GET /auth/me/export": Case(),
    "POST /apple/notifications": Case(lambda driver: {"payload": "x"}, driver=False),
    "POST /apple/store-notifications": Case(lambda driver: {"signedPayload": "x"}, driver=False),
    "GET /.well-known/jwks.json": ANYONE,
    "GET /.well-known/apple-app-site-association": ANYONE,
    "GET /.well-known/assetlinks.json": ANYONE,
    "GET /privacy": ANYONE,
    "GET /terms": ANYONE,
    "GET /support": ANYONE,

    "POST /v1/auth/otp/start": Case(lambda driver: {"phone": "+4915112345679"}, driver=False),
    "POST /v1/auth/otp/verify": Case(lambda driver: {"phone": "+4915112345679", "code": "000000"}, driver=False),
    "POST /v1/auth/refresh": Case(lambda driver: {"refresh_token": "x"}, driver=False),

    "POST /api/auth/apple": Case(lambda driver: {"identity_token": "x", "nonce": "n"}, driver=False),
    # Clients of /api/auth have a single token, and this route accepts it. Other clients have a pair of an access token
    # and a refresh token, and this route accepts neither.
    "POST /api/auth/refresh": Case(),
    "POST /api/auth/validate": Case(),
    "GET /api/auth/me": Case(),
    "DELETE /api/auth/me": Case(),
    "POST /api/auth/send-code": Case(lambda driver: {"phoneNumber": "+4915112345670"}, driver=False),
    "POST /api/auth/verify-code": Case(lambda driver: {"phoneNumber": "+4915112345670", "code": "000000"}, driver=False),
    "GET /api/drivers/profile": Case(),
    "PUT /api/drivers/profile": Case(lambda driver: {"name": "Ann"}),
    "POST /api/push/register-token": Case(lambda driver: {"token": driver["push"][-12:], "platform": "ios"}),

    "GET /healthz": ANYONE,
    "GET /openapi.json": ANYONE,
    "GET /docs": ANYONE,
}
# Routes for operators use their own token, or none. operator.bats and operation.bats test them.
OPERATORS = ("/ops", "/metrics", "/readyz")


def described(lab):
    paths = lab.call("GET", "/openapi.json").expect(200).json["paths"]
    return {f"{method.upper()} {path}" for path, item in paths.items() for method in item
            if method in ("get", "put", "post", "delete", "patch") and not path.startswith(OPERATORS)}


def routes():
    """Returns (route, case) for each route. The first check of the suite compares these routes with openapi.json."""
    return CASES.items()


def place(path, driver):
    parts = {"{session_id}": driver["session"], "{token}": driver["push"], "{id}": driver["sid"], "{sid}": driver["sid"]}
    for name, value in parts.items():
        path = path.replace(name, value)
    assert "{" not in path, f"{path}: signin_routes.py does not know that part"
    return path


def somebody(lab):
    """Returns a signed-in driver with a session, a device, a purchase and a name."""
    driver = lab.apple_driver(name=f"Name {secrets.token_hex(6)}")
    driver |= {"sid": claims_of(driver["access_token"])["sid"], "session": f"session-{secrets.token_hex(6)}",
               "push": f"push-{secrets.token_hex(6)}", "purchase": lab.store.transaction()}
    token = driver["access_token"]
    lab.call("POST", "/native/sessions", {"session_id": driver["session"]}, token).expect(201)
    lab.call("POST", "/native/purchases", {"signed_transaction": driver["purchase"]}, token).expect(200)
    lab.call("PUT", f"/native/devices/{driver['push']}",
             {"platform": "ios", "environment": "sandbox", "app_version": "1"}, token)
    return driver


def ask(lab, route, case, named, token, headers=None):
    method, path = route.split(" ")
    return lab.call(method, place(path, named), case.body(named), token, headers)


# --- the checks ---------------------------------------------------------------------------------------------------


@suite.check("every route has a case here, and every case is a route")
def _(lab):
    found = described(lab)
    assert not found - set(CASES), f"no case in signin_routes.py for {sorted(found - set(CASES))}"
    assert not set(CASES) - found, f"openapi.json does not name {sorted(set(CASES) - found)}"


def refused_tokens(lab):
    """Yields (description, token). None of the tokens is valid."""
    now = int(time.time())
    good = lab.apple_driver()["access_token"]
    revoked, everywhere, deleted = (lab.apple_driver()["access_token"] for _ in range(3))
    lab.call("POST", "/auth/logout", token=revoked).expect(204)
    lab.call("POST", "/auth/logout?all=true", token=everywhere).expect(204)
    lab.call("DELETE", "/auth/me", {"confirm": True}, deleted).expect(200)
    yield "no token", None
    for text in GARBAGE:
        yield f"garbage {text[:12]}", text
    yield "expired", resigned(good, iat=now - 7200, exp=now - 3600)
    yield "of a session that was signed out", revoked
    yield "of a driver who signed out everywhere", everywhere
    yield "of a deleted driver", deleted
    yield "of an unknown session", resigned(good, sid="unknown")
    yield "with another driver's session", resigned(good, sid=claims_of(lab.apple_driver()["access_token"])["sid"])
    yield "torn", good[:-2]


@suite.check("a driver's routes refuse every token that is not good: 401, and nothing else is said")
def _(lab):
    mine = somebody(lab)
    wrong = []
    for what, token in refused_tokens(lab):
        for route, case in routes():
            if not case.driver:
                continue
            try:
                answer = ask(lab, route, case, mine, token).expect_problem(401, "unauthorized")
                assert answer.headers.get("www-authenticate", "").startswith("Bearer"), answer
                said = answer.body.decode()
                assert not any(mine[name] in said for name in ("session", "push", "sid")), answer
                assert not route.split(" ")[1].startswith("/api/") or answer.json["success"] is False, answer
            except AssertionError as error:
                wrong.append(f"{what}: {error}")
    assert not wrong, "\n".join(wrong)
    lab.expect_alive(mine["access_token"])


@suite.check("a driver's routes let a good token in")
def _(lab):
    wrong = []
    for route, case in routes():
        if not case.driver or case.streams or route == "POST /api/auth/refresh":
            continue
        mine = somebody(lab)
        answer = ask(lab, route, case, mine, mine["access_token"])
        if answer.status not in ((case.refused,) if case.refused else (200, 201, 204)):
            wrong.append(str(answer))
    assert not wrong, "\n".join(wrong)


@suite.check("with a good token, another driver's things are not there, are not told, and stay as they are")
def _(lab):
    wrong = []
    theirs = somebody(lab)
    before = standing(lab, theirs)
    for route, case in routes():
        # A push token belongs to a phone. If another driver registers it, the token moves to that driver
        # (signin_accounts.py).
        if not case.driver or case.streams or route.startswith("PUT /native/devices"):
            continue
        mine = somebody(lab)
        answer = ask(lab, route, case, theirs, mine["access_token"])
        said = answer.body.decode()
        if case.others is not None and answer.status != case.others:
            wrong.append(f"{case.others} expected. {answer}")
        if "/batch" in route and answer.status == 200 and answer.json["results"][0]["status_code"] != 404:
            wrong.append(str(answer))
        if any(part in said for part in (theirs["user"]["id"], theirs["user"]["name"], theirs["access_token"])):
            wrong.append(f"it tells of another driver. {answer}")
        if case.others == 404:
            nobody = {**theirs, "session": "session-of-nobody", "sid": "sid-of-nobody", "push": "push-of-nobody"}
            if not route.startswith("POST"):
                unknown = ask(lab, route, case, nobody, mine["access_token"])
                if {**unknown.json, "request_id": ""} != {**answer.json, "request_id": ""}:
                    wrong.append(f"another's is not as if it did not exist: {answer} {unknown}")
        after = standing(lab, theirs)
        if after != before:
            wrong.append(f"{route} changed what is another driver's: {before} {after}")
            before = after
    assert not wrong, "\n".join(wrong)


def standing(lab, driver):
    """Returns the driver's exported data as JSON, without the audit and the time of the export. If the export fails,
    returns the status as text."""
    exported = lab.call("GET", "/auth/me/export", token=driver["access_token"])
    if exported.status != 200:
        return str(exported.status)
    document = exported.json
    document.pop("exported_at", None)
    document.pop("audit", None)
    return json.dumps(document, sort_keys=True)


@suite.check("open routes do not care for a token, whatever it is")
def _(lab):
    wrong = []
    tokens = list(refused_tokens(lab))[1:]
    nobody = {"session": "", "push": "", "sid": "", "refresh_token": ""}
    for route, case in routes():
        if case.driver:
            continue
        expected = ask(lab, route, case, nobody, None).status
        for what, token in tokens:
            status = ask(lab, route, case, nobody, token).status
            # The loop requests and guesses many codes for one phone number, so some requests get 429, not the expected
            # status.
            if status != expected and 429 not in (status, expected):
                wrong.append(f"{route} with {what}: {status} instead of {expected}")
    assert not wrong, "\n".join(wrong)


@suite.check("every answer of /auth and /api/auth says no-store, refusals too")
def _(lab):
    wrong = []
    for route, case in routes():
        if "/auth/" not in route:
            continue
        mine = somebody(lab)
        for token in (mine["access_token"], "x"):
            answer = ask(lab, route, case, mine, token)
            if "no-store" not in answer.headers.get("cache-control", ""):
                wrong.append(str(answer))
    assert not wrong, "\n".join(wrong)


suite.main()
