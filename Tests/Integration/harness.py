"""What the Python checks here stand on: a server and a Redis as processes, a keep-alive HTTP client that keeps every
answer, a paced load over many connections, and a report in TAP. It knows the contract's forms and the columns that
say what is stored. Standard library only."""

import argparse
import base64
import collections
import hashlib
import heapq
import hmac
import json
import os
import pathlib
import selectors
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time

SECRET = "integration-tests-sign-with-this-secret"
REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# Limits off: whoever wants to meet them says so.
UNLIMITED = {"RATE_LIMIT_SESSION_EVENTS": "0", "RATE_LIMIT_PRESESSION_EVENTS": "0"}


def arguments(description):
    """A parser with what all checks have in common."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--dwell", default=os.environ.get("DWELL", REPOSITORY / ".build/release/dwell"), type=pathlib.Path,
        help="the binary (default: $DWELL, else the release build)")
    parser.add_argument(
        "--redis-url", default=os.environ.get("INTEGRATION_REDIS_URL") or None,
        help="a Redis for the server (default: $INTEGRATION_REDIS_URL, else none)")
    parser.add_argument(
        "--scale", default=float(os.environ.get("DWELL_TEST_SCALE", "1")), type=float,
        help="multiplies durations and repetitions (default: $DWELL_TEST_SCALE, else 1)")
    return parser


# --- the report ---------------------------------------------------------------------------------------------------


class Report:
    """Checks as TAP lines, and the numbers beside them as comments."""

    def __init__(self, name):
        self.name = name
        self.count = 0
        self.failures = 0

    def check(self, holds, what, *evidence):
        """`evidence` is printed when the check fails; at most twenty lines of it."""
        self.count += 1
        print(f"{'ok' if holds else 'not ok'} {self.count} {self.name}: {what}")
        if not holds:
            self.failures += 1
            lines = [line for item in evidence for line in str(item).splitlines()]
            for line in lines[:20]:
                print(f"#   {line}")
            if len(lines) > 20:
                print(f"#   ... and {len(lines) - 20} lines more")
        sys.stdout.flush()
        return holds

    def note(self, text):
        print(f"# {self.name}: {text}", flush=True)

    def exit(self):
        print(f"1..{self.count}", flush=True)
        sys.exit(1 if self.failures else 0)


# --- processes ----------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(holds, seconds, what):
    """Polls; an AssertionError says what did not come true in time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} took more than {seconds} s")
        time.sleep(0.01)


class Folder:
    """A temporary folder for the time of a `with`."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="dwell-check."))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


class Server:
    """A server with a folder of its own; the same port and database across restarts. For use with `with`."""

    def __init__(self, options, folder, environment):
        self.binary = options.dwell.resolve()
        self.folder = folder
        self.port = free_port()
        self.database_path = folder / "dwell.sqlite3"
        self.environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": os.environ.get("HOME", "/"),
            "HTTP_PORT": str(self.port),
            "DATABASE_PATH": str(self.database_path),
            "JWT_SECRET": SECRET,
            "LOG_FORMAT": "json",
            "LOG_LEVEL": "warning",
            **({"REDIS_URL": options.redis_url} if options.redis_url else {}),
            **environment,
        }
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "serve"], env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)
        try:
            wait_until(self.is_alive, 20, "the start of the server")
        except AssertionError as error:
            raise AssertionError(f"{error}; its log:\n{self.log()}") from None

    def is_alive(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}; its log:\n{self.log()}")
        try:
            with Client(self.port, None, timeout=2) as client:
                return client.request("GET", "/healthz").status == 200
        except OSError:
            return False

    def stop(self, seconds=30):
        """SIGTERM; the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self):
        """SIGKILL, if it still runs."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def log_path(self):
        return self.folder / "log"

    def log(self):
        return self.log_path.read_text(errors="replace")[-4000:]

    def stored_keys(self):
        """Every stored event as (driver, idempotency key), as often as it is there."""
        database = sqlite3.connect(f"file:{self.database_path}?mode=ro", uri=True, timeout=10)
        try:
            return database.execute(
                "SELECT driver.driver_id, event.idempotency_key FROM event JOIN driver ON driver.id = event.driver"
            ).fetchall()
        finally:
            database.close()

    def integrity(self):
        """What SQLite's own check says; "ok" when all is well."""
        database = sqlite3.connect(f"file:{self.database_path}?mode=ro", uri=True, timeout=10)
        try:
            return database.execute("PRAGMA integrity_check").fetchone()[0]
        finally:
            database.close()


class Redis:
    """A Redis without persistence on a port of its own. For use with `with`."""

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        with open(self.folder / "redis.log", "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", "",
                 "--appendonly", "no", "--dir", str(self.folder)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.answers, 10, "the start of Redis")

    def answers(self):
        try:
            return self.command("PING") == "+PONG"
        except OSError:
            return False

    def command(self, *words):
        """The first line of the reply."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            request = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
            connection.sendall(request.encode())
            return connection.makefile("rb").readline().decode().strip()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


# --- requests -----------------------------------------------------------------------------------------------------


def token(driver, lifetime_seconds=7200):
    """An access token as another service with the shared secret makes it."""

    def encode(part):
        return base64.urlsafe_b64encode(part).rstrip(b"=")

    now = int(time.time())
    claims = {"sub": driver, "iat": now, "exp": now + lifetime_seconds, "iss": "dwell", "aud": "dwell"}
    signed = encode(b'{"alg":"HS256","typ":"JWT"}') + b"." + encode(json.dumps(claims).encode())
    signature = hmac.new(SECRET.encode(), signed, hashlib.sha256).digest()
    return (signed + b"." + encode(signature)).decode()


def rendered(method, path, access_token, body=None, headers=None):
    """A request as bytes. `body` is bytes of JSON."""
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1"]
    if access_token:
        lines.append(f"Authorization: Bearer {access_token}")
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body or b"")


Answer = collections.namedtuple("Answer", "status headers body")


def parsed(received):
    """The first whole answer in `received` and how many bytes it has, or None while it is not whole."""
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
    """One keep-alive connection that waits for each answer. For use with `with`."""

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
        """`event` is a dictionary. The status and the answer's JSON."""
        answer = self.request("POST", path, json.dumps(event).encode(), headers)
        return answer.status, json.loads(answer.body)


# --- load ---------------------------------------------------------------------------------------------------------

# One round of what phones send; a driver repeats it. The second member says whether it carries a session_id.
ROUND = [
    ("chargerTargeted", False),
    ("enteredChargerIntentZone", False),
    ("anchorDwellComplete", False),
    ("exclusiveActivatedByWeb", True),
    ("exitedChargerAnchorZone", True),
    ("enteredMerchantZone", True),
    ("visitVerifiedByWeb", True),
]


def rfc3339(milliseconds):
    seconds, rest = divmod(milliseconds, 1000)
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{rest:03d}Z"


class Phone:
    """One connection of a load and the driver who sends on it: at most one event in flight, distinct keys."""

    def __init__(self, driver):
        self.driver = driver
        self.token = token(driver)
        self.index = 0
        self.count = 0
        self.socket = None
        self.received = bytearray()
        self.in_flight = None
        self.last_stored = None
        self.repeated = False

    def next_event(self):
        name, has_session = ROUND[self.count % len(ROUND)]
        event = {
            "event_id": f"{self.driver}-{self.count}", "event": name,
            "occurred_at": rfc3339(int(time.time() * 1000)), "charger_id": "charger-1",
        }
        if has_session:
            event["session_id"] = f"{self.driver}-{self.count // len(ROUND)}"
        self.count += 1
        return event


# `repeat` says that the request was one of an event acknowledged before.
Sent = collections.namedtuple("Sent", "driver key event body repeat at")
Exchange = collections.namedtuple("Exchange", "sent status answered seconds at")


class Load:
    """Posts distinct events over keep-alive connections from one thread, one event in flight on each, and keeps
    every answer. An event whose answer did not come is in `unanswered`."""

    def __init__(self, port, phones, per_second=None, repeat_every=None):
        """`per_second`: at most so many requests on each connection; None: the next as soon as one is answered.
        `repeat_every`: each so-many-th request repeats the event acknowledged last on its connection."""
        self.port = port
        self.phones = phones
        self.interval = 1 / per_second if per_second else 0
        self.repeat_every = repeat_every
        self.exchanges = []
        self.unanswered = []
        self.broken = 0

    def run(self, seconds, at_end=None, drain_seconds=10):
        """Sends for so long, then calls `at_end` and waits for answers that are still to come. A connection that
        breaks is not opened again in this run."""
        self.selector = selectors.DefaultSelector()
        self.due = []
        started = time.monotonic()
        for index, phone in enumerate(self.phones):
            phone.index = index
            self.connect(phone)
            # Spread over the first interval, so that paced connections do not march in step.
            heapq.heappush(self.due, (started + self.interval * index / len(self.phones), index))
        ends = started + seconds
        while (now := time.monotonic()) < ends and self.selector.get_map():
            self.send_what_is_due(now)
            next_due = self.due[0][0] if self.due else ends
            self.receive(max(0, min(next_due, ends) - time.monotonic()))
        if at_end:
            at_end()
        ends = time.monotonic() + drain_seconds
        while any(phone.in_flight for phone in self.phones) and time.monotonic() < ends:
            self.receive(0.1)
        for phone in self.phones:
            self.disconnect(phone)
        self.selector.close()

    def connect(self, phone):
        try:
            phone.socket = socket.create_connection(("127.0.0.1", self.port), timeout=5)
        except OSError:
            self.broken += 1
            return
        phone.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        phone.socket.setblocking(False)
        phone.received.clear()
        self.selector.register(phone.socket, selectors.EVENT_READ, phone)

    def disconnect(self, phone):
        """An event that was in flight stays unanswered."""
        if phone.in_flight:
            self.unanswered.append(phone.in_flight)
            phone.in_flight = None
        if phone.socket:
            self.selector.unregister(phone.socket)
            phone.socket.close()
            phone.socket = None

    def send_what_is_due(self, now):
        while self.due and self.due[0][0] <= now:
            due_at, index = heapq.heappop(self.due)
            phone = self.phones[index]
            if phone.socket and not phone.in_flight:
                self.send(phone)
            if self.interval:
                heapq.heappush(self.due, (max(due_at + self.interval, now), index))

    def send(self, phone):
        turn = self.repeat_every and phone.count and phone.count % self.repeat_every == 0
        if turn and phone.last_stored and not phone.repeated:
            sent = phone.last_stored._replace(repeat=True, at=time.monotonic())
            phone.repeated = True
        else:
            event = phone.next_event()
            body = json.dumps(event).encode()
            sent = Sent(phone.driver, event["event_id"], event, body, False, time.monotonic())
            phone.repeated = False
        phone.in_flight = sent
        try:
            # A request of a few hundred bytes on a connection without one in flight fits the socket's buffer.
            phone.socket.send(rendered("POST", "/native/events", phone.token, sent.body))
        except OSError:
            self.broken += 1
            self.disconnect(phone)

    def receive(self, timeout):
        for key, _ in self.selector.select(timeout):
            phone = key.data
            try:
                more = phone.socket.recv(65536)
            except OSError:
                more = b""
            if not more:
                self.broken += 1
                self.disconnect(phone)
                continue
            phone.received += more
            answer = parsed(phone.received)
            if answer:
                del phone.received[:answer[1]]
                self.answered(phone, answer[0])

    def answered(self, phone, answer):
        now = time.monotonic()
        sent, phone.in_flight = phone.in_flight, None
        word = json.loads(answer.body).get("status") if answer.status == 200 else answer.body.decode(errors="replace")
        self.exchanges.append(Exchange(sent, answer.status, word, now - sent.at, sent.at))
        if answer.status == 200:
            phone.last_stored = sent
        if not self.interval:
            heapq.heappush(self.due, (now, phone.index))

    # What came of it.

    def acknowledged(self):
        """(driver, key) of every event that was answered 200."""
        return {(exchange.sent.driver, exchange.sent.key) for exchange in self.exchanges if exchange.status == 200}

    def statuses(self):
        return collections.Counter(exchange.status for exchange in self.exchanges)

    def wrong_words(self):
        """Exchanges whose 200 does not say what it should: ok for a new event, already_processed for a repeat."""
        return [
            exchange for exchange in self.exchanges if exchange.status == 200
            and exchange.answered != ("already_processed" if exchange.sent.repeat else "ok")
        ]


def percentile(values, share):
    """0 for no values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def latencies(exchanges):
    """A line about how long answers took."""
    seconds = [exchange.seconds for exchange in exchanges]
    shares = ", ".join(
        f"{name} {percentile(seconds, share) * 1000:.1f} ms" for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)))
    return f"{shares}, max {max(seconds, default=0) * 1000:.1f} ms"


def compare_with_disk(report, server, acknowledged, sent, what):
    """Every acknowledged event is there, nothing is there twice, and nothing that nobody sent."""
    rows = server.stored_keys()
    stored = set(rows)
    missing = acknowledged - stored
    report.check(not missing, f"{what}: each of {len(acknowledged)} acknowledged events is on disk", *sorted(missing))
    twice = [row for row, count in collections.Counter(rows).items() if count > 1]
    report.check(not twice, f"{what}: none of {len(rows)} rows is there twice", *twice)
    strangers = stored - sent
    report.check(not strangers, f"{what}: nothing is there that was not sent", *sorted(strangers))
