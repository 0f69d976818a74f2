"""What the sign-in checks share: a server with replacements for Apple and the code receiver, functions for the routes,
and the required responses. This module depends on the contract (sections 5 and 6), but not on the server's code."""

import argparse
import base64
import contextlib
import functools
import hashlib
import hmac
import itertools
import json
import os
import pathlib
import re
import secrets
import subprocess
import sys
import threading
import time

from app_store import AppStore
from apple_server import KEY_ID, TEAM_ID, AppleServer, base64url, claims_of, es256_key_file
from client import SECRET, Client
from code_receiver import CodeReceiver
from processes import POSTGRES, UNLIMITED, Folder, Server, arguments
from report import Report

EXCHANGE_NUMBERS = itertools.count(1)
GARBAGE = ["x", "a.b.c", "e30.e30.e30", "x" * 4000]


# --- responses ----------------------------------------------------------------------------------------------------


class Answer:
    def __init__(self, what, answer):
        self.what = what
        self.status, self.headers, self.body = answer

    @property
    def json(self):
        return json.loads(self.body)

    def __str__(self):
        return f"{self.what}: {self.status} {self.headers} {self.body[:600].decode(errors='replace')}"

    def expect(self, status):
        assert self.status == status, f"{status} expected. {self}"
        return self

    def expect_problem(self, status, code):
        """Expects an error in the form that all errors have (section 5)."""
        self.expect(status)
        assert self.headers.get("content-type", "").split(";")[0] == "application/problem+json", self
        problem = self.json
        assert problem["status"] == status and problem["code"] == code, self
        assert all(isinstance(problem[name], str) and problem[name] for name in ("type", "title", "detail")), self
        assert problem["error"] == problem["detail"], self
        assert problem["request_id"] == self.headers["x-request-id"], self
        assert problem["retryable"] == (status in (408, 429, 500, 503)), self
        if status in (429, 503):
            assert 1 <= int(self.headers["retry-after"]) <= 3600, self
        return self

    def expect_pointers(self, *pointers):
        self.expect_problem(400, "validation_failed")
        assert sorted(error["pointer"] for error in self.json["errors"]) == sorted(pointers), self
        return self

    def expect_no_store(self):
        assert "no-store" in self.headers.get("cache-control", ""), self
        return self

    def expect_pair(self):
        """Expects a token pair as the contract defines it, in a response with no-store. Returns the pair."""
        self.expect(200).expect_no_store()
        pair = self.json
        assert set(pair) == {"access_token", "refresh_token", "token_type", "expires_in", "user"}, self
        assert pair["token_type"] == "bearer" and isinstance(pair["expires_in"], int), self
        # The token is opaque. 256 bits in base64url are 43 characters.
        assert re.fullmatch(r"[A-Za-z0-9_-]{43,}", pair["refresh_token"]), self
        expect_user(pair["user"], self)
        return pair


def expect(run, status, *parts):
    """Expects that a command ended with this status and printed each of these texts. Returns the command's result."""
    assert run.returncode == status, run
    for part in parts:
        assert part in run.stdout + run.stderr, (part, run)
    return run


def expect_user(user, why=""):
    assert set(user) <= {"id", "name", "email", "phone", "role", "app_account_token"} and isinstance(user.get("id"), str), why


def keep_exchange(answer):
    """Records the response for description.py, which compares every response of the run with openapi.json."""
    if folder := os.environ.get("DWELL_EXCHANGES"):
        fields = "".join(f"{name}: {value}\r\n" for name, value in answer.headers.items())
        head = f"{answer.what}\nHTTP/1.1 {answer.status} -\r\n{fields}\r\n"
        pathlib.Path(folder, f"signing-in-{os.getpid()}-{next(EXCHANGE_NUMBERS)}").write_bytes(head.encode() + answer.body)


def same_refusal(answers):
    """Checks that all responses are the same rejection, apart from the request id, the date, the content length and the
    RateLimit field."""
    def essence(answer):
        fields = {name: value for name, value in answer.headers.items()
                  if name not in ("x-request-id", "date", "ratelimit", "content-length")}
        return answer.status, fields, {**answer.json, "request_id": ""}
    first = essence(answers[0])
    for answer in answers[1:]:
        assert essence(answer) == first, f"{answer} differs from {answers[0]}"


# --- the lab ------------------------------------------------------------------------------------------------------


class Lab:
    """A server in its own directory, with replacements for Apple and the code receiver. A context manager."""

    def __init__(self, options, exchanging=False, limits=False, **environment):
        # All labs send requests from the same address, and some limits are per address. A lab that tests limits
        # therefore uses no Redis, where other labs could add to its counts.
        self.options = argparse.Namespace(**{**vars(options), "redis_url": None}) if limits else options
        self.exchanging = exchanging
        self.stack = contextlib.ExitStack()
        self.secrets = set()
        self.phones = set()
        self.settings = {**UNLIMITED, "LOG_LEVEL": "trace", **({} if limits else {"RATE_LIMIT_AUTH": "0"}), **environment}

    def __enter__(self):
        self.folder = self.stack.enter_context(Folder())
        key = es256_key_file(self.folder / "apple.p8") if self.exchanging else None
        self.apple = self.stack.enter_context(AppleServer(key))
        self.receiver = self.stack.enter_context(CodeReceiver())
        self.store = AppStore()
        environment = {**self.apple.environment(), **self.receiver.environment(), **self.store.environment(self.folder)}
        if self.exchanging:
            environment |= {"APPLE_TEAM_ID": TEAM_ID, "APPLE_KEY_ID": KEY_ID,
                            "APPLE_PRIVATE_KEY_FILE": str(self.folder / "apple.p8"),
                            "DATA_KEY": base64.b64encode(b"0123456789abcdef0123456789abcdef").decode()}
        self.environment = {**environment, **self.settings}
        self.server = self.start_server()
        return self

    def __exit__(self, *exception):
        return self.stack.__exit__(*exception)

    def start_server(self, name="server", **environment):
        folder = self.folder / name
        folder.mkdir()
        server = Server(self.options, folder, {**self.environment, **environment})
        return self.stack.enter_context(server)

    def second_server(self, **environment):
        """Starts another server process on the same database."""
        return self.start_server("second", **self.server.database_settings(), **environment)

    def restart(self, clean=False):
        if clean:
            self.server.stop()
        else:
            self.server.kill()
        self.server.start()

    # --- requests

    def call(self, method, path, body=None, token=None, headers=None, server=None):
        """Sends a request. `body` is a JSON value, or bytes that are sent unchanged."""
        server = server or self.server
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        with Client(server.port, token, timeout=30) as client:
            answer = Answer(f"{method} {path}", client.request(method, path, data, headers))
        self.remember(body, token, answer)
        keep_exchange(answer)
        return answer

    def remember(self, body, token, answer):
        """Records the secrets and phone numbers of a request and its response. `leaks` searches logs and files for
        them."""
        sent = body if isinstance(body, dict) else {}
        said = answer.json if answer.body[:1] == b"{" else {}
        names = ("identity_token", "nonce", "authorization_code", "refresh_token", "access_token", "token")
        found = [token] + [members.get(name) for members in (sent, said) for name in names]
        self.secrets |= {value for value in found if isinstance(value, str) and len(value) >= 16}
        if folder := os.environ.get("DWELL_SECRETS"):
            # Recorded for log_secrets.py.
            with open(pathlib.Path(folder, f"signing-in-{os.getpid()}"), "a", encoding="utf-8") as file:
                file.write(json.dumps({**sent, "token": token or ""}) + "\n")
        if isinstance(sent.get("phone"), str) and answer.status == 200:
            self.phones.add(sent["phone"])

    def apple_sign_in(self, subject, body=None, headers=None, server=None, **claims):
        nonce = secrets.token_urlsafe(16)
        return self.present(self.apple.identity_token(subject, nonce, **claims), nonce, body, headers, server)

    def present(self, identity_token, nonce, body=None, headers=None, server=None):
        """Signs in with an identity token, which may be invalid."""
        sent = {"identity_token": identity_token, "nonce": nonce, **(body or {})}
        return self.call("POST", "/auth/apple", sent, headers=headers, server=server)

    def start_code(self, phone, **more):
        return self.call("POST", "/auth/otp/start", {"phone": phone}, **more)

    def verify_code(self, phone, code, **more):
        return self.call("POST", "/auth/otp/verify", {"phone": phone, "code": code}, **more)

    def code_for(self, phone):
        seen = self.receiver.codes.get(phone)
        self.start_code(phone).expect(200)
        return self.receiver.next_code(phone, seen)

    def refresh(self, refresh_token, **more):
        return self.call("POST", "/auth/refresh", {"refresh_token": refresh_token}, **more)

    def me(self, token, server=None):
        return self.call("GET", "/auth/me", token=token, server=server)

    def user(self, token):
        """Returns the user without the account token for purchases. Only /auth/me returns this token, so the user then
        equals that of a sign-in response."""
        user = self.me(token).expect(200).json
        user.pop("app_account_token", None)
        return user

    # --- signed-in drivers

    def apple_driver(self, subject=None, **body):
        return self.apple_sign_in(subject or f"apple.{secrets.token_hex(8)}", body).expect_pair()

    def phone_driver(self, phone=None):
        phone = phone or new_phone()
        return self.verify_code(phone, self.code_for(phone)).expect_pair()

    def expect_alive(self, access_token, server=None):
        self.me(access_token, server).expect(200)
        self.call("GET", "/native/config", token=access_token, server=server).expect(200)

    def expect_refused(self, access_token, server=None):
        """Expects that both /auth/me and /native/config reject the token with 401."""
        self.me(access_token, server).expect_problem(401, "unauthorized")
        self.call("GET", "/native/config", token=access_token, server=server).expect_problem(401, "unauthorized")

    # --- traces on disk and in logs

    def dwell(self, *words, **environment):
        return subprocess.run(
            [self.server.binary, *words], env={**self.server.environment, **environment}, cwd=self.server.folder, capture_output=True,
            text=True, timeout=60)

    def audit(self, driver):
        """Returns the driver's audit entries, newest first."""
        run = self.dwell("audit", "--driver", driver, "--json")
        assert run.returncode == 0, run
        return rows_of(run.stdout)

    def sql(self, statement, *values):
        return self.server.rows(statement, *values)

    def bytes_on_disk(self):
        """Returns the contents of all files in the server's directory, except the log. With SQLite, these include the
        database and its WAL."""
        return {path.name: path.read_bytes() for path in sorted(self.server.folder.iterdir())
                if path.is_file() and path.name != "log"}

    def log(self):
        return self.server.log_path.read_text(errors="replace")

    def leaks(self):
        """Returns the secrets that were found where they must not be. The logs and the audit must contain no tokens,
        keys, codes, nonces or phone numbers. Other files must contain no tokens or nonces."""
        found = []
        logs = {path: path.read_text(errors="replace") for path in self.folder.glob("*/log")}
        # The audit's columns of numbers and digests are left out, because they may contain the six digits of a code by
        # chance.
        logs["the audit"] = "\n".join(
            repr(row) for row in self.sql("SELECT action, outcome, reason, sid, address, request_id FROM audit"))
        keys = {self.settings.get("JWT_SECRET", SECRET), self.receiver.secret, self.environment.get("DATA_KEY", SECRET)}
        digits = {phone.lstrip("+") for phone in self.phones}
        for where, text in logs.items():
            found += [f"{secret} in {where}" for secret in self.secrets | keys | digits if secret in text]
            if self.environment["OTP_DELIVERY"] != "log":
                codes = set(re.findall(r"(?<![\d.])\d{6}(?!\d)", text))
                found += [f"the code {code} in {where}" for code in codes & set(self.receiver.codes.values())]
        for name, content in self.bytes_on_disk().items():
            found += [f"{secret} in {name}" for secret in self.secrets if secret.encode() in content]
        return found


def rows_of(output):
    """Parses one JSON document, or one document a line."""
    try:
        value = json.loads(output)
        return value if isinstance(value, list) else next(
            (member for member in value.values() if isinstance(member, list)), [value])
    except json.JSONDecodeError:
        return [json.loads(line) for line in output.splitlines()]


def new_phone():
    return f"+4915{secrets.randbelow(10**9):09}"


def other_code(code):
    """Returns a wrong code."""
    return f"{(int(code) + 1 + secrets.randbelow(999_998)) % 1_000_000:06}"


def resigned(access_token, **changes):
    """Returns the access token with the claims in `changes`, signed with the server's secret. A claim that is None is
    removed."""
    claims = {**claims_of(access_token), **changes}
    header = access_token.split(".")[0]
    claims = {name: value for name, value in claims.items() if value is not None}
    signed = f"{header}.{base64url(json.dumps(claims).encode())}"
    return f"{signed}.{base64url(hmac.new(SECRET.encode(), signed.encode(), hashlib.sha256).digest())}"


def at_once(*bodies):
    """Calls all functions in `bodies` at the same time. Returns their results in order, or raises the first error."""
    results, errors = [None] * len(bodies), []
    ready = threading.Barrier(len(bodies))

    def work(index, body):
        try:
            ready.wait()
            results[index] = body()
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in enumerate(bodies)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


# --- a suite ------------------------------------------------------------------------------------------------------


class Suite:
    """A list of checks. Each check is a function with a lab as argument. Checks added with `check` share a lab, and
    each check added with `alone` has its own."""

    def __init__(self, description, **lab):
        self.description = description
        self.lab = lab
        self.checks = []

    def check(self, what, on=("sqlite", "postgres")):
        """`on`: the databases with which the check is run."""
        return functools.partial(self.add, what, None, on)

    def alone(self, what, on=("sqlite", "postgres"), **lab):
        return functools.partial(self.add, what, lab, on)

    def add(self, what, lab, on, body):
        if ("postgres" if POSTGRES else "sqlite") in on:
            self.checks.append((what, lab, body))
        return body

    def main(self):
        parser = arguments(self.description)
        parser.add_argument("--only", help="checks whose name has these words")
        options = parser.parse_args()
        report = Report(os.path.basename(sys.argv[0]).removesuffix(".py"))
        checks = [check for check in self.checks if not options.only or options.only in check[0]]
        shared = [check for check in checks if check[1] is None]
        if shared:
            with Lab(options, **self.lab) as lab:
                for what, _, body in shared:
                    report.run(what, functools.partial(body, lab))
                report.run("nothing secret is in the log, the audit or the files", functools.partial(no_leaks, lab))
        for what, settings, body in checks:
            if settings is not None:
                report.run(what, functools.partial(self.run_alone, options, settings, body))
        report.exit()

    @staticmethod
    def run_alone(options, settings, body):
        with Lab(options, **settings) as lab:
            body(lab)
            no_leaks(lab)


def no_leaks(lab):
    leaks = lab.leaks()
    assert not leaks, "\n".join(leaks)
