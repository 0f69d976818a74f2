"""The webhook that the server calls if OTP_DELIVERY is `webhook`. It checks the signature of each request (contract,
section 6). It shares only the webhook secret with the server under test."""

import hashlib
import hmac
import http.server
import json
import re
import secrets
import threading
import time

from loopback import LoopbackServer
from processes import wait_until


class CodeReceiver(LoopbackServer):
    """`calls` has all received requests. `codes` maps each phone number to the code of its last request that got 200.
    `complaints` lists violations of the contract; such a request may nevertheless get 200."""

    PATH = "/codes"
    # The target of redirections.
    ELSEWHERE = "/elsewhere"

    def __init__(self):
        super().__init__(CodeHandler)
        self.secret = "webhook-" + secrets.token_hex(16)
        self.calls = []
        self.codes = {}
        self.complaints = []
        # The statuses of the next responses. After these, every response is 200. An entry may be (seconds, status),
        # which delays the response.
        self.script = []
        # If set, only requests for this phone number use up `script`, so that late requests of earlier checks do not.
        self.scripted_phone = None
        self.lock = threading.Lock()

    def environment(self):
        return {"OTP_DELIVERY": "webhook", "OTP_WEBHOOK_URL": f"http://127.0.0.1:{self.port}{self.PATH}",
                "OTP_WEBHOOK_SECRET": self.secret}

    def next_code(self, phone, seen=None, seconds=20):
        """Waits until this phone number has a code that differs from `seen`, and returns that code."""
        wait_until(lambda: self.codes.get(phone, seen) != seen, seconds, f"a code for {phone}")
        return self.codes[phone]

    def take(self, headers, body):
        with self.lock:
            self.calls.append((dict(headers), body))
            complaint = self.complaint_about(headers, body)
            if complaint:
                self.complaints.append(complaint)
            delay, status = 0, 200
            phone = None if complaint else json.loads(body)["phone"]
            if self.script and self.scripted_phone in (None, phone):
                step = self.script.pop(0)
                delay, status = step if isinstance(step, tuple) else (0, step)
            if status == 200:
                message = json.loads(body)
                self.codes[message["phone"]] = message["code"]
        time.sleep(delay)
        return status

    def complaint_about(self, headers, body):
        """Returns the first violation of the contract, or None if there is none."""
        match = re.fullmatch(r"t=(\d+),v1=([0-9a-f]{64})", headers.get("X-Dwell-Signature", ""))
        if not match:
            return f"X-Dwell-Signature is {headers.get('X-Dwell-Signature')!r}"
        sent_at, signature = match.groups()
        expected = hmac.new(self.secret.encode(), f"{sent_at}.".encode() + body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(signature, expected):
            return "the signature is of something else"
        if abs(int(sent_at) - time.time()) > 60:
            return f"the signature's time is {sent_at}"
        if headers.get("Content-Type", "").split(";")[0] != "application/json":
            return f"Content-Type is {headers.get('Content-Type')}"
        message = json.loads(body)
        if set(message) != {"phone", "code", "expires_in"}:
            return f"the members are {sorted(message)}"
        if not re.fullmatch(r"[0-9]{6}", message["code"]) or not re.fullmatch(r"\+[1-9][0-9]{7,14}", message["phone"]):
            return "code or phone have another form"
        if not 0 < message["expires_in"] <= 600:
            return f"expires_in is {message['expires_in']}"
        return None


class CodeHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def do_GET(self):
        self.owner.complaints.append(f"GET {self.path}")
        self.send_error(404)

    def do_POST(self):
        if self.path != CodeReceiver.PATH:
            self.owner.complaints.append(f"POST {self.path}")
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        status = self.owner.take(self.headers, body)
        try:
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"http://127.0.0.1:{self.owner.port}{CodeReceiver.ELSEWHERE}")
            self.send_header("Content-Length", "0")
            self.end_headers()
        except (ConnectionError, BrokenPipeError):
            pass

    def log_message(self, *_):
        pass
