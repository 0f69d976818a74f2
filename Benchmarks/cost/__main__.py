"""Measures the most expensive allowed request of each route: the processor time of the server and the bytes that it
writes. Prints the tables of docs/cost.md.

The rate limits count a request as one or more charges of one kind. Each kind has a typical request, the median request,
which is one charge. Exits with 1 if a charge of any request costs more than ten times the median request's processor
time.

    python3 Benchmarks/cost [--dwell BINARY] [--write docs/cost.md]
"""

import gzip
import json
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "Tests/Integration"))

import latency  # noqa: E402
from app_store import AppStore, number  # noqa: E402
from apple_server import AppleServer  # noqa: E402
from client import Client, rendered, token  # noqa: E402
from code_receiver import CodeReceiver  # noqa: E402
from processes import Folder, Server, arguments  # noqa: E402

TIMES_MAX = 10
# These limits admit all requests of a measurement. The charges in the table are those under the default limits.
WINDOW = 100_000
LIMITS = {
    f"RATE_LIMIT_{name}": str(WINDOW)
    for name in ("SESSION_EVENTS", "PRESESSION_EVENTS", "AUTH", "REGISTRATIONS", "DEVICES", "ACCOUNT", "READS", "PINGS", "PURCHASES",
                 "NOTIFICATIONS")}
LIMITS |= {
    f"OTP_SENDS_{name}": str(WINDOW) for name in ("PER_ADDRESS", "PER_NETWORK", "PER_SITE", "PER_PREFIX", "TOTAL")}
LIMITS |= {"OTP_SENDS_PER_NUMBER": "1000", "LOG_LEVEL": "error"}
JOURNEY = 20_000
EXPORTED = 20_000
PURCHASES = 50
ROWS_PER_CHARGE = 100
EXPORT_BYTES_PER_READ = 64 << 10
SESSIONS_PER_READ = 25
EVENTS_PER_READ = 100
# A fact is a transaction or a renewal. Each measured purchase has one of both, so it has two facts.
FACTS_PER_READ = 25
FACTS_PER_PURCHASE = 100
REPEATS_PER_CHARGE = 10
# The default limit of the window `refusals`. One body gets at most this many charges, because they fill the window.
REFUSALS_MAX = 600


class Meter:
    """Reads the server's processor time in nanoseconds and its written bytes from /proc. Writes to tmpfs are not
    counted (proc(5)). No thread of the server may end between two readings, because the second would lack its
    time."""

    def __init__(self, server):
        self.folder = pathlib.Path("/proc") / str(server.process.pid)

    def read(self):
        nanoseconds = 0
        for task in (self.folder / "task").iterdir():
            try:
                nanoseconds += int((task / "schedstat").read_text().split()[0])
            except (OSError, IndexError):
                pass
        fields = dict(line.split(": ") for line in (self.folder / "io").read_text().splitlines())
        return nanoseconds, int(fields["write_bytes"])


def event(number, **members):
    seconds = number % 86_400
    return {
        "event": "chargerTargeted", "event_id": f"e{number}-{time.monotonic_ns()}",
        "occurred_at": f"2026-11-05T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}Z", **members}


def restored(number, **members):
    """Returns an event 800 ms after the event with the previous `number`."""
    milliseconds = number * 800
    seconds = milliseconds // 1000
    return event(
        number, event="session_restored",
        occurred_at=f"2026-11-05T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{milliseconds % 1000:03}Z",
        **members)


def body(value):
    return json.dumps(value, separators=(",", ":")).encode()


def zipped(text):
    return gzip.compress(text, mtime=0)


GZIP = {"Content-Encoding": "gzip"}
JUNK = b'{"events":[%s],"x":[' % body(event(1)) + b"{}," * 340_000 + b"0]}"
ZIPPED_JUNK = zipped(JUNK)
SMALL_JUNK = body(event(1))[:-1] + b',"x":[' + b"{}," * 21_000 + b"0]}"
LONG = b'{"phone":"+491511234567","x":[' + b"{}," * 2_500 + b"0]}"
ONE = body(event(0, event_id="kept-0"))
FORGED = token("x") + "A" * 8_000
KEPT = body({"events": [event(number, event_id=f"kept-{number}") for number in range(500)]})


class Row:
    """A request to measure. It costs the driver `pays` charges of the kind `unit`."""

    def __init__(self, route, what, unit, pays, times, make):
        self.route, self.what, self.unit, self.pays, self.times, self.make = route, what, unit, pays, times, make


def request(method, path, content=None, headers=None):
    return lambda number: (method, path, content, headers or {})


def post_json(path, content):
    return "POST", path, body(content), {}


class Outside:
    """Makes requests that need another service: Apple's sign-in, the App Store, or the receiver of codes."""

    def __init__(self, server, apple, receiver, store):
        self.server, self.apple, self.receiver, self.store = server, apple, receiver, store

    def pair(self, number):
        """Signs in with Apple. Returns the access token and the refresh token."""
        return json.loads(self.ask(*self.apple_sign_in(f"cost.{number}")).body)

    def apple_sign_in(self, subject):
        nonce = f"nonce-{time.monotonic_ns()}"
        return post_json(
            "/auth/apple", {"identity_token": self.apple.identity_token(subject, nonce), "nonce": nonce})

    def right_code(self, number):
        phone = f"+4915120{number:06}"
        self.ask(*post_json("/auth/otp/start", {"phone": phone}))
        return post_json("/auth/otp/verify", {"phone": phone, "code": self.receiver.next_code(phone)})

    def refresh(self, number):
        return post_json("/auth/refresh", {"refresh_token": self.pair(number)["refresh_token"]})

    def ask(self, method, path, content, headers):
        with Client(self.server.port, None, timeout=20) as client:
            answer = client.request(method, path, content, headers)
            assert answer.status == 200, answer
            return answer

    def purchase(self, has_renewal=False, **claims):
        id = number()
        renewal = {"signed_renewal_info": self.store.renewal(id)} if has_renewal else {}
        signed = self.store.transaction(transactionId=id, **claims)
        return post_json("/native/purchases", {"signed_transaction": signed, **renewal})

    def notice(self, **claims):
        id = number()
        return post_json("/apple/store-notifications", {"signedPayload": self.store.notification(
            "DID_RENEW", transaction=self.store.transaction(transactionId=id), renewal=self.store.renewal(id), **claims)})

    @staticmethod
    def forged(made):
        """Replaces the last bytes of the request's outermost signature. The certificates remain valid, but the
        signature is invalid."""
        method, path, content, headers = made
        members = json.loads(content)
        name = "signedPayload" if "signedPayload" in members else "signed_transaction"
        members[name] = members[name][:-8] + "AAAAAAAA"
        return method, path, body(members), headers


def rows(outside):
    """Returns all requests to measure. The first row of each unit is its median request."""
    post, batch = "POST /native/events", "POST /native/events/batch"

    def one(**members):
        return lambda n: ("POST", "/native/events", body(event(n, **members)), {})

    def many(events, headers=None):
        return lambda n: ("POST", "/native/events/batch", events(n), headers or {})

    return [
        Row(post, "median: one event", "event", 1, 300, one()),
        Row(post, "8 KiB of metadata", "event", 1, 100, one(metadata={"a": ["é"] * 1200})),
        Row(post, f"late, before a journey of {JOURNEY:,}", "event", 1 + JOURNEY // ROWS_PER_CHARGE, 3,
            lambda n: ("POST", "/native/events", body(event(0, charger_id=f"late{n}", sequence=n)), {})),
        Row(post, "late, at the time of 900 others", "event", 1 + 900 // ROWS_PER_CHARGE, 20,
            lambda n: ("POST", "/native/events", body(event(5, charger_id=f"crowd{n}", sequence=n)), {})),
        Row(post, "late, before 99 events", "event", 1, 20,
            lambda n: ("POST", "/native/events", body(event(0, charger_id=f"near{n}", sequence=n)), {})),
        Row(batch, "500 events", "event", 500, 5,
            many(lambda n: body({"events": [event(n * 500 + i) for i in range(500)]}))),
        Row(post, "median: one refused event", "refusal", 1, 300, one(event=7)),
        Row(batch, "20 refused events", "refusal", 20, 50, many(lambda n: body({"events": [event(n, event=7)] * 20}))),
        Row(post, "64 KiB beside the event, gzip", "refusal", len(SMALL_JUNK) // 1024 - 10, 20,
            lambda n: ("POST", "/native/events", zipped(SMALL_JUNK), GZIP)),
        Row(batch, "500 invalid events, gzip", "refusal", 500, 10,
            many(lambda n: zipped(b'{"events":[%s]}' % b",".join([b"{}"] * 500)), GZIP)),
        Row(batch, "500 events of another's session", "refusal", 500, 5,
            many(lambda n: body({"events": [event(n * 500 + i, event="session_restored", session_id="owned")
                                            for i in range(500)]}))),
        Row(batch, "a number of a million digits, gzip", "refusal", min(1014, REFUSALS_MAX), 10,
            many(lambda n: zipped(b'{"events":[{"sequence":1' + b"0" * 1_048_000 + b"}]}"), GZIP)),
        Row(batch, "1 MiB beside the event, gzip", "refusal", min(len(JUNK) // 1024 - 10, REFUSALS_MAX), 5,
            many(lambda n: zipped(JUNK), GZIP)),
        Row(batch, "500 repeats", "refusal", 500 // REPEATS_PER_CHARGE, 10, many(lambda n: KEPT)),
        Row("GET /native/session", "median read", "read", 1, 300, request("GET", "/native/session")),
        Row("GET /native/sessions", "100 sessions", "read", 1 + 100 // SESSIONS_PER_READ, 50, request("GET", "/native/sessions?limit=100")),
        Row("GET /native/sessions/{session_id}", "500 events", "read", 1 + 500 // EVENTS_PER_READ, 20,
            request("GET", "/native/sessions/s0?limit=500")),
        Row("GET /native/session/stream", "opened and closed", "read", 1, 50, "stream"),
        Row("POST /native/background-ping", "median: without a body", "ping", 1, 100, request("POST", "/native/background-ping")),
        Row("POST /native/background-ping", "64 KiB of body", "ping", 1, 50,
            request("POST", "/native/background-ping", SMALL_JUNK[:64_000])),
        Row("GET /healthz", "median", "nothing", 1, 300, request("GET", "/healthz")),
        Row("GET /.well-known/jwks.json", "", "nothing", 1, 100, request("GET", "/.well-known/jwks.json")),
        Row("any other", "no such path", "nothing", 1, 100, request("GET", "/x")),
        Row(post, "a repeat", "nothing", 1, 100, lambda n: ("POST", "/native/events", ONE, {})),
        Row("GET /native/config", "32 KiB of If-None-Match", "nothing", 1, 100,
            request("GET", "/native/config", None, {"If-None-Match": '"a",' * 7_000})),
        Row("POST /native/sessions", "median: a new session", "registration", 1, 100,
            lambda n: ("POST", "/native/sessions", body({"session_id": f"r{n}-{time.monotonic_ns()}"}), {})),
        Row("POST /native/sessions/{session_id}/verify", "a session without a code", "registration", 1, 50,
            request("POST", "/native/sessions/s0/verify", body({"code": "000000"}))),
        Row("PUT /native/devices/{token}", "median: a new device", "device", 1, 100,
            lambda n: ("PUT", f"/native/devices/{'a' * 60}{n:04}", body({"platform": "ios", "environment": "production"}), {})),
        Row("DELETE /native/devices/{token}", "a device", "device", 1, 50,
            lambda n: ("DELETE", f"/native/devices/{'a' * 60}{n:04}", None, {})),
        Row("PATCH /auth/me", "median: a name", "account", 1, 100,
            lambda n: ("PATCH", "/auth/me", body({"name": f"n{n}"}), {})),
        Row("PUT /auth/me", "all members", "account", 1, 100,
            lambda n: ("PUT", "/auth/me", body({"name": "n" * 100, "email": f"n{n}@example.com"}), {})),
        Row("GET /auth/me/export", f"{EXPORTED:,} events", "read", None, 3, "export"),
        Row("GET /auth/me/export", "400 events", "read", None, 30, "export"),
        Row("DELETE /auth/sessions/{id}", "an unknown one", "account", 1, 50, request("DELETE", "/auth/sessions/x")),
        Row("POST /auth/logout", "", "account", 1, 50, request("POST", "/auth/logout")),
        Row("DELETE /auth/me", f"with {EXPORTED:,} events, charged when they were posted", "event", EXPORTED, 1,
            request("DELETE", "/auth/me", body({"confirm": True}))),
        Row("POST /auth/otp/start", "median: a code", "auth", 1, 100,
            lambda n: ("POST", "/auth/otp/start", body({"phone": f"+4915112{n:06}"}), {})),
        Row("POST /auth/otp/verify", "a wrong code", "auth", 1, 50,
            lambda n: ("POST", "/auth/otp/verify", body({"phone": f"+4915112{n:06}", "code": "000000"}), {})),
        Row("POST /auth/otp/start", "8 KiB of body", "auth", 1, 50, request("POST", "/auth/otp/start", LONG)),
        Row("POST /auth/refresh", "an unknown token", "auth", 1, 50,
            lambda n: ("POST", "/auth/refresh", body({"refresh_token": "x" * 43}), {})),
        Row("POST /auth/apple", "a forged token of 8 KiB", "auth", 1, 50,
            lambda n: ("POST", "/auth/apple", body({"identity_token": FORGED, "nonce": "n"}), {})),
        Row("POST /apple/notifications", "a forged token of 8 KiB", "auth", 1, 50,
            lambda n: ("POST", "/apple/notifications", body({"payload": FORGED}), {})),
        Row("POST /auth/apple", "a sign-in", "auth", 1, 50, lambda n: outside.apple_sign_in(f"new.{n}")),
        Row("POST /auth/otp/verify", "a right code", "auth", 1, 50, outside.right_code),
        Row("POST /auth/refresh", "a valid token", "auth", 1, 50, outside.refresh),
        Row("POST /native/purchases", "median: a transaction", "purchase", 1, 50, lambda n: outside.purchase()),
        Row("POST /native/purchases", "with renewal information", "purchase", 1, 50,
            lambda n: outside.purchase(has_renewal=True)),
        Row("POST /native/purchases", f"by the owner of {PURCHASES}", "purchase", 1 + 2 * PURCHASES // FACTS_PER_PURCHASE, 20,
            lambda n: outside.purchase(has_renewal=True)),
        Row("POST /native/purchases", "a forged signature", "purchase", 1, 50, lambda n: outside.forged(outside.purchase())),
        Row("PUT /native/purchases/consent", "given and withdrawn", "purchase", 1, 50,
            lambda n: ("PUT", "/native/purchases/consent", body({"consumption": n % 2 == 0}), {})),
        Row("GET /native/entitlements", f"of {PURCHASES} purchases", "read", 1 + 2 * PURCHASES // FACTS_PER_READ, 50,
            request("GET", "/native/entitlements")),
        Row("POST /apple/store-notifications", "median: a renewal", "notification", 1, 50, lambda n: outside.notice()),
        Row("POST /apple/store-notifications", "a forged signature", "notification", 1, 50,
            lambda n: outside.forged(outside.notice())),
        Row("GET /auth/me", "", "auth", 1, 100, request("GET", "/auth/me")),
        Row("GET /auth/sessions", "", "auth", 1, 100, request("GET", "/auth/sessions")),
        # `prepare` posts events until the limit admits only one more. Each event of this batch takes this place, and
        # frees it again, because the store rejects the event. Measure this row last, because `prepare` enlarges the
        # database.
        Row(batch, "500 events of another's session, one place left", "refusal", 500, 5,
            many(lambda n: body({"events": [restored(n * 500 + i, session_id="owned") for i in range(500)]}))),
    ]


def exported(port, access_token):
    """Returns the status of an export and the number of received bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(rendered("GET", "/auth/me/export", access_token, headers={"Connection": "close"}))
        count, head = 0, b""
        while more := connection.recv(1 << 18):
            count, head = count + len(more), (head + more)[:12]
        return int(head[9:12]), count


def opened_stream(port, access_token):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(rendered("GET", "/native/session/stream", access_token))
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def measure(server, meter, driver, row):
    """Returns the nanoseconds, written bytes and charges of one request, and the statuses of all requests. The charges
    of an export depend on the length of the response."""
    statuses, pays = set(), row.pays
    if callable(row.make):
        requests = [row.make(number) for number in range(row.times)]
        with Client(server.port, token(driver), timeout=120) as client:
            before = meter.read()
            for method, path, content, headers in requests:
                statuses.add(client.request(method, path, content, headers).status)
            after = meter.read()
    else:
        before = meter.read()
        for _ in range(row.times):
            if row.make == "stream":
                opened_stream(server.port, token(driver))
                statuses.add(200)
            else:
                status, count = exported(server.port, token(driver))
                pays = 1 + count // EXPORT_BYTES_PER_READ
                statuses.add(status)
            # A driver may have one export and four streams at the same time. Wait until the server notices that the
            # client has closed the stream, because the stream counts as open until then.
            time.sleep(0 if row.make == "export" else 0.05)
        after = meter.read()
    return (after[0] - before[0]) / row.times, (after[1] - before[1]) / row.times, statuses, pays


def main():
    parser = arguments(__doc__)
    parser.add_argument("--write", type=pathlib.Path, help="writes the table between the marks of this file")
    options = parser.parse_args()
    failed = table(options)
    lines = latency.measure(options, attacks(), prepare_attacker)
    print("\n".join(lines))
    if options.write:
        write(options.write, "others", lines)
    sys.exit(failed)


def table(options):
    """Prints the table of all requests. Returns whether a request is too expensive."""
    with Folder() as folder, AppleServer() as apple, CodeReceiver() as receiver:
        store = AppStore()
        environment = LIMITS | apple.environment() | receiver.environment() | store.environment(folder)
        with Server(options, folder, environment) as server:
            lines, failed = measure_rows(server, Outside(server, apple, receiver, store))
    if options.write:
        write(options.write, "table", lines)
    return failed


def measure_rows(server, outside):
    """Returns the lines of the table, and whether a request is too expensive."""
    medians, lines, failed = {}, [], False
    meter = Meter(server)
    for place, row in enumerate(rows(outside)):
        driver = f"cost-{place}"
        if row.unit == "read" and row.make != "export":
            driver = "cost-reader"
        if f"{EXPORTED:,} events" in row.what:
            driver = "cost-exporter"
        prepare(server, driver, row, outside)
        nanoseconds, written, statuses, pays = measure(server, meter, driver, row)
        # An export is also charged once as `account`. This charge covers the time of the median `account` request.
        each = (nanoseconds - (medians["account"] if row.make == "export" else 0)) / pays
        times = each / medians.setdefault(row.unit, each)
        exceeds = times > TIMES_MAX
        failed = failed or exceeds
        lines.append(
            f"| `{row.route}` | {row.what} | {'/'.join(map(str, sorted(statuses)))} | {nanoseconds / 1e6:.2f} | "
            f"{written / 1024:.0f} | {pays} {row.unit} | {times:.1f}{' (!)' if exceeds else ''} |")
        print(lines[-1], flush=True)
    return lines, failed


def post_events(server, driver, events):
    with Client(server.port, token(driver), timeout=120) as client:
        for start in range(0, len(events), 500):
            answer = client.request("POST", "/native/events/batch", body({"events": events[start:start + 500]}))
            assert answer.status == 200, answer


def prepare_sessions(server, driver, name):
    """Stores a hundred sessions: one with 500 events, and 99 with one event each."""
    post_events(server, driver, [event(number, event="session_restored", session_id=f"{name}0") for number in range(500)])
    post_events(server, driver, [
        event(600 + number, event="session_restored", session_id=f"{name}{number}") for number in range(1, 100)])


def attacks():
    """Returns the kinds of requests of the driver who slows down the others. A kind is a pair of a name and a function
    that returns a request. The driver sends each kind on its own connection."""
    one = event(20_000, event_id="again")

    def post(path, content, headers=None):
        return lambda name, n: ("POST", path, content(name, n), headers or {})

    return [
        ("late event before 20,000", post("/native/events", lambda name, n: body(
            event(0, charger_id=f"late{n}", sequence=n)))),
        ("500 repeats", post("/native/events/batch", lambda name, n: body({"events": [one] * 500}))),
        ("500 invalid events", post("/native/events/batch", lambda name, n: zipped(
            b'{"events":[%s]}' % b",".join([b"{}"] * 500)), GZIP)),
        ("1 MiB beside an event", post("/native/events/batch", lambda name, n: ZIPPED_JUNK, GZIP)),
        ("100 sessions listed", lambda name, n: ("GET", "/native/sessions?limit=100", None, {})),
        ("500 events listed", lambda name, n: ("GET", f"/native/sessions/{name}0?limit=500", None, {})),
        ("new session", post("/native/sessions", lambda name, n: body({"session_id": f"{name}-new-{n}"}))),
        ("new device", lambda name, n: (
            "PUT", f"/native/devices/{'a' * 60}{n:04}", body({"platform": "ios", "environment": "production"}), {})),
        ("changed name", lambda name, n: ("PATCH", "/auth/me", body({"name": f"n{n}"}), {})),
    ]


def prepare_attacker(server, name):
    post_events(server, name, [event(10 + number, event="long_journey") for number in range(JOURNEY)])
    prepare_sessions(server, name, name)


def prepare(server, driver, row, outside):
    """Stores the data that the row's requests need."""
    if f"of {PURCHASES}" in row.what:
        with Client(server.port, token(driver), timeout=20) as client:
            for _ in range(PURCHASES):
                answer = client.request(*outside.purchase(has_renewal=True))
                assert answer.status == 200, answer
    elif "at the time" in row.what:
        post_events(server, driver, [event(5) for _ in range(900)])
    elif row.what.startswith("late"):
        count = JOURNEY if "journey" in row.what else 99
        post_events(server, driver, [event(10 + number, event="long_journey") for number in range(count)])
    elif row.what == "median read":
        prepare_sessions(server, driver, "s")
    elif "repeat" in row.what:
        post_events(server, driver, json.loads(KEPT)["events"])
    elif row.make == "export":
        count = EXPORTED if driver == "cost-exporter" else 400
        post_events(server, driver, [event(10 + number, event="long_journey") for number in range(count)])
    elif "one place left" in row.what:
        post_events(server, driver, [restored(number, session_id="restored") for number in range(WINDOW - 1)])
    elif "another's" in row.what:
        post_events(server, "cost-owner", [event(0, event="session_restored", session_id="owned")])


def write(path, name, lines):
    """Replaces the text between the marks `<!-- name -->` and `<!-- end of name -->` in the file."""
    text = path.read_text()
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    head, rest = text[:text.index(start) + len(start)], text[text.index(end):]
    path.write_text(head + HEADINGS[name] + "\n".join(lines) + "\n" + rest)


HEADINGS = {
    "table": "| route | most expensive allowed request | status | processor, ms | written, KiB | pays | "
             "times the median request |\n| --- | --- | --- | --: | --: | --- | --: |\n",
    "others": "| others' latency | alone, ms | beside the driver, ms | times |\n| --- | --: | --: | --: |\n"}


if __name__ == "__main__":
    main()
