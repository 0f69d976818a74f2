"""Access tokens, and an HTTP client that sends requests on one keep-alive connection."""

import base64
import collections
import hashlib
import hmac
import json
import socket
import time

# The signing secret of the servers in these checks, unless a check sets another one.
SECRET = "integration-tests-sign-with-this-secret"


def token(driver, lifetime_seconds=7200, ahead_seconds=0):
    """Returns an access token as another service with the shared secret would issue it. The clock of that service is
    `ahead_seconds` ahead."""

    def encode(part):
        return base64.urlsafe_b64encode(part).rstrip(b"=")

    now = int(time.time()) + ahead_seconds
    claims = {"sub": driver, "iat": now, "exp": now + lifetime_seconds, "iss": "dwell", "aud": "dwell"}
    signed = encode(b'{"alg":"HS256","typ":"JWT"}') + b"." + encode(json.dumps(claims).encode())
    signature = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
    return (signed + b"." + encode(signature)).decode()


def rendered(method, path, access_token, body=None, headers=None):
    """Returns a request as bytes. `body` is JSON as bytes."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if access_token:
        lines.append(f"Authorization: Bearer {access_token}")
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


Answer = collections.namedtuple("Answer", "status headers body")


def parsed(received):
    """Returns the first response in `received` and its length in bytes, or None if the response is incomplete."""
    end = received.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = received[:end].decode("latin-1").split("\r\n")
    headers = {}
    for line in head[1:]:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    size = end + 4 + int(headers.get("content-length", "0"))
    if len(received) < size:
        return None
    return Answer(int(head[0].split(" ", 2)[1]), headers, bytes(received[end + 4:size])), size


class Client:
    """A keep-alive connection that waits for each response. A context manager."""

    def __init__(self, port, access_token, timeout=20):
        self.token = access_token
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.received = bytearray()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def request(self, method, path, body=None, headers=None):
        self.socket.sendall(rendered(method, path, self.token, body, headers))
        while (answer := parsed(self.received)) is None:
            more = self.socket.recv(65536)
            if not more:
                raise ConnectionError("closed before the answer")
            self.received += more
        del self.received[:answer[1]]
        return answer[0]

    def post(self, path, event, headers=None):
        """Posts `event`, a dictionary. Returns the status and the response's JSON."""
        answer = self.request("POST", path, json.dumps(event).encode(), headers)
        return answer.status, json.loads(answer.body)

    def get(self, path):
        """Returns the status and the response's JSON."""
        answer = self.request("GET", path)
        return answer.status, json.loads(answer.body)
