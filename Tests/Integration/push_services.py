"""APNs and FCM on loopback, over TLS and HTTP/2 as Apple and Google document them. They can stall, close, send GOAWAY,
reset streams, and answer anything. This module is independent of the server under test."""

import collections
import json
import socket
import ssl
import threading
import time

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding
from hyperframe.frame import GoAwayFrame

from apple_server import RSAKey, claims_of, es256_key_file, from_base64url, has_es256_signature, header_of
from proxies import certificate

TEAM_ID, KEY_ID, TOPIC = "TEAM123456", "PUSH123456", "org.example.chargers"
PROJECT, ACCOUNT = "chargers-1234", "push@chargers-1234.iam.gserviceaccount.com"


class Request:
    def __init__(self, connection, fields):
        self.connection = connection
        self.fields = fields
        self.body = b""

    def __getitem__(self, name):
        return self.fields.get(name)

    def json(self):
        return json.loads(self.body)


class HTTP2Server:
    """A TLS server with HTTP/2. Subclasses define `answer(request)`, which returns what happens to a request:

    (status, fields, body)  an answer
    "stall"                 nothing, while other streams go on
    "dead"                  nothing more on the whole connection
    "reset", "refuse"       the stream is reset; "refuse" says that it was not processed (REFUSED_STREAM)
    "close"                 the connection is closed
    "hold"                  200, as soon as `hold` streams of the connection wait for it
    "goaway"                GOAWAY that names this stream as the last one, and 200 for this stream. Later streams of
                            the connection get no answer
    "goaway before"         GOAWAY that says that this stream was not processed"""

    def __init__(self, folder, streams=1000, alpn=("h2",)):
        folder.mkdir()
        self.certificate, key = certificate(folder)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(self.certificate, key)
        self.context.set_alpn_protocols(list(alpn))
        self.streams = streams
        self.requests = []
        self.connections = 0
        self.most_streams = 0
        self.hold = 1
        self.lock = threading.Lock()
        self.sockets = []
        self.listener = None
        self.port = 0

    def __enter__(self):
        self.listener = socket.create_server(("127.0.0.1", self.port))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Closes the listener and all connections."""
        # Only `shutdown` wakes the thread that accepts.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        with self.lock:
            sockets, self.sockets = self.sockets, []
        for each in sockets:
            try:
                each.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    @property
    def url(self):
        return f"https://localhost:{self.port}"

    def answer(self, request):
        raise NotImplementedError

    def accept(self):
        while True:
            try:
                plain, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(plain,), daemon=True).start()

    def serve(self, plain):
        try:
            with self.context.wrap_socket(plain, server_side=True) as secure:
                with self.lock:
                    self.connections += 1
                    number = self.connections
                    self.sockets.append(plain)
                    self.sockets.append(secure)
                if secure.selected_alpn_protocol() == "h2":
                    Connection(self, secure, number).run()
                else:
                    secure.recv(65_536)
                    secure.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
        except OSError:
            pass


class Connection:
    def __init__(self, server, sock, number):
        self.server, self.socket, self.number = server, sock, number
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False, header_encoding="utf-8"))
        self.h2.local_settings = h2.settings.Settings(client=False, initial_values={
            h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: server.streams})
        self.open = {}
        self.silent = False
        # The last stream that is answered after a GOAWAY; None before a GOAWAY.
        self.last_stream = None
        self.held = []

    def run(self):
        self.h2.initiate_connection()
        self.socket.sendall(self.h2.data_to_send())
        while True:
            try:
                data = self.socket.recv(65_536)
            except OSError:
                return
            if not data:
                return
            if self.silent:
                continue
            try:
                events = self.h2.receive_data(data)
            except h2.exceptions.ProtocolError:
                return
            self.server.most_streams = max(self.server.most_streams, self.h2.open_inbound_streams)
            for event in events:
                if self.handle(event) == "close":
                    return
            try:
                self.socket.sendall(self.h2.data_to_send())
            except OSError:
                return

    def handle(self, event):
        if isinstance(event, h2.events.RequestReceived):
            self.open[event.stream_id] = Request(self.number, dict(event.headers))
        elif isinstance(event, h2.events.DataReceived):
            self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            if event.stream_id in self.open:
                self.open[event.stream_id].body += event.data
        elif isinstance(event, h2.events.StreamReset):
            self.open.pop(event.stream_id, None)
        elif isinstance(event, h2.events.StreamEnded) and event.stream_id in self.open:
            return self.respond(event.stream_id, self.open[event.stream_id])
        return None

    def respond(self, stream, request):
        if self.last_stream is not None and stream > self.last_stream:
            return None
        with self.server.lock:
            self.server.requests.append(request)
        action = self.server.answer(request)
        codes = h2.errors.ErrorCodes
        if action == "stall":
            return None
        if action == "hold":
            self.held.append(stream)
            if len(self.held) == self.server.hold:
                for each in self.held:
                    self.h2.send_headers(each, [(":status", "200")], end_stream=True)
                    self.open.pop(each, None)
                self.held.clear()
            return None
        if action == "close":
            return "close"
        if action == "dead":
            self.silent = True
            return None
        if action in ("reset", "refuse"):
            self.h2.reset_stream(stream, codes.INTERNAL_ERROR if action == "reset" else codes.REFUSED_STREAM)
        elif action in ("goaway", "goaway before"):
            # Writes the GOAWAY frame without the h2 library. If the library itself sent GOAWAY, it would refuse to send
            # the response below.
            self.last_stream = stream if action == "goaway" else stream - 2
            frame = GoAwayFrame(0, last_stream_id=max(0, self.last_stream), error_code=codes.NO_ERROR)
            self.socket.sendall(self.h2.data_to_send() + frame.serialize())
            if action == "goaway":
                self.h2.send_headers(stream, [(":status", "200")], end_stream=True)
        else:
            status, fields, body = action
            self.h2.send_headers(stream, [(":status", str(status)), *fields.items()], end_stream=not body)
            if body:
                self.h2.send_data(stream, body, end_stream=True)
        self.open.pop(stream, None)
        return None


def error(status, reason, **more):
    return status, {"content-type": "application/json"}, json.dumps({"reason": reason, **more}).encode()


class APNs(HTTP2Server):
    """`script` has the actions for the next requests, for any device. If `script` is empty, a valid request gets
    `always`, or 200 if `always` is None. `complaints` lists the violations of Apple's documented rules."""

    def __init__(self, folder, **options):
        super().__init__(folder, **options)
        self.key_path = folder / "push-key.p8"
        self.public_key = es256_key_file(self.key_path)
        self.key_path.chmod(0o600)
        self.script = collections.deque()
        self.always = None
        self.complaints = []
        self.tokens = set()

    def environment(self):
        """Returns settings that make the server under test use this APNs for both environments of Apple."""
        return {"PUSH_APNS_TEAM_ID": TEAM_ID, "PUSH_APNS_KEY_ID": KEY_ID, "PUSH_APNS_KEY_FILE": str(self.key_path),
                "PUSH_APNS_TOPIC": TOPIC, "PUSH_APNS_URL": self.url, "PUSH_APNS_SANDBOX_URL": self.url,
                "PUSH_CA_FILE": str(self.certificate)}

    def complaint_about(self, request):
        """Returns what is wrong with the request, or None."""
        token = (request["authorization"] or "").removeprefix("bearer ")
        if token in self.tokens:
            token_rules = []
        else:
            try:
                header, claims = header_of(token), claims_of(token)
            except (ValueError, IndexError):
                return "there is no provider token"
            token_rules = [
                ("alg", header.get("alg") == "ES256"), ("kid", header.get("kid") == KEY_ID),
                ("iss", claims.get("iss") == TEAM_ID), ("iat", abs(claims.get("iat", 0) - time.time()) < 3600),
                ("signature", has_es256_signature(token, self.public_key)),
            ]
        kind, topic = request["apns-push-type"], request["apns-topic"]
        rules = token_rules + [
            ("method", request[":method"] == "POST"), ("path", (request[":path"] or "").startswith("/3/device/")),
            ("type", kind in ("alert", "background", "liveactivity")),
            ("topic", topic == TOPIC + (".push-type.liveactivity" if kind == "liveactivity" else "")),
            ("priority", request["apns-priority"] in (("5",) if kind == "background" else ("5", "10"))),
            ("expiration", (request["apns-expiration"] or "").isdigit()),
            ("collapse id", len(request["apns-collapse-id"] or "") <= 64),
            ("payload", len(request.body) <= 4096 and "aps" in request.json()),
        ]
        broken = next((name for name, holds in rules if not holds), None)
        if not broken:
            self.tokens.add(token)
        return broken

    def answer(self, request):
        complaint = self.complaint_about(request)
        if complaint:
            self.complaints.append((complaint, request.fields, request.body))
            return error(400, "BadRule")
        with self.lock:
            if self.script:
                return self.script.popleft()
        return self.always or (200, {"apns-id": "EC1BF194-B3B2-424A-89A9-5A918A6E6B5D"}, b"")


class FCM(HTTP2Server):
    """`script` works as in `APNs`. The path /token issues access tokens over HTTP/1.1 on the same port. If
    `token_answer` (status, body) is set, it replaces the response of /token."""

    def __init__(self, folder, **options):
        super().__init__(folder, alpn=("h2", "http/1.1"), **options)
        self.key = RSAKey("google-key")
        self.account_path = folder / "service-account.json"
        self.script = collections.deque()
        self.complaints = []
        self.token_requests = 0
        self.valid = set()
        self.token_answer = None

    def __enter__(self):
        super().__enter__()
        self.account_path.write_text(json.dumps({
            "type": "service_account", "project_id": PROJECT, "private_key_id": self.key.kid,
            "private_key": self.key.private.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()).decode(),
            "client_email": ACCOUNT, "token_uri": f"{self.url}/token"}))
        self.account_path.chmod(0o600)
        return self

    def environment(self):
        return {"PUSH_FCM_SERVICE_ACCOUNT_FILE": str(self.account_path), "PUSH_FCM_URL": self.url,
                "PUSH_CA_FILE": str(self.certificate)}

    def serve(self, plain):
        try:
            with self.context.wrap_socket(plain, server_side=True) as secure:
                if secure.selected_alpn_protocol() == "h2":
                    with self.lock:
                        self.connections += 1
                        number = self.connections
                        self.sockets.append(secure)
                    Connection(self, secure, number).run()
                else:
                    self.issue(secure)
        except OSError:
            pass

    def issue(self, secure):
        """Answers one HTTP/1.1 request for an access token."""
        data = b""
        while b"\r\n\r\n" not in data:
            data += secure.recv(65_536)
        head, body = data.split(b"\r\n\r\n", 1)
        length = int(next(line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")))
        while len(body) < length:
            body += secure.recv(65_536)
        self.token_requests += 1
        form = dict(pair.split("=", 1) for pair in body.decode().split("&"))
        token = form["assertion"]
        header, claims = header_of(token), claims_of(token)
        signed, signature = token.rsplit(".", 1)
        self.key.private.public_key().verify(
            from_base64url(signature), signed.encode(), padding.PKCS1v15(), hashes.SHA256())
        rules = [("alg", header["alg"] == "RS256"), ("kid", header["kid"] == self.key.kid),
                 ("iss", claims["iss"] == ACCOUNT), ("aud", claims["aud"] == f"{self.url}/token"),
                 ("scope", claims["scope"] == "https://www.googleapis.com/auth/firebase.messaging"),
                 ("iat", abs(claims["iat"] - time.time()) < 60), ("exp", claims["exp"] - claims["iat"] <= 3600),
                 ("grant", form["grant_type"] == "urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer")]
        self.complaints += [name for name, holds in rules if not holds]
        status, answer = 200, json.dumps({
            "access_token": f"ya29.token-{self.token_requests}", "expires_in": 3599, "token_type": "Bearer"}).encode()
        if self.token_answer:
            status, answer = self.token_answer
        else:
            self.valid.add(f"ya29.token-{self.token_requests}")
        secure.sendall(b"HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (
            status, len(answer)) + answer)

    def answer(self, request):
        token = (request["authorization"] or "").removeprefix("Bearer ")
        if token not in self.valid:
            return fcm_error(401, "UNAUTHENTICATED")
        message = request.json().get("message", {})
        rules = [("path", request[":path"] == f"/v1/projects/{PROJECT}/messages:send"),
                 ("token", bool(message.get("token"))), ("ttl", message.get("android", {}).get("ttl", "")[-1:] == "s"),
                 ("priority", message.get("android", {}).get("priority") in ("HIGH", "NORMAL"))]
        broken = [name for name, holds in rules if not holds]
        if broken:
            self.complaints.append((broken, request.fields, request.body))
            return fcm_error(400, "INVALID_ARGUMENT")
        with self.lock:
            if self.script:
                return self.script.popleft()
        return 200, {"content-type": "application/json"}, json.dumps(
            {"name": f"projects/{PROJECT}/messages/0:1500415314455276"}).encode()


def fcm_error(status, word, code=None, **fields):
    """Returns an error response of FCM. `word` is Google's general status, and `code` is FCM's own error code."""
    details = [{"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": code}] if code else []
    return status, {"content-type": "application/json", **fields}, json.dumps(
        {"error": {"code": status, "message": "text", "status": word, "details": details}}).encode()
