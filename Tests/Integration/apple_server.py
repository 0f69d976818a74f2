"""Apple on loopback, as the documents of Sign in with Apple describe it: a key set, a token endpoint and a revoke
endpoint. This module is independent of the server under test."""

import base64
import datetime
import hashlib
import hmac
import http.server
import ipaddress
import json
import secrets
import ssl
import threading
import time
import urllib.parse

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from loopback import LoopbackServer

ISSUER = "https://appleid.apple.com"
NEW_ISSUER = "https://account.apple.com"
CLIENT_ID = "org.example.chargers"
OTHER_CLIENT_ID = "org.example.chargers.watch"
TEAM_ID = "TEAM123456"
KEY_ID = "KEY1234567"


def base64url(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def number(value):
    return base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def compact(value):
    return json.dumps(value, separators=(",", ":")).encode()


def claims_of(token):
    """Returns a token's claims without verifying its signature."""
    return json.loads(from_base64url(token.split(".")[1]))


def header_of(token):
    return json.loads(from_base64url(token.split(".")[0]))


def nonce_claim(raw):
    return hashlib.sha256(raw.encode()).hexdigest()


# --- signing ------------------------------------------------------------------------------------------------------


class RSAKey:
    def __init__(self, kid, bits=2048):
        self.kid = kid
        self.private = rsa.generate_private_key(public_exponent=65537, key_size=bits)

    @property
    def jwk(self):
        numbers = self.private.public_key().public_numbers()
        return {"kty": "RSA", "kid": self.kid, "use": "sig", "alg": "RS256",
                "n": number(numbers.n), "e": number(numbers.e)}

    @property
    def public_forms(self):
        """Returns the public key in the formats that an attacker could use as an HMAC secret."""
        public = self.private.public_key()
        encodings, formats = serialization.Encoding, serialization.PublicFormat
        return {
            "PEM": public.public_bytes(encodings.PEM, formats.SubjectPublicKeyInfo),
            "PEM without the last line feed": public.public_bytes(encodings.PEM, formats.SubjectPublicKeyInfo).strip(),
            "DER": public.public_bytes(encodings.DER, formats.SubjectPublicKeyInfo),
            "PKCS#1": public.public_bytes(encodings.PEM, formats.PKCS1),
            "the modulus": from_base64url(self.jwk["n"]),
            "the modulus as text": self.jwk["n"].encode(),
            "the JWK": compact(self.jwk),
        }

    def sign(self, data, algorithm=hashes.SHA256):
        return self.private.sign(data, padding.PKCS1v15(), algorithm())


def jws(header, claims, sign):
    """Returns a compact JWS. `sign` is a function that returns the signature of the given bytes."""
    signed = base64url(compact(header)) + "." + base64url(claims if isinstance(claims, bytes) else compact(claims))
    return signed + "." + base64url(sign(signed.encode()))


def hs256(key):
    return lambda data: hmac.new(key, data, hashlib.sha256).digest()


def no_signature(_):
    return b""


def es256_key_file(path):
    """Writes a new P-256 private key as PEM, in the format of Apple's .p8 files and of the server's own key file.
    Returns the public key."""
    private = ec.generate_private_key(ec.SECP256R1())
    path.write_bytes(private.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    path.chmod(0o600)
    return private.public_key()


def has_es256_signature(token, public_key):
    signed, _, signature = token.rpartition(".")
    raw = from_base64url(signature)
    if len(raw) != 64:
        return False
    der = utils.encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    try:
        public_key.verify(der, signed.encode(), ec.ECDSA(hashes.SHA256()))
        return True
    except InvalidSignature:
        return False


def es256_public_key(jwk):
    """Returns the public key of a JWK in a key set."""
    x, y = (int.from_bytes(from_base64url(jwk[name]), "big") for name in ("x", "y"))
    return ec.EllipticCurvePublicNumbers(x, y, ec.SECP256R1()).public_key()


def self_signed(folder):
    """Writes a self-signed certificate for 127.0.0.1, and the certificate's private key. Returns the paths of both
    files."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.timezone.utc)
    certificate = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1)).not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256()))
    paths = folder / "certificate.pem", folder / "certificate-key.pem"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return paths


# --- misbehaviour -------------------------------------------------------------------------------------------------

# A behaviour replaces the good response of a path. It is a function that gets the handler and the good response
# (status, body), and sends another response.


def stalling(seconds):
    def behave(handler, status, body):
        time.sleep(seconds)
        handler.answer(status, body)
    return behave


def failing(status):
    return lambda handler, *_: handler.answer(status, b'{"error":"server_error"}')


def saying(body, status=200):
    return lambda handler, *_: handler.answer(status, body)


def redirecting(location):
    return lambda handler, *_: handler.answer(302, b"", [("Location", location)])


def oversized(bytes_count):
    """Sends the good response, padded with white space to this size."""
    return lambda handler, status, body: handler.answer(status, body + b" " * (bytes_count - len(body)))


def endless(handler, status, _):
    """Sends a chunked body without an end."""
    handler.send_response(status)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for _ in range(4096):
        handler.wfile.write(b"4000\r\n" + b" " * 0x4000 + b"\r\n")


def dripping(seconds):
    """Sends one byte every 0.2 s for at most `seconds`, so the connection is never idle. A body of more than 5 ×
    `seconds` bytes stays incomplete."""
    def behave(handler, status, body):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        ends = time.monotonic() + seconds
        for byte in body:
            if time.monotonic() > ends:
                return
            handler.wfile.write(bytes([byte]))
            handler.wfile.flush()
            time.sleep(0.2)
    return behave


def hanging_up(handler, *_):
    handler.close_connection = True


# --- the server ---------------------------------------------------------------------------------------------------


class AppleServer(LoopbackServer):
    """`requests` is a list of (path, form, time); the form of a GET is None. `behaviours` maps paths to behaviours."""

    KEYS, TOKEN, REVOKE = "/auth/keys", "/auth/token", "/auth/revoke"

    def __init__(self, team_public_key=None):
        super().__init__(AppleHandler)
        self.team_public_key = team_public_key
        self.key = RSAKey("key-1")
        self.published = [self.key]
        self.cache_control = None
        self.behaviours = {}
        self.requests = []
        # Maps an authorization code to (subject, client id). A code can be used once, as at Apple.
        self.codes = {}
        self.revoked = []
        self.complaints = []
        self.lock = threading.Lock()

    def start_with_tls(self, certificate, key):
        """Starts this server over TLS with a certificate that no client trusts."""
        self.start()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def environment(self):
        return {"APPLE_CLIENT_IDS": f"{CLIENT_ID},{OTHER_CLIENT_ID}", "APPLE_JWKS_URL": self.url + self.KEYS,
                "APPLE_TOKEN_URL": self.url + self.TOKEN, "APPLE_REVOKE_URL": self.url + self.REVOKE}

    def count(self, path):
        with self.lock:
            return sum(1 for asked, _, _ in self.requests if asked == path)

    def publish(self, *keys):
        self.published = list(keys)

    # --- signed data

    def claims(self, subject, raw_nonce, **changes):
        """Returns the claims of an identity token. `changes` replaces claims; None removes a claim."""
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": CLIENT_ID, "sub": subject, "iat": now, "exp": now + 600,
                  "nonce": nonce_claim(raw_nonce), "nonce_supported": True, "auth_time": now,
                  "email": f"{subject}@privaterelay.example", "email_verified": "true", "is_private_email": "true",
                  **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def identity_token(self, subject, raw_nonce, key=None, header=None, **changes):
        key = key or self.key
        return jws({"alg": "RS256", "kid": key.kid, **(header or {})}, self.claims(subject, raw_nonce, **changes), key.sign)

    def notice(self, kind, subject, jti=None, key=None, events=None, **changes):
        """Returns the payload of a server-to-server notification."""
        key = key or self.key
        now = int(time.time())
        event = {"type": kind, "sub": subject, "event_time": now * 1000, "email": f"{subject}@privaterelay.example",
                 "is_private_email": "true"}
        claims = {"iss": ISSUER, "aud": CLIENT_ID, "iat": now, "exp": now + 600, "jti": jti or secrets.token_hex(8),
                  "events": json.dumps(event) if events is None else events, **changes}
        claims = {name: value for name, value in claims.items() if value is not None}
        return jws({"alg": "RS256", "kid": key.kid}, claims, key.sign)

    def authorization_code(self, subject, client_id=CLIENT_ID):
        code = "c" + secrets.token_hex(16)
        self.codes[code] = (subject, client_id)
        return code

    # --- responses

    def key_set(self):
        return 200, compact({"keys": [key.jwk for key in self.published]})

    def token_answer(self, form):
        complaint = self.complaint_about(form)
        if complaint:
            self.complaints.append(complaint)
            return 400, b'{"error":"invalid_client"}'
        if form.get("grant_type") != "authorization_code":
            return 400, b'{"error":"unsupported_grant_type"}'
        subject, client_id = self.codes.pop(form.get("code"), (None, None))
        if subject is None or client_id != form.get("client_id"):
            return 400, b'{"error":"invalid_grant"}'
        return 200, self.tokens(subject)

    def tokens(self, subject, refresh_token=None):
        """Returns the body of a token response."""
        refresh_token = refresh_token or "apple-refresh-" + secrets.token_hex(16)
        identity = self.identity_token(subject, "", nonce=None)
        return compact({"access_token": "apple-access-" + secrets.token_hex(16), "token_type": "Bearer",
                        "expires_in": 3600, "refresh_token": refresh_token, "id_token": identity})

    def revoke_answer(self, form):
        complaint = self.complaint_about(form)
        if complaint:
            self.complaints.append(complaint)
            return 400, b'{"error":"invalid_client"}'
        with self.lock:
            self.revoked.append(form.get("token"))
        return 200, b""

    def complaint_about(self, form):
        """Returns what is wrong with the client secret, or None if it is valid."""
        try:
            secret = form["client_secret"]
            header, claims = header_of(secret), claims_of(secret)
        except (KeyError, ValueError, IndexError):
            return "there is no client secret"
        now = time.time()
        rules = [
            ("alg", header.get("alg") == "ES256"), ("kid", header.get("kid") == KEY_ID),
            ("iss", claims.get("iss") == TEAM_ID), ("sub", claims.get("sub") == form.get("client_id")),
            ("aud", claims.get("aud") == ISSUER), ("iat", abs(claims.get("iat", 0) - now) < 300),
            # Apple allows a lifetime of six months, but a secret for one call needs only minutes.
            ("exp", now < claims.get("exp", 0) <= now + 600),
            ("signature", self.team_public_key and has_es256_signature(secret, self.team_public_key)),
        ]
        return next((f"the client secret's {name} is wrong: {header} {claims}" for name, holds in rules if not holds), None)


class AppleHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def do_GET(self):
        self.respond(None, lambda _: self.owner.key_set() if self.path == AppleServer.KEYS else (404, b"{}"))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
        form = dict(urllib.parse.parse_qsl(body, keep_blank_values=True))
        answers = {AppleServer.TOKEN: self.owner.token_answer, AppleServer.REVOKE: self.owner.revoke_answer}
        self.respond(form, answers.get(self.path, lambda _: (404, b"{}")))

    def respond(self, form, good):
        with self.owner.lock:
            self.owner.requests.append((self.path, form, time.monotonic()))
        behaviour = self.owner.behaviours.get(self.path)
        try:
            if behaviour is None:
                self.answer(*good(form))
            else:
                # The behaviour replaces the whole POST, so this server does not execute the request.
                behaviour(self, *(good(form) if form is None else (200, b"{}")))
        except (ConnectionError, BrokenPipeError):
            pass

    def answer(self, status, body, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", "application/json;charset=UTF-8")
        self.send_header("Content-Length", str(len(body)))
        if self.owner.cache_control and self.path == AppleServer.KEYS:
            self.send_header("Cache-Control", self.owner.cache_control)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
