"""Apple's App Store Server API on loopback, for production and sandbox. It follows Apple's documentation and is
independent of the server under test."""

import http.server
import json
import threading
import time
import urllib.parse

from app_store import BUNDLE_ID, DAY, now_ms
from apple_server import claims_of, es256_key_file, has_es256_signature, header_of
from loopback import LoopbackServer

ISSUER_ID, KEY_ID = "57246542-96fe-1a63-e053-0824d011072a", "2X9R4HXF34"
PAGE = 20
# The text before the number in a pagination token. The server must percent-encode all of these characters.
TOKEN = "page+/=&"
# The number of days for which Apple keeps notifications. A request for an earlier time is refused.
HISTORY_DAYS = {"production": 180, "sandbox": 30}


class AppStoreAPI(LoopbackServer):
    """`transactions` is {environment: {id: signed}}, and `history` is {environment: [(ms, signedPayload, accepted)]}.
    `consumption` has one entry (environment, transaction id, body) for each accepted body.

    While `released` is false, the production environment rejects every request. Apple does the same before the first
    release of an app.

    `behaviours` maps an environment to a behaviour (see apple_server.py)."""

    def __init__(self, folder):
        super().__init__(Handler)
        self.key_path = folder / "subscription-key.p8"
        self.public_key = es256_key_file(self.key_path)
        self.transactions = {"production": {}, "sandbox": {}}
        self.history = {"production": [], "sandbox": []}
        self.consumption = []
        self.released = True
        self.behaviours = {}
        self.requests = []
        self.complaints = []
        self.lock = threading.Lock()

    def environment(self):
        url = f"http://127.0.0.1:{self.port}"
        return {"PURCHASE_API_ISSUER_ID": ISSUER_ID, "PURCHASE_API_KEY_ID": KEY_ID,
                "PURCHASE_API_PRIVATE_KEY_FILE": str(self.key_path), "PURCHASE_API_URL": f"{url}/production",
                "PURCHASE_API_SANDBOX_URL": f"{url}/sandbox"}

    def count(self, part=""):
        with self.lock:
            return sum(part in path for path in self.requests)

    def complaint_about(self, authorization):
        """Returns what is wrong with the token, or None if it is valid."""
        try:
            token = authorization.removeprefix("Bearer ")
            header, claims = header_of(token), claims_of(token)
        except (AttributeError, ValueError, IndexError):
            return "there is no token"
        now = time.time()
        rules = [
            ("alg", header.get("alg") == "ES256"), ("kid", header.get("kid") == KEY_ID),
            ("typ", header.get("typ") == "JWT"), ("iss", claims.get("iss") == ISSUER_ID),
            ("aud", claims.get("aud") == "appstoreconnect-v1"), ("bid", claims.get("bid") == BUNDLE_ID),
            ("iat", abs(claims.get("iat", 0) - now) < 1500),
            # Apple allows a lifetime of up to an hour.
            ("exp", now < claims.get("exp", 0) <= claims.get("iat", 0) + 3600),
            ("signature", has_es256_signature(token, self.public_key)),
        ]
        return next((f"{name}: {header} {claims}" for name, holds in rules if not holds), None)

    def answer(self, environment, path, query, body):
        if environment == "production" and not self.released:
            return 401, b"Unauthenticated\n"
        if path.startswith("/inApps/v1/transactions/"):
            signed = self.transactions[environment].get(path.rsplit("/", 1)[1])
            if signed:
                return 200, json.dumps({"signedTransactionInfo": signed}).encode()
            return 404, b'{"errorCode":4040010,"errorMessage":"Transaction id not found."}'
        if path == "/inApps/v1/notifications/history":
            start, end = body["startDate"], body["endDate"]
            if not now_ms() - HISTORY_DAYS[environment] * DAY <= start < end:
                return 400, b'{"errorCode":4000012,"errorMessage":"Invalid request. The start date is too far in the past."}'
            found = [payload for at, payload, accepted in self.history[environment]
                     if start <= at <= end and not (body.get("onlyFailures") and accepted)]
            first = int(query.get("paginationToken", [TOKEN + "0"])[0].removeprefix(TOKEN))
            page = found[first:first + PAGE]
            more = first + PAGE < len(found)
            return 200, json.dumps({
                "notificationHistory": [{"signedPayload": one, "sendAttempts": []} for one in page],
                "hasMore": more, **({"paginationToken": TOKEN + str(first + PAGE)} if more else {})}).encode()
        if path.startswith("/inApps/v2/transactions/consumption/"):
            # Apple requires that the consent is `true` and that `sampleContentProvided` and `deliveryStatus` are
            # present. The server under test sends no other members.
            assert body["customerConsented"] is True and isinstance(body["sampleContentProvided"], bool), body
            assert body["deliveryStatus"] == "DELIVERED" and len(body) == 3, body
            with self.lock:
                self.consumption.append((environment, path.rsplit("/", 1)[1], body))
            return 202, b""
        return 404, b'{"errorCode":4040000,"errorMessage":"?"}'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def do_GET(self):
        self.respond(None)

    def do_POST(self):
        self.respond(json.loads(self.rfile.read(int(self.headers.get("Content-Length", "0")))))

    do_PUT = do_POST

    def respond(self, body):
        parts = urllib.parse.urlsplit(self.path)
        environment, path = parts.path[1:].split("/", 1)
        with self.owner.lock:
            self.owner.requests.append(self.path)
            complaint = self.owner.complaint_about(self.headers.get("Authorization"))
            if complaint:
                self.owner.complaints.append(complaint)
        behaviour = self.owner.behaviours.get(environment)
        is_sent = self.command == "PUT"
        good = (401, b"Unauthenticated\n") if complaint else (202, b"") if is_sent and behaviour else self.owner.answer(
            environment, "/" + path, urllib.parse.parse_qs(parts.query), body)
        try:
            if behaviour:
                behaviour(self, *good)
            else:
                self.answer(*good)
        except (ConnectionError, BrokenPipeError):
            pass

    def answer(self, status, body, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
