#!/usr/bin/env python3
"""Tests Sign in with Apple (contract, section 6). Replacements for Apple's key set, token endpoint and revoke endpoint
are slow, return wrong data, or stop. Attacks with identity tokens must all be rejected."""

import pathlib
import re
import secrets
import time

from apple_server import (
    CLIENT_ID, ISSUER, NEW_ISSUER, OTHER_CLIENT_ID, AppleServer, RSAKey, base64url, claims_of, dripping, endless, failing,
    hanging_up, header_of, hs256, jws, no_signature, nonce_claim, oversized, redirecting, saying,
    self_signed, stalling)
from cryptography.hazmat.primitives import hashes, serialization
from processes import wait_until
from signing_in import Suite, at_once

suite = Suite(__doc__)
EXCHANGING = {"exchanging": True}


def subject():
    return f"apple.{secrets.token_hex(8)}"


def nonce():
    return secrets.token_urlsafe(16)


# --- valid tokens -------------------------------------------------------------------------------------------------


@suite.check("an identity token signs in: a pair, a user, an access token with the contract's claims")
def _(lab):
    pair = lab.apple_driver()
    claims = claims_of(pair["access_token"])
    assert {"sub", "sid", "role", "iat", "exp", "jti", "iss", "aud"} <= set(claims), claims
    assert claims["sub"] == pair["user"]["id"] and (claims["iss"], claims["aud"]) == ("dwell", "dwell"), claims
    assert claims["exp"] - claims["iat"] == pair["expires_in"] == 3600, claims
    assert header_of(pair["access_token"])["alg"] == "HS256"
    lab.expect_alive(pair["access_token"])


@suite.check("the person is sub: again, with the other client id, from the other issuer, the same user")
def _(lab):
    who = subject()
    first = lab.apple_driver(who)["user"]["id"]
    for claims in [{}, {"aud": OTHER_CLIENT_ID}, {"aud": [CLIENT_ID]}, {"aud": ["other", OTHER_CLIENT_ID]},
                   {"iss": NEW_ISSUER}, {"email": None}, {"email": "changed@example.org"}]:
        assert lab.apple_sign_in(who, **claims).expect_pair()["user"]["id"] == first, claims
    assert lab.apple_driver()["user"]["id"] != first
    assert who not in first, "an id that tells Apple's subject"


@suite.check("email_verified and is_private_email come as Boolean or String; only a verified email is kept")
def _(lab):
    for verified in (True, "true"):
        for private in (True, "true", False, "false", None):
            who = subject()
            user = lab.apple_sign_in(who, email_verified=verified, is_private_email=private).expect_pair()["user"]
            assert user["email"] == f"{who}@privaterelay.example", user
    for unverified in (False, "false", None, "yes", 1):
        answer = lab.apple_sign_in(subject(), email_verified=unverified)
        assert answer.status == 401 or answer.expect_pair()["user"].get("email") is None, answer


@suite.check("email and name of the request are a first sign-in's profile")
def _(lab):
    who = subject()
    profile = {"name": "Ann Example", "email": "ann@example.org"}
    first = lab.apple_sign_in(who, profile, email=None, email_verified=None).expect_pair()["user"]
    assert first["name"] == "Ann Example", first
    later = lab.apple_sign_in(who, {"name": "Bob", "email": "bob@example.org"}, email=None).expect_pair()["user"]
    assert later == first, (later, first)


@suite.check("email is never an identity: neither the request's nor the token's leads to another's account")
def _(lab):
    victim, email = subject(), f"{secrets.token_hex(6)}@example.org"
    owner = lab.apple_sign_in(victim, email=email).expect_pair()["user"]["id"]
    claimed = lab.apple_sign_in(subject(), {"email": email}, email=None).expect_pair()["user"]["id"]
    shared = lab.apple_sign_in(subject(), email=email).expect_pair()["user"]["id"]
    assert len({owner, claimed, shared}) == 3


@suite.check("somebody new who signs in eight times at once is one person")
def _(lab):
    who = subject()
    pairs = at_once(*[lambda: lab.apple_driver(who) for _ in range(8)])
    assert len({pair["user"]["id"] for pair in pairs}) == 1 and len({pair["refresh_token"] for pair in pairs}) == 8


@suite.check("a request gives itself no role that means anything")
def _(lab):
    for role in ("ops", "admin", "ADMIN", "driver,admin", "root"):
        pair = lab.apple_driver(role=role)
        for said in (pair["user"].get("role"), claims_of(pair["access_token"]).get("role")):
            assert said in (None, "driver"), (role, said)


@suite.check("all that is wrong with the members is told at once, with pointers")
def _(lab):
    lab.call("POST", "/auth/apple", {}).expect_pointers("/identity_token", "/nonce")
    lab.call("POST", "/auth/apple", {"identity_token": 1, "nonce": None}).expect_pointers("/identity_token", "/nonce")
    lab.call("POST", "/auth/apple", {"identity_token": "a", "nonce": "n", "name": 1, "email": []}).expect_pointers(
        "/name", "/email")
    lab.call("POST", "/auth/apple", b"{").expect_problem(400, "malformed_json")
    lab.call("POST", "/auth/apple", b"[]").expect(400)
    lab.call("POST", "/auth/apple", b"x", headers={"Content-Type": "text/plain"}).expect(415)


# --- attacks ------------------------------------------------------------------------------------------------------


def refuse(lab, token, raw_nonce, why):
    """Expects 401 with no-store. Returns the problem without its request id."""
    answer = lab.present(token, raw_nonce)
    try:
        answer.expect_problem(401, "unauthorized").expect_no_store()
    except AssertionError as error:
        raise AssertionError(f"{why}: {error}") from None
    return {**answer.json, "request_id": ""}


def refuse_all(lab, attacks):
    """Checks that all `attacks` get the same problem, so that an attacker learns nothing from it. Each attack is (why,
    token, raw nonce)."""
    answers = [refuse(lab, token, raw, why) for why, token, raw in attacks]
    assert all(answer == answers[0] for answer in answers), answers


def variants(lab, *changes):
    """Yields an attack (why, token, raw nonce) for each change (why, claims, header)."""
    for why, claims, header in changes:
        raw = nonce()
        yield why, lab.apple.identity_token(subject(), raw, header=header, **claims), raw


@suite.check("attack: alg none, in any spelling, with and without a signature")
def _(lab):
    attacks = []
    for name in ("none", "None", "NONE", "nOnE", "", None):
        for sign in (no_signature, lab.apple.key.sign):
            raw = nonce()
            header = {"alg": name, "kid": lab.apple.key.kid}
            attacks.append((f"alg {name}", jws(header, lab.apple.claims(subject(), raw), sign), raw))
    raw = nonce()
    attacks.append(("no alg", jws({"kid": "key-1"}, lab.apple.claims(subject(), raw), lab.apple.key.sign), raw))
    refuse_all(lab, attacks)


@suite.check("attack: HS256 signed with the RSA public key, in every form of it")
def _(lab):
    attacks = []
    for form, key in lab.apple.key.public_forms.items():
        raw = nonce()
        header = {"alg": "HS256", "kid": lab.apple.key.kid}
        attacks.append((form, jws(header, lab.apple.claims(subject(), raw), hs256(key)), raw))
    refuse_all(lab, attacks)


@suite.check("attack: another algorithm than RS256, though rightly signed")
def _(lab):
    attacks = []
    for name, algorithm in (("RS384", hashes.SHA384), ("RS512", hashes.SHA512)):
        raw = nonce()
        token = jws({"alg": name, "kid": "key-1"}, lab.apple.claims(subject(), raw),
                    lambda data: lab.apple.key.sign(data, algorithm))
        attacks.append((name, token, raw))
    attacks += variants(lab, *[(name, {}, {"alg": name}) for name in ("PS256", "ES256", "EdDSA", "rs256", "RS256 ")])
    refuse_all(lab, attacks)


@suite.check("attack: signed with another key under Apple's kid; a key in the token's own header")
def _(lab):
    mine = RSAKey(lab.apple.key.kid)
    raw = nonce()
    attacks = [("wrong key", lab.apple.identity_token(subject(), raw, key=mine), raw)]
    url = f"http://127.0.0.1:{lab.apple.port}/mine"
    for header in ({"jwk": mine.jwk}, {"jku": url}, {"x5u": url}, {"jwk": mine.jwk, "kid": None}, {"crit": ["b64"]}):
        raw = nonce()
        attacks.append((str(header), lab.apple.identity_token(subject(), raw, key=mine, header=header), raw))
    refuse_all(lab, attacks)
    assert {path for path, _, _ in lab.apple.requests} == {AppleServer.KEYS}, "it asked where the token said"


@suite.check("attack: kid as a path, an address, a statement, nothing, a number, another case")
def _(lab):
    kids = ["../../../../dev/null", "/etc/passwd", "file:///dev/null", f"http://127.0.0.1:{lab.apple.port}/mine",
            "key-1'--", "key-1\u0000", "", "KEY-1", " key-1", 1, None, ["key-1"], {"kid": "key-1"}, "k" * 10_000]
    refuse_all(lab, list(variants(lab, *[(f"kid {kid!r}"[:60], {}, {"kid": kid}) for kid in kids])))
    assert {path for path, _, _ in lab.apple.requests} == {AppleServer.KEYS}, "kid went into an address"


@suite.check("attack: expired, not yet valid, or times that are no times")
def _(lab):
    now = int(time.time())
    refuse_all(lab, list(variants(
        lab,
        ("expired", {"iat": now - 7200, "exp": now - 3600}, {}), ("just expired", {"exp": now - 1}, {}),
        ("exp 0", {"exp": 0}, {}), ("negative exp", {"exp": -1}, {}), ("no exp", {"exp": None}, {}),
        ("issued in ten minutes", {"iat": now + 600, "exp": now + 1200}, {}),
        ("not before in ten minutes", {"nbf": now + 600}, {}),
        ("exp as text", {"exp": str(now + 600)}, {}), ("exp true", {"exp": True}, {}), ("exp list", {"exp": []}, {}))))
    for exp in (b"1e400", b"NaN", b"-Infinity", b"9" * 400):
        raw = nonce()
        text = b'{"iss":"%s","aud":"%s","sub":"s","iat":%d,"nonce":"%s","exp":%s}' % (
            ISSUER.encode(), CLIENT_ID.encode(), now, nonce_claim(raw).encode(), exp)
        answer = lab.present(jws({"alg": "RS256", "kid": "key-1"}, text, lab.apple.key.sign), raw)
        assert answer.status == 401 or exp == b"9" * 400, f"exp {exp[:20]}: {answer}"
    lab.apple_driver()


@suite.check("attack: wrong audience or issuer, also by case, prefix, list or type; no subject")
def _(lab):
    audiences = ["org.example.other", CLIENT_ID + ".x", CLIENT_ID[:-1], CLIENT_ID.upper(), f"{CLIENT_ID},{OTHER_CLIENT_ID}",
                 "", [], ["other"], [[CLIENT_ID]], {"0": CLIENT_ID}, 1, None, True]
    issuers = ["https://appleid.apple.com.evil.example", "http://appleid.apple.com", "https://appleid.apple.com/", "apple",
               "", None, [ISSUER], "https://accounts.google.com"]
    changes = [(f"aud {value!r}", {"aud": value}, {}) for value in audiences]
    changes += [(f"iss {value!r}", {"iss": value}, {}) for value in issuers]
    changes += [(f"sub {value!r}", {"sub": value}, {}) for value in (None, "", 1, [], {}, "x" * 10_000)]
    refuse_all(lab, list(variants(lab, *changes)))


@suite.check("attack: nonce missing, wrong, not hashed, in capitals, another encoding")
def _(lab):
    raw = nonce()
    claims = [None, "", raw, nonce_claim(raw).upper(), nonce_claim("other"), nonce_claim(raw)[:-1], nonce_claim(raw) + "0",
              nonce_claim(nonce_claim(raw)), [nonce_claim(raw)], base64url(bytes.fromhex(nonce_claim(raw)))]
    refuse_all(lab, [(f"nonce {value!r}", lab.apple.identity_token(subject(), raw, nonce=value), raw) for value in claims])
    lab.present(lab.apple.identity_token(subject(), raw), raw).expect_pair()
    token = lab.apple.identity_token(subject(), "")
    answer = lab.present(token, "")
    assert answer.status in (400, 401), f"an empty nonce: {answer}"


@suite.check("a sign-in sent again after its answer was lost gets the same refresh token; once that was used, nothing")
def _(lab):
    raw = nonce()
    token = lab.apple.identity_token(subject(), raw)
    pairs = [answer.expect_pair() for answer in at_once(*[lambda: lab.present(token, raw) for _ in range(12)])]
    assert len({pair["refresh_token"] for pair in pairs}) == 1, "siblings"
    lab.refresh(pairs[0]["refresh_token"]).expect_pair()
    refuse(lab, token, raw, "after the refresh token was used")


@suite.check("dwell simulate plays a sign-in that is sent again, and leaves no account; with another key it says what differs")
def _(lab):
    before = lab.sql("SELECT count(*) FROM apple_identity")
    for name, key in [("apple.pem", lab.apple.key), ("other.pem", RSAKey("key-1"))]:
        (pathlib.Path(lab.server.folder) / name).write_bytes(key.private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    words = ["simulate", "--drivers", "1", "--scenario", "retried-sign-in", "--apple-key-id", lab.apple.key.kid, "--apple-key"]
    run = lab.dwell(*words, "apple.pem")
    assert run.returncode == 0 and re.search(r"^drives +retried-sign-in 1$", run.stdout, re.M), run
    assert lab.sql("SELECT count(*) FROM apple_identity") == before
    run = lab.dwell(*words, "other.pem")
    assert run.returncode == 1 and "sent first, got 401 instead of 200" in run.stderr, run
    run = lab.dwell(*words, "nothing.pem")
    assert run.returncode == 64 and "does not contain an RSA private key" in run.stderr, run


@suite.check("attack: a nonce again, in another token, in the same one later, at once, and after kill -9")
def _(lab):
    who, first = subject(), nonce()
    token = lab.apple.identity_token(who, first)
    pair = lab.present(token, first).expect_pair()
    refuse_all(lab, [("same person", lab.apple.identity_token(who, first, auth_time=1), first),
                     ("somebody else", lab.apple.identity_token(subject(), first), first)])
    raw = nonce()
    racing = [lab.apple.identity_token(subject(), raw) for _ in range(12)]
    answers = at_once(*[lambda token=token: lab.present(token, raw) for token in racing])
    assert sorted(answer.status for answer in answers) == [200] + [401] * 11, [str(answer) for answer in answers]
    time.sleep(10.5)
    refuse(lab, token, first, "the same token after ten seconds")
    lab.restart()
    refuse(lab, token, first, "after kill -9")
    lab.refresh(pair["refresh_token"]).expect_pair()


@suite.check("attack: truncated, torn, doubled and decorated tokens")
def _(lab):
    raw = nonce()
    token = lab.apple.identity_token(subject(), raw)
    head, body, signature = token.split(".")
    broken = [token[:-1], token[:len(token) // 2], head, f"{head}.", f"{head}.{body}", f"{head}.{body}.", f".{body}.{signature}",
              f"{head}..{signature}", f"{token}.", f"{token}.{signature}", f" {token}", f"{token}\n", f"{head}.{body}.{signature}=",
              f"{head}=.{body}.{signature}", token + "A", token.swapcase(), ".", "..", "...", "x"]
    refuse_all(lab, [(f"broken {index}", text, raw) for index, text in enumerate(broken)])
    lab.present(token, raw).expect_pair()


@suite.check("attack: oversized tokens, deep ones, and many members")
def _(lab):
    for padding in ({"pad": "x" * 40_000}, {f"m{index}": index for index in range(2000)}):
        raw = nonce()
        answer = lab.present(lab.apple.identity_token(subject(), raw, **padding), raw)
        assert answer.status in (400, 401, 413), answer
    raw = nonce()
    answer = lab.present(lab.apple.identity_token(subject(), raw, pad="x" * 200_000), raw)
    answer.expect_problem(413, "content_too_large")
    raw = nonce()
    deep = b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"
    refuse(lab, jws({"alg": "RS256", "kid": "key-1"}, deep, lab.apple.key.sign), raw, "deep")
    lab.apple_driver()


@suite.check("attack: identity tokens as access tokens, and the other way round")
def _(lab):
    raw = nonce()
    lab.expect_refused(lab.apple.identity_token(subject(), raw))
    pair = lab.apple_driver()
    refuse_all(lab, [("an access token", pair["access_token"], raw), ("a refresh token", pair["refresh_token"], raw)])


@suite.check("userIdentifier signs nobody in")
def _(lab):
    who = subject()
    lab.apple_driver(who)
    for path in ("/auth/apple", "/api/auth/apple"):
        answer = lab.call("POST", path, {"userIdentifier": who, "identity_token": "x", "nonce": "n"})
        answer.expect_problem(401, "unauthorized")
        answer = lab.call("POST", path, {"userIdentifier": who})
        assert answer.status in (400, 401), answer


# --- the key set --------------------------------------------------------------------------------------------------


@suite.alone("keys are fetched once for many sign-ins, also at the same time")
def _(lab):
    at_once(*[lab.apple_driver for _ in range(16)])
    for _ in range(5):
        lab.apple_driver()
    assert lab.apple.count(AppleServer.KEYS) == 1, lab.apple.requests


@suite.alone("Apple rotates its keys: the new one is fetched, once, also under concurrent sign-ins")
def _(lab):
    lab.apple_driver()
    old, lab.apple.key = lab.apple.key, RSAKey("key-2")
    lab.apple.publish(old, lab.apple.key)
    at_once(*[lab.apple_driver for _ in range(16)])
    assert lab.apple.count(AppleServer.KEYS) == 2, lab.apple.count(AppleServer.KEYS)
    lab.apple.key = old
    lab.apple_driver()


@suite.alone("an unknown kid refetches at most once a minute, and the known keys go on")
def _(lab):
    lab.apple_driver()
    fetched = lab.apple.count(AppleServer.KEYS)
    unknown = [RSAKey(f"unknown-{index}") for index in range(3)]

    def attack(key):
        raw = nonce()
        return lambda: refuse(lab, lab.apple.identity_token(subject(), raw, key=key), raw, key.kid)

    at_once(*[attack(key) for key in unknown * 8])
    for key in unknown:
        attack(key)()
    assert lab.apple.count(AppleServer.KEYS) <= fetched + 1, lab.apple.count(AppleServer.KEYS)
    lab.apple_driver()


@suite.alone("a key set that is down or slow: sign-ins with known keys go on, unknown kids are refused or wait for nothing")
def _(lab):
    lab.apple_driver()
    lab.apple.stop()
    lab.apple_driver()
    raw = nonce()
    answer = lab.present(lab.apple.identity_token(subject(), raw, key=RSAKey("unknown")), raw)
    assert answer.status in (401, 503), answer
    lab.apple_driver()
    lab.apple.start()
    lab.apple.behaviours[AppleServer.KEYS] = stalling(20)
    lab.apple_driver()


@suite.alone("no key set at all is 503, and passes when it is back")
def _(lab):
    lab.apple.stop()
    lab.apple_sign_in(subject()).expect_problem(503, "upstream_unavailable")
    lab.apple.start()
    wait_until(lambda: lab.apple_sign_in(subject()).status == 200, 90, "a sign-in after the key set came back")


BAD_KEY_SETS = {
    "a stalling": stalling(120), "a dripping": dripping(120), "an endless": endless, "an oversized": oversized(1 << 20),
    "a failing": failing(500), "an empty": saying(b""), "a hotel's": saying(b"<html>hotel</html>"),
    "a torn": saying(b'{"keys":[{"kty":"RSA"'), "an odd": saying(b'{"keys":"none"}'), "an absent": hanging_up,
    "a redirecting": redirecting("/elsewhere"),
}


def bad_key_set(name, behaviour):
    @suite.alone(f"{name} key set is 503, after a bounded time")
    def _(lab):
        lab.apple.behaviours[AppleServer.KEYS] = behaviour
        lab.apple_sign_in(subject()).expect_problem(503, "upstream_unavailable")
        lab.call("GET", "/healthz").expect(200)
        assert {path for path, _, _ in lab.apple.requests} == {AppleServer.KEYS}, "a redirection was followed"


for _name, _behaviour in BAD_KEY_SETS.items():
    bad_key_set(_name, _behaviour)


@suite.alone("a key set behind a certificate that nobody vouches for is 503")
def _(lab):
    lab.apple.stop()
    lab.apple.start_with_tls(*self_signed(lab.folder))
    url = f"https://127.0.0.1:{lab.apple.port}{AppleServer.KEYS}"
    deceived = lab.start_server("deceived", APPLE_JWKS_URL=url)
    lab.apple_sign_in(subject(), server=deceived).expect_problem(503, "upstream_unavailable")
    assert not lab.apple.requests, lab.apple.requests


@suite.alone("keys that are none are passed over: short ones, other types, the same kid, members missing")
def _(lab):
    weak = RSAKey("weak", bits=1024)
    good = lab.apple.key

    class Odd:
        def __init__(self, jwk):
            self.jwk = jwk

    odd = [{"kty": "EC", "kid": "ec", "crv": "P-256", "x": "AA", "y": "AA"}, {"kty": "RSA", "kid": "empty"},
           {"kty": "RSA", "kid": "bad", "n": "!!", "e": "AQAB"}, {"kty": "oct", "kid": "oct", "k": "c2VjcmV0"}, {}, 1]
    lab.apple.publish(weak, *map(Odd, odd), good)
    raw = nonce()
    refuse(lab, lab.apple.identity_token(subject(), raw, key=weak), raw, "1024 bits")
    raw = nonce()
    secret = jws({"alg": "HS256", "kid": "oct"}, lab.apple.claims(subject(), raw), hs256(b"secret"))
    refuse(lab, secret, raw, "a symmetric key in the set")
    lab.apple_driver()


# --- the authorization code ---------------------------------------------------------------------------------------


@suite.alone("the authorization code is exchanged, and Apple's refresh token is kept sealed", **EXCHANGING)
def _(lab):
    who = subject()
    pair = lab.apple_driver(who, authorization_code=lab.apple.authorization_code(who))
    assert not lab.apple.complaints, lab.apple.complaints
    form = next(form for path, form, _ in lab.apple.requests if path == AppleServer.TOKEN)
    assert form["grant_type"] == "authorization_code" and form["client_id"] == CLIENT_ID, form
    lab.secrets.add(form["client_secret"])
    for name, content in lab.bytes_on_disk().items():
        assert b"apple-refresh-" not in content, f"Apple's refresh token is readable in {name}"
        assert b"apple-access-" not in content, f"Apple's access token is in {name}"
    lab.expect_alive(pair["access_token"])


@suite.alone("an exchange that fails, lies or stalls does not fail the sign-in, and is in the audit", **EXCHANGING)
def _(lab):
    liar = lab.apple.tokens("apple.somebody-else", "apple-refresh-lie")
    behaviours = [failing(500), saying(b"<html>"), saying(b"{}"), saying(liar), redirecting(lab.apple.url + "/elsewhere"),
                  hanging_up, oversized(1 << 20), endless, stalling(60)]
    for behaviour in behaviours:
        lab.apple.behaviours[AppleServer.TOKEN] = behaviour
        who = subject()
        pair = lab.apple_driver(who, authorization_code=lab.apple.authorization_code(who))
        entries = lab.audit(pair["user"]["id"])
        assert any(entry["action"] == "apple_code_exchange" and entry["outcome"] != "done" for entry in entries), entries
        lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)
    lab.apple.behaviours.clear()
    who = subject()
    lab.apple_driver(who, authorization_code="unknown-to-apple")
    lab.apple_driver(who)
    time.sleep(1)
    assert lab.apple.count(AppleServer.REVOKE) == 0, "something was revoked that Apple never gave"
    assert "/elsewhere" not in {path for path, _, _ in lab.apple.requests}, "a redirection was followed"


@suite.alone("deletion revokes Apple's token: at once the account, when Apple is back the token, also over kill -9", **EXCHANGING)
def _(lab):
    who = subject()
    pair = lab.apple_driver(who, authorization_code=lab.apple.authorization_code(who))
    lab.apple.behaviours[AppleServer.REVOKE] = failing(503)
    lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)
    lab.expect_refused(pair["access_token"])
    wait_until(lambda: lab.apple.count(AppleServer.REVOKE) >= 1, 30, "the first try to revoke")
    lab.apple.stop()
    lab.restart()
    lab.apple.behaviours.clear()
    lab.apple.start()
    wait_until(lambda: lab.apple.revoked, 120, "the revocation")
    assert len(lab.apple.revoked) == 1 and lab.apple.revoked[0].startswith("apple-refresh-"), lab.apple.revoked
    assert not lab.apple.complaints, lab.apple.complaints
    form = [form for path, form, _ in lab.apple.requests if path == AppleServer.REVOKE][-1]
    assert form["client_id"] == CLIENT_ID and form.get("token_type_hint") == "refresh_token", form
    time.sleep(3)
    assert len(lab.apple.revoked) == 1, "revoked more than once"


@suite.alone("a client id of another app is exchanged and revoked as that app's", **EXCHANGING)
def _(lab):
    who = subject()
    code = lab.apple.authorization_code(who, OTHER_CLIENT_ID)
    pair = lab.apple_sign_in(who, {"authorization_code": code}, aud=OTHER_CLIENT_ID).expect_pair()
    lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)
    wait_until(lambda: lab.apple.revoked, 60, "the revocation")
    assert {form["client_id"] for _, form, _ in lab.apple.requests if form} == {OTHER_CLIENT_ID}
    assert not lab.apple.complaints, lab.apple.complaints


@suite.alone("two apps of one person are both revoked", **EXCHANGING)
def _(lab):
    who = subject()
    for client_id in (CLIENT_ID, OTHER_CLIENT_ID):
        code = lab.apple.authorization_code(who, client_id)
        pair = lab.apple_sign_in(who, {"authorization_code": code}, aud=client_id).expect_pair()
    lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)
    wait_until(lambda: len(lab.apple.revoked) == 2, 60, "both revocations")
    clients = [form["client_id"] for path, form, _ in lab.apple.requests if path == AppleServer.REVOKE]
    assert sorted(clients) == sorted([CLIENT_ID, OTHER_CLIENT_ID]), clients


# --- notifications ------------------------------------------------------------------------------------------------


def notify(lab, payload):
    return lab.call("POST", "/apple/notifications", {"payload": payload})


@suite.check("consent-revoked ends the sign-in sessions of that person; the account stays")
def _(lab):
    who = subject()
    pair, other = lab.apple_driver(who), lab.apple_driver()
    notify(lab, lab.apple.notice("consent-revoked", who)).expect(200)
    lab.expect_refused(pair["access_token"])
    lab.refresh(pair["refresh_token"]).expect_problem(401, "unauthorized")
    lab.expect_alive(other["access_token"])
    assert lab.apple_driver(who)["user"]["id"] == pair["user"]["id"]


@suite.check("account-delete erases the account")
def _(lab):
    who = subject()
    pair = lab.apple_driver(who)
    notify(lab, lab.apple.notice("account-delete", who)).expect(200)
    lab.expect_refused(pair["access_token"])
    assert lab.apple_driver(who)["user"]["id"] != pair["user"]["id"]


@suite.check("a notice counts once, by jti; also after kill -9")
def _(lab):
    who = subject()
    notice = lab.apple.notice("consent-revoked", who)
    lab.apple_driver(who)
    notify(lab, notice).expect(200)
    pair = lab.apple_driver(who)
    notify(lab, notice).expect(200)
    lab.restart()
    notify(lab, notice).expect(200)
    lab.expect_alive(pair["access_token"])


@suite.check("email-enabled, email-disabled, an unknown kind, an unknown person: taken, and nobody is signed out")
def _(lab):
    who = subject()
    pair = lab.apple_driver(who)
    for kind in ("email-disabled", "email-enabled", "something-new"):
        notify(lab, lab.apple.notice(kind, who)).expect(200)
    notify(lab, lab.apple.notice("account-delete", subject())).expect(200)
    lab.expect_alive(pair["access_token"])
    actions = [entry["action"] for entry in lab.audit(pair["user"]["id"])]
    assert "apple_notice" in actions, actions


@suite.check("attack: forged notices do nothing")
def _(lab):
    who = subject()
    pair = lab.apple_driver(who)
    now = int(time.time())
    apple, header = lab.apple, {"alg": "none", "kid": "key-1"}
    good = claims_of(apple.notice("account-delete", who))
    forged = {
        "wrong key": apple.notice("account-delete", who, key=RSAKey("key-1")),
        "unknown key": apple.notice("account-delete", who, key=RSAKey("unknown")),
        "alg none": jws(header, good, no_signature),
        "HS256": jws({"alg": "HS256", "kid": "key-1"}, good, hs256(apple.key.public_forms["PEM"])),
        "expired": apple.notice("account-delete", who, iat=now - 7200, exp=now - 3600),
        "wrong issuer": apple.notice("account-delete", who, iss="https://evil.example"),
        "wrong audience": apple.notice("account-delete", who, aud="org.example.other"),
        "garbage": "x", "empty": "", "an access token": pair["access_token"],
        "an identity token": apple.identity_token(who, nonce()),
        "events is no text": apple.notice("account-delete", who, events={"type": "account-delete", "sub": who}),
        "events is no JSON": apple.notice("account-delete", who, events="{"),
        "no jti": jws({"alg": "RS256", "kid": "key-1"}, {**good, "jti": None}, apple.key.sign),
    }
    for why, payload in forged.items():
        answer = notify(lab, payload)
        assert answer.status in (400, 401), f"{why}: {answer}"
    for body in ({}, {"payload": 1}, []):
        assert lab.call("POST", "/apple/notifications", body).status in (400, 401)
    lab.expect_alive(pair["access_token"])


@suite.check("settings that do not go together stop the start, each with its name")
def _(lab):
    key = str(lab.folder / "none.p8")
    apple = {"APPLE_TEAM_ID": "TEAM123456", "APPLE_KEY_ID": "KEY1234567", "APPLE_PRIVATE_KEY_FILE": key}
    wrong = {
        "APPLE_KEY_ID": {"APPLE_TEAM_ID": "TEAM123456"},
        "DATA_KEY": apple,
        "APPLE_PRIVATE_KEY_FILE": {**apple, "DATA_KEY": "0" * 64},
        "APPLE_JWKS_URL": {"APPLE_JWKS_URL": "http://keys.example.org/auth/keys"},
        "OTP_WEBHOOK_URL": {"OTP_WEBHOOK_URL": "http://codes.example.org/"},
        "OTP_WEBHOOK_SECRET": {"OTP_WEBHOOK_SECRET": "short"},
        "OTP_DELIVERY": {"APP_ENV": "production", "OTP_DELIVERY": "log"},
        "APPLE_CLIENT_IDS": {"APPLE_CLIENT_IDS": "a,,b"},
    }
    for name, environment in wrong.items():
        run = lab.dwell("check-config", **environment)
        assert run.returncode != 0 and name in run.stderr, (name, run)
    assert lab.dwell("check-config").returncode == 0


@suite.alone("without APPLE_CLIENT_IDS nobody signs in with Apple", APPLE_CLIENT_IDS="")
def _(lab):
    answer = lab.apple_sign_in(subject())
    assert answer.status in (401, 404, 503), answer


suite.main()
