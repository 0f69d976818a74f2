#!/usr/bin/env python3
"""Tests sign-in sessions (contract, section 6): refresh, sign-out, the list of sessions, single tokens of shipped
clients, and published keys. Some tests use kill -9, races, or a second server."""

import collections
import datetime
import functools
import hashlib
import secrets
import socket
import time

from apple_server import (
    base64url, claims_of, compact, es256_key_file, es256_public_key, from_base64url, has_es256_signature, header_of, hs256,
    jws, no_signature)
from client import SECRET, rendered
from client import token as external_token
from processes import wait_until
from signing_in import GARBAGE, Suite, at_once, new_phone, other_code, resigned, same_refusal

suite = Suite(__doc__)
DAY = 86_400
# The time for which a client may present a used refresh token again.
REPEAT_SECONDS = 10
# The end of a chunked body (RFC 9112, section 7.1).
LAST_CHUNK = b"0\r\n\r\n"


# --- refresh ------------------------------------------------------------------------------------------------------


@suite.check("refresh: a new pair of the same session; the tokens of before stay good until they end by themselves")
def _(lab):
    first = lab.apple_driver()
    second = lab.refresh(first["refresh_token"]).expect_pair()
    assert second["refresh_token"] != first["refresh_token"] and second["access_token"] != first["access_token"]
    one, other = claims_of(first["access_token"]), claims_of(second["access_token"])
    assert (one["sid"], one["sub"]) == (other["sid"], other["sub"]) and one["jti"] != other["jti"], (one, other)
    assert second["user"] == first["user"]
    for pair in (first, second):
        lab.expect_alive(pair["access_token"])
    lab.refresh(second["refresh_token"]).expect_pair()


@suite.check("a lost answer: the spent token again within ten seconds gets the same successor, which works")
def _(lab):
    first = lab.apple_driver()
    lost = lab.refresh(first["refresh_token"]).expect_pair()
    again = lab.refresh(first["refresh_token"]).expect_pair()
    assert lost["refresh_token"] == again["refresh_token"] != first["refresh_token"]
    assert len({claims_of(pair["access_token"])["sid"] for pair in (first, lost, again)}) == 1
    for pair in (lost, again):
        lab.refresh(pair["refresh_token"]).expect_pair()
    lab.expect_alive(first["access_token"])


@suite.check("a race: requests with the same token all succeed, in one session")
def _(lab):
    for count in (2, 2, 2, 8):
        first = lab.apple_driver()
        answers = at_once(*[lambda: lab.refresh(first["refresh_token"]) for _ in range(count)])
        pairs = [answer.expect_pair() for answer in answers]
        assert len({pair["refresh_token"] for pair in pairs}) == 1, "siblings"
        spent, live = lab.sql("SELECT count(spent_at_ms), count(*) - count(spent_at_ms) FROM refresh_token WHERE session ="
                              " (SELECT id FROM sign_in_session WHERE sid = ?)", claims_of(first["access_token"])["sid"])[0]
        assert (spent, live) == (1, 1), (spent, live)
        assert {claims_of(pair["access_token"])["sid"] for pair in pairs} == {claims_of(first["access_token"])["sid"]}
        lab.refresh(pairs[-1]["refresh_token"]).expect_pair()


@suite.check("a lost answer over kill -9: the phone goes on")
def _(lab):
    for _ in range(5):
        first = lab.apple_driver()
        started = time.monotonic()
        lab.refresh(first["refresh_token"]).expect_pair()
        lab.restart()
        answer = lab.refresh(first["refresh_token"])
        # The second refresh must come within ten seconds of the first. If a slow machine took longer, the loop tries
        # again.
        if time.monotonic() - started < REPEAT_SECONDS:
            break
    pair = answer.expect_pair()
    lab.restart()
    lab.refresh(pair["refresh_token"]).expect_pair()


@suite.check("reuse: the spent token after ten seconds ends the whole session, also over kill -9, and is in the audit")
def _(lab):
    thief, bystander, restarted = lab.apple_driver(), lab.apple_driver(), lab.apple_driver()
    phone = new_phone()
    mine, other_device = lab.phone_driver(phone), lab.phone_driver(phone)
    descendants = {}
    for name, pair in (("thief", thief), ("mine", mine), ("restarted", restarted)):
        descendants[name] = lab.refresh(lab.refresh(pair["refresh_token"]).expect_pair()["refresh_token"]).expect_pair()
    time.sleep(REPEAT_SECONDS + 0.5)
    lab.refresh(thief["refresh_token"]).expect_problem(401, "unauthorized")
    lab.refresh(mine["refresh_token"]).expect_problem(401, "unauthorized")
    for name, pair in (("thief", thief), ("mine", mine)):
        lab.expect_refused(pair["access_token"])
        lab.expect_refused(descendants[name]["access_token"])
        lab.refresh(descendants[name]["refresh_token"]).expect_problem(401, "unauthorized")
    entries = [entry for entry in lab.audit(thief["user"]["id"]) if entry["action"] == "refresh_reuse"]
    assert entries and entries[0]["outcome"] == "refused", entries
    # The other phone of the same person, `other_device`, stays signed in, and so do other drivers.
    lab.expect_alive(other_device["access_token"])
    lab.refresh(other_device["refresh_token"]).expect_pair()
    lab.expect_alive(bystander["access_token"])
    lab.restart()
    lab.refresh(restarted["refresh_token"]).expect_problem(401, "unauthorized")
    lab.expect_refused(descendants["restarted"]["access_token"])
    lab.restart()
    for pair in (thief, mine, restarted):
        lab.expect_refused(pair["access_token"])


@suite.check("reuse while the rightful one refreshes: the session ends for both")
def _(lab):
    first = lab.apple_driver()
    newest = lab.refresh(first["refresh_token"]).expect_pair()
    time.sleep(REPEAT_SECONDS + 0.5)
    at_once(lambda: lab.refresh(first["refresh_token"]), lambda: lab.refresh(newest["refresh_token"]))
    lab.expect_refused(newest["access_token"])
    lab.refresh(newest["refresh_token"]).expect_problem(401, "unauthorized")


@suite.check("attack: refresh tokens that are none: one identical answer")
def _(lab):
    pair, ended, erased = lab.apple_driver(), lab.apple_driver(), lab.apple_driver()
    lab.call("POST", "/auth/logout", token=ended["access_token"]).expect(204)
    lab.call("DELETE", "/auth/me", {"confirm": True}, erased["access_token"]).expect(200)
    good = pair["refresh_token"]
    tokens = GARBAGE + ["", good[:-1], good + "A", good.swapcase(), f" {good}", f"{good}\n", pair["access_token"],
                        secrets.token_urlsafe(32), ended["refresh_token"], erased["refresh_token"]]
    answers = [lab.refresh(text).expect_problem(401, "unauthorized").expect_no_store() for text in tokens]
    same_refusal(answers)
    lab.refresh(good).expect_pair()
    for body in ({}, {"refresh_token": None}, {"refresh_token": 1}):
        lab.call("POST", "/auth/refresh", body).expect_pointers("/refresh_token")


@suite.check("attack: another driver's refresh token, with one's own access token, gets and ends nothing of one's own")
def _(lab):
    mine, theirs = lab.apple_driver(), lab.apple_driver()
    answer = lab.call("POST", "/auth/logout", {"refresh_token": theirs["refresh_token"]}, mine["access_token"])
    assert answer.status in (204, 401), answer
    lab.expect_alive(theirs["access_token"])
    theirs = lab.refresh(theirs["refresh_token"]).expect_pair()
    mine = lab.apple_driver()
    answer = lab.call("POST", "/auth/refresh", {"refresh_token": theirs["refresh_token"]}, mine["access_token"])
    assert answer.status == 401 or answer.expect_pair()["user"]["id"] == theirs["user"]["id"], answer


@suite.check("a refresh token is no access token, and is stored nowhere as it is")
def _(lab):
    pair = lab.apple_driver()
    lab.expect_refused(pair["refresh_token"])
    token = pair["refresh_token"]
    forms = [token.encode(), from_base64url(token), from_base64url(token).hex().encode()]
    for name, content in lab.bytes_on_disk().items():
        assert not any(form in content for form in forms), name


@suite.alone("a refresh token ends after REFRESH_TOKEN_TTL_DAYS", REFRESH_TOKEN_TTL_DAYS="1")
def _(lab):
    pair = lab.apple_driver()
    lab.server.stop()
    value, now = lab.sql("SELECT expires_at_ms FROM refresh_token")[0][0], time.time() * 1000
    assert abs(value - now - DAY * 1000) < 120_000, (value, now)
    lab.sql("UPDATE refresh_token SET expires_at_ms = ?", int(now - 1000))
    lab.server.start()
    lab.refresh(pair["refresh_token"]).expect_problem(401, "unauthorized")


# --- signing out --------------------------------------------------------------------------------------------------


@suite.check("logout: 204, this session at once, and no other")
def _(lab):
    phone = new_phone()
    here, there = lab.phone_driver(phone), lab.phone_driver(phone)
    refreshed = lab.refresh(here["refresh_token"]).expect_pair()
    answer = lab.call("POST", "/auth/logout", token=here["access_token"]).expect(204)
    assert not answer.body, answer
    for pair in (here, refreshed):
        lab.expect_refused(pair["access_token"])
        lab.refresh(pair["refresh_token"]).expect_problem(401, "unauthorized")
    lab.expect_alive(there["access_token"])
    lab.call("POST", "/auth/logout", token=here["access_token"]).expect_problem(401, "unauthorized")


@suite.check("logout with a refresh token in the body, an empty object, nonsense")
def _(lab):
    pair = lab.apple_driver()
    lab.call("POST", "/auth/logout", {"refresh_token": pair["refresh_token"]}, pair["access_token"]).expect(204)
    lab.expect_refused(pair["access_token"])
    pair = lab.apple_driver()
    lab.call("POST", "/auth/logout", {}, pair["access_token"]).expect(204)
    lab.expect_refused(pair["access_token"])
    pair = lab.apple_driver()
    lab.call("POST", "/auth/logout", {"refresh_token": 1}, pair["access_token"]).expect_pointers("/refresh_token")
    lab.call("POST", "/auth/logout", token=None).expect_problem(401, "unauthorized")


@suite.check("logout?all=true: every session of this driver, and nobody else's; over kill -9 too")
def _(lab):
    phone = new_phone()
    pairs = [lab.phone_driver(phone) for _ in range(3)]
    other = lab.apple_driver()
    lab.call("POST", "/auth/logout?all=true", token=pairs[0]["access_token"]).expect(204)
    for pair in pairs:
        lab.expect_refused(pair["access_token"])
        lab.refresh(pair["refresh_token"]).expect_problem(401, "unauthorized")
    lab.expect_alive(other["access_token"])
    lab.restart()
    for pair in pairs:
        lab.expect_refused(pair["access_token"])
    lab.expect_alive(other["access_token"])
    lab.expect_alive(lab.phone_driver(phone)["access_token"])


@suite.check("signing out while requests of the session are under way: none is admitted after the answer")
def _(lab):
    for _ in range(10):
        pair = lab.apple_driver()

        def ask():
            return [lab.me(pair["access_token"]).status for _ in range(5)]

        results = at_once(ask, ask, ask, lambda: lab.call("POST", "/auth/logout", token=pair["access_token"]).status)
        assert results[3] == 204 and {status for asked in results[:3] for status in asked} <= {200, 401}, results
        lab.expect_refused(pair["access_token"])


# --- the list -----------------------------------------------------------------------------------------------------


def sessions(lab, token):
    answer = lab.call("GET", "/auth/sessions", token=token).expect(200).expect_no_store()
    body = answer.json
    return body["sessions"] if isinstance(body, dict) else body


@suite.check("sessions: created, last used, the client's name, which one is asking")
def _(lab):
    phone = new_phone()
    before = time.time()
    code = lab.code_for(phone)
    first = lab.verify_code(phone, code, headers={"User-Agent": "Chargers/2.1 (iPhone; iOS 19.1)"}).expect_pair()
    code = lab.code_for(phone)
    second = lab.verify_code(phone, code, headers={"User-Agent": "x" * 300}).expect_pair()
    listed = {session["id"]: session for session in sessions(lab, second["access_token"])}
    sids = [claims_of(pair["access_token"])["sid"] for pair in (first, second)]
    assert set(listed) == set(sids), listed
    assert [listed[sid]["current"] for sid in sids] == [False, True], listed
    assert listed[sids[0]]["client_name"] == "Chargers/2.1 (iPhone; iOS 19.1)", listed
    assert listed[sids[1]]["client_name"] == "x" * 128, listed
    for session in listed.values():
        for name in ("created_at", "last_used_at"):
            assert abs(moment(session[name]) - before) < 60, session
    used = moment(listed[sids[0]]["last_used_at"])
    time.sleep(1.1)
    lab.refresh(first["refresh_token"]).expect_pair()
    again = {session["id"]: session for session in sessions(lab, second["access_token"])}
    assert moment(again[sids[0]]["last_used_at"]) > used, again


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


@suite.check("a driver has 100 sign-in sessions: one more ends the one used longest ago, at once")
def _(lab):
    who = f"apple.{secrets.token_hex(8)}"
    first, second = lab.apple_driver(who), lab.apple_driver(who)
    for _ in range(98):
        lab.apple_driver(who)
    lab.expect_alive(first["access_token"])
    lab.apple_driver(who)
    lab.expect_refused(first["access_token"])
    lab.refresh(first["refresh_token"]).expect_problem(401, "unauthorized")
    lab.expect_alive(second["access_token"])


@suite.check("ending a session from the list: one's own, and at once; another driver's is 404, as if it did not exist")
def _(lab):
    phone = new_phone()
    here, there, other = lab.phone_driver(phone), lab.phone_driver(phone), lab.apple_driver()
    there_sid, other_sid = (claims_of(pair["access_token"])["sid"] for pair in (there, other))
    theirs = lab.call("DELETE", f"/auth/sessions/{other_sid}", token=here["access_token"])
    nobodys = lab.call("DELETE", "/auth/sessions/unknown", token=here["access_token"])
    assert theirs.status == nobodys.status == 404, (theirs, nobodys)
    assert {**theirs.json, "request_id": ""} == {**nobodys.json, "request_id": ""}
    lab.expect_alive(other["access_token"])
    lab.call("DELETE", f"/auth/sessions/{there_sid}", token=here["access_token"]).expect(204)
    lab.expect_refused(there["access_token"])
    lab.refresh(there["refresh_token"]).expect_problem(401, "unauthorized")
    assert [session["id"] for session in sessions(lab, here["access_token"])] == [claims_of(here["access_token"])["sid"]]
    lab.call("DELETE", f"/auth/sessions/{there_sid}", token=here["access_token"]).expect(404)
    lab.call("DELETE", f"/auth/sessions/{claims_of(here['access_token'])['sid']}", token=here["access_token"]).expect(204)
    lab.expect_refused(here["access_token"])


# --- access tokens ------------------------------------------------------------------------------------------------


@suite.check("attack: access tokens that were tampered with, with the sign-in session of somebody signed in")
def _(lab):
    pair, other = lab.apple_driver(), lab.apple_driver()
    token, now = pair["access_token"], int(time.time())
    claims = claims_of(token)
    lab.expect_alive(resigned(token, jti="another"))
    for changes in ({"sid": "unknown"}, {"sid": ""}, {"sid": 1}, {"sid": claims_of(other["access_token"])["sid"]},
                    {"exp": now - 1, "iat": now - 100}, {"aud": "other"}, {"iss": "other"}, {"sub": other["user"]["id"]}):
        lab.expect_refused(resigned(token, **changes))
    for header, sign in (({"alg": "none"}, no_signature), ({"alg": "none"}, hs256(SECRET.encode())),
                         ({"alg": "HS512"}, hs256(SECRET.encode())), ({"alg": "HS256"}, hs256(b"another secret"))):
        lab.expect_refused(jws(header, claims, sign))
    signature = token.rsplit(".", 1)[0]
    lab.expect_refused(f"{signature}.")
    lab.expect_alive(token)


@suite.alone("ES256: the key set publishes the key that signs, and only its public half")
def _(lab):
    folder = lab.folder
    public = es256_key_file(folder / "jwt.pem")
    environment = {"JWT_PRIVATE_KEY_FILE": str(folder / "jwt.pem")}
    lab.server.stop()
    del lab.server.environment["JWT_SECRET"]
    lab.server.environment |= environment
    lab.server.start()
    pair = lab.apple_driver()
    header = header_of(pair["access_token"])
    assert header["alg"] == "ES256" and has_es256_signature(pair["access_token"], public), header
    keys = lab.call("GET", "/.well-known/jwks.json").expect(200).json["keys"]
    assert len(keys) == 1 and set(keys[0]) <= {"kty", "crv", "x", "y", "kid", "use", "alg", "key_ops"}, keys
    assert keys[0]["kid"] == header["kid"] and keys[0]["crv"] == "P-256", keys
    assert has_es256_signature(pair["access_token"], es256_public_key(keys[0]))
    # The key id is the thumbprint of RFC 7638.
    thumbprint = compact({name: keys[0][name] for name in ("crv", "kty", "x", "y")})
    assert keys[0]["kid"] == base64url(hashlib.sha256(thumbprint).digest()), keys
    lab.expect_alive(pair["access_token"])
    claims = claims_of(pair["access_token"])
    for key in (SECRET.encode(), (folder / "jwt.pem").read_bytes(), from_base64url(keys[0]["x"])):
        lab.expect_refused(jws({"alg": "HS256", "kid": header["kid"]}, claims, hs256(key)))
    lab.restart()
    lab.expect_alive(pair["access_token"])


@suite.check("HS256: there is no public key, and the secret is not published")
def _(lab):
    answer = lab.call("GET", "/.well-known/jwks.json")
    assert answer.status == 404 or answer.expect(200).json == {"keys": []}, answer


@suite.alone("JWT_TRUST_EXTERNAL=false: whoever signed in here is let in, and nobody else", JWT_TRUST_EXTERNAL="false")
def _(lab):
    pair = lab.apple_driver()
    lab.expect_alive(pair["access_token"])
    lab.expect_refused(resigned(pair["access_token"], sid=None))
    lab.expect_refused(external_token("driver"))


@suite.check("an open stream ends when its sign-in session does")
def _(lab):
    pair = lab.apple_driver()
    with socket.create_connection(("127.0.0.1", lab.server.port), timeout=90) as stream:
        stream.sendall(rendered("GET", "/native/session/stream", pair["access_token"]))
        head = stream.recv(65536)
        assert head.startswith(b"HTTP/1.1 200"), head
        lab.call("POST", "/auth/logout", token=pair["access_token"]).expect(204)
        wait_for_end(stream)


def wait_for_end(stream):
    """Returns when the stream has ended. The connection stays open."""
    started, received = time.monotonic(), b""
    while not received.endswith(LAST_CHUNK):
        more = stream.recv(65536)
        assert more and time.monotonic() - started < 60, "the stream goes on"
        received = received[-len(LAST_CHUNK):] + more


# --- two servers on one database ----------------------------------------------------------------------------------


@suite.alone("a second server on the same database refuses what the first has revoked")
def _(lab):
    second = lab.second_server()
    phone = new_phone()
    for end in (
            lambda pair: lab.call("POST", "/auth/logout", token=pair["access_token"]).expect(204),
            lambda pair: lab.call("POST", "/auth/logout?all=true", token=pair["access_token"]).expect(204),
            lambda pair: lab.call("DELETE", f"/auth/sessions/{claims_of(pair['access_token'])['sid']}",
                                  token=pair["access_token"]).expect(204),
            lambda pair: lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)):
        pair = lab.phone_driver(phone)
        lab.expect_alive(pair["access_token"], second)
        end(pair)
        started = time.monotonic()
        # On /native/config, only a rejected token causes a 401. On /auth/me, a deleted account would also cause it.
        wait_until(lambda: lab.call("GET", "/native/config", token=pair["access_token"], server=second).status == 401,
                   30, "the other server's refusal")
        print(f"# signin_sessions: the other server refused after {time.monotonic() - started:.2f} s")
        lab.expect_refused(pair["access_token"], second)


@suite.alone("a second server on the same database takes the first's refresh tokens, each once")
def _(lab):
    second = lab.second_server()
    pair = lab.apple_driver()
    newer = lab.refresh(pair["refresh_token"], server=second).expect_pair()
    lab.expect_alive(newer["access_token"])
    lab.refresh(newer["refresh_token"]).expect_pair()
    time.sleep(REPEAT_SECONDS + 0.5)
    lab.refresh(pair["refresh_token"]).expect_problem(401, "unauthorized")
    wait_until(lambda: lab.me(newer["access_token"], second).status == 401, 30, "the other server's refusal")


@suite.alone("two servers on one database: a nonce, a code and guesses count for both")
def _(lab):
    second = lab.second_server()
    nonce = secrets.token_urlsafe(16)
    token = lab.apple.identity_token("apple.both", nonce)
    pair = lab.present(token, nonce).expect_pair()
    again = lab.present(token, nonce, server=second).expect_pair()
    assert again["refresh_token"] == pair["refresh_token"] and again["user"] == pair["user"], (pair, again)
    assert claims_of(again["access_token"])["sid"] == claims_of(pair["access_token"])["sid"]
    other = lab.apple.identity_token("apple.both", nonce, auth_time=1)
    lab.present(other, nonce, server=second).expect_problem(401, "unauthorized")
    phone = new_phone()
    code = lab.code_for(phone)
    lab.verify_code(phone, code, server=second).expect_pair()
    lab.verify_code(phone, code).expect_problem(401, "unauthorized")
    phone = new_phone()
    code = lab.code_for(phone)
    for server in (second, lab.server, second, lab.server, second):
        lab.verify_code(phone, other_code(code), server=server).expect_problem(401, "unauthorized")
    for server in (lab.server, second):
        assert lab.verify_code(phone, code, server=server).status in (401, 429)


@suite.alone("two servers on one database at the same moment: a code signs in once, a nonce and a refresh token once each")
def _(lab):
    servers = (lab.server, lab.second_server()) * 3
    for _ in range(5):
        phone = new_phone()
        code = lab.code_for(phone)
        answers = at_once(*[functools.partial(lab.verify_code, phone, code, server=server) for server in servers])
        statuses = collections.Counter(answer.status for answer in answers)
        assert statuses[200] == 1 and set(statuses) <= {200, 401, 429}, statuses

        nonce = secrets.token_urlsafe(16)
        token = lab.apple.identity_token(f"apple.{secrets.token_hex(8)}", nonce)
        answers = at_once(*[functools.partial(lab.present, token, nonce, server=server) for server in servers])
        pairs = [answer.expect_pair() for answer in answers]
        assert len({pair["user"]["id"] for pair in pairs}) == 1, "two people"
        assert len({claims_of(pair["access_token"])["sid"] for pair in pairs}) == 1, "two sign-in sessions"

        answers = at_once(*[functools.partial(lab.refresh, pairs[0]["refresh_token"], server=server) for server in servers])
        assert len({answer.expect_pair()["refresh_token"] for answer in answers}) == 1, "siblings"


@suite.alone("two servers on one database: a stream ends when its sign-in session is ended through the other server")
def _(lab):
    second = lab.second_server()
    pair = lab.apple_driver()
    with socket.create_connection(("127.0.0.1", second.port), timeout=90) as stream:
        stream.sendall(rendered("GET", "/native/session/stream", pair["access_token"]))
        head = stream.recv(65536)
        assert head.startswith(b"HTTP/1.1 200"), head
        lab.call("POST", "/auth/logout", token=pair["access_token"]).expect(204)
        wait_for_end(stream)


# --- shipped clients with a single token --------------------------------------------------------------------------


def legacy(lab, subject=None, **more):
    nonce = secrets.token_urlsafe(16)
    subject = subject or f"apple.{secrets.token_hex(8)}"
    token = lab.apple.identity_token(subject, nonce)
    return lab.call("POST", "/api/auth/apple", {
        "identity_token": token, "nonce": nonce, "userIdentifier": subject, "email": None, "name": "Ann", "role": "driver",
        **more})


def single(answer):
    body = answer.expect(200).json
    assert body["success"] is True and isinstance(body["token"], str), answer
    assert set(body) <= {"success", "token", "user"}, answer
    return body


@suite.check("single token: sign in, validate, me, with phoneNumber; thirty days long")
def _(lab):
    answer = legacy(lab)
    body = single(answer)
    answer.expect_no_store()
    assert body["user"]["name"] == "Ann" and "phoneNumber" in body["user"], body
    claims = claims_of(body["token"])
    assert claims["exp"] - claims["iat"] == 30 * DAY and claims["sub"] == body["user"]["id"], claims
    for method, path in (("POST", "/api/auth/validate"), ("GET", "/api/auth/me")):
        said = lab.call(method, path, token=body["token"]).expect(200).json
        assert said["success"] is True and said["user"] == body["user"], said
    lab.expect_alive(body["token"])


@suite.check("single token: an answer that was lost is given again, a second later and over kill -9")
def _(lab):
    nonce, subject = secrets.token_urlsafe(16), f"apple.{secrets.token_hex(8)}"
    body = {"identity_token": lab.apple.identity_token(subject, nonce), "nonce": nonce, "userIdentifier": subject,
            "email": None, "name": "Ann", "role": "driver"}
    started = time.monotonic()
    answers = [single(lab.call("POST", "/api/auth/apple", body))]
    time.sleep(1)
    answers.append(single(lab.call("POST", "/api/auth/apple", body)))
    lab.restart()
    answer = lab.call("POST", "/api/auth/apple", body)
    if time.monotonic() - started < REPEAT_SECONDS:
        answers.append(single(answer))
    assert len({claims_of(answer["token"])["sid"] for answer in answers}) == 1, answers
    assert all(answer["user"] == answers[0]["user"] for answer in answers), answers
    for answer in answers:
        lab.expect_alive(answer["token"])


@suite.check("single token: it is the same person as with a pair")
def _(lab):
    subject = f"apple.{secrets.token_hex(8)}"
    pair = lab.apple_driver(subject)
    assert single(legacy(lab, subject))["user"]["id"] == pair["user"]["id"]


@suite.check("single token: refresh with the token as Bearer, and up to thirty days after it expired")
def _(lab):
    body = single(legacy(lab))
    newer = single(lab.call("POST", "/api/auth/refresh", token=body["token"]))
    assert claims_of(newer["token"])["sid"] == claims_of(body["token"])["sid"]
    now = int(time.time())
    for days in (1, 29):
        expired = resigned(body["token"], iat=now - (30 + days) * DAY, exp=now - days * DAY)
        lab.expect_refused(expired)
        lab.call("POST", "/api/auth/validate", token=expired).expect(401)
        renewed = single(lab.call("POST", "/api/auth/refresh", token=expired))
        lab.expect_alive(renewed["token"])
    for days in (31, 400):
        expired = resigned(body["token"], iat=now - (30 + days) * DAY, exp=now - days * DAY)
        lab.call("POST", "/api/auth/refresh", token=expired).expect_problem(401, "unauthorized")


@suite.check("single token: refused once its sign-in session has ended, expired or not, and after kill -9")
def _(lab):
    body = single(legacy(lab))
    now = int(time.time())
    lab.call("POST", "/auth/logout", token=body["token"]).expect(204)
    expired = resigned(body["token"], iat=now - 40 * DAY, exp=now - 10 * DAY)
    for _ in range(2):
        for token in (body["token"], expired):
            lab.call("POST", "/api/auth/refresh", token=token).expect_problem(401, "unauthorized")
            lab.call("POST", "/api/auth/validate", token=token).expect_problem(401, "unauthorized")
        lab.restart()


@suite.check("attack: /api/auth/refresh with tokens that are none, of a pair, of another service, of the role service")
def _(lab):
    pair = lab.apple_driver()
    now = int(time.time())
    expired = resigned(pair["access_token"], iat=now - 7200, exp=now - 3600)
    external = resigned(pair["access_token"], sid=None)
    for token in [None, *GARBAGE, expired, pair["refresh_token"], external, resigned(external, role="service"),
                  resigned(external, iat=now - 7200, exp=now - 3600)]:
        answer = lab.call("POST", "/api/auth/refresh", token=token).expect_problem(401, "unauthorized")
        assert answer.json.get("success") is False, answer
    lab.refresh(single(legacy(lab))["token"]).expect_problem(401, "unauthorized")


@suite.check("single token: DELETE /api/auth/me deletes")
def _(lab):
    subject = f"apple.{secrets.token_hex(8)}"
    body = single(legacy(lab, subject))
    answer = lab.call("DELETE", "/api/auth/me", token=body["token"]).expect(200)
    assert answer.json["success"] is True, answer
    lab.expect_refused(body["token"])
    lab.call("POST", "/api/auth/refresh", token=body["token"]).expect_problem(401, "unauthorized")
    assert single(legacy(lab, subject))["user"]["id"] != body["user"]["id"]


@suite.check("single token: refusals are problems with error, and success false")
def _(lab):
    answer = legacy(lab, nonce="other").expect_problem(401, "unauthorized")
    assert answer.json["success"] is False, answer
    for method, path in (("POST", "/api/auth/validate"), ("GET", "/api/auth/me")):
        assert lab.call(method, path).expect_problem(401, "unauthorized").json["success"] is False
    assert lab.call("POST", "/api/auth/apple", {}).expect(400).json["success"] is False


@suite.alone("LEGACY_TOKEN_TTL_DAYS and ACCESS_TOKEN_TTL_SECONDS are what they say",
             LEGACY_TOKEN_TTL_DAYS="7", ACCESS_TOKEN_TTL_SECONDS="2")
def _(lab):
    claims = claims_of(single(legacy(lab))["token"])
    assert claims["exp"] - claims["iat"] == 7 * DAY, claims
    pair = lab.apple_driver()
    assert pair["expires_in"] == 2
    wait_until(lambda: lab.me(pair["access_token"]).status == 401, 30, "the end of the access token")
    lab.expect_alive(lab.refresh(pair["refresh_token"]).expect_pair()["access_token"])


suite.main()
