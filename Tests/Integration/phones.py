"""The load of many phones. Each phone is one driver on one keep-alive connection, with at most one event in flight.
Every response is recorded, and so is every event that gets no response."""

import collections
import heapq
import json
import selectors
import socket
import time

from client import parsed, rendered, token

# The events that a phone sends, in order. After the last one, the phone begins again. The second value of each pair
# says whether the event has a session_id.
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
    """A driver with one connection. Each event has its own key."""

    def __init__(self, driver, access_token=None):
        self.driver = driver
        self.token = access_token or token(driver)
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


# `repeat` says whether the request repeats an event that was acknowledged before.
Sent = collections.namedtuple("Sent", "driver key event body repeat at")
Exchange = collections.namedtuple("Exchange", "sent status answered seconds at")


class Load:
    """Posts the events of all phones from one thread. `exchanges` has the responses, and `unanswered` the events
    without a response."""

    def __init__(self, port, phones, per_second=None, repeat_every=None):
        """`per_second`: the maximum rate of requests on each connection. With None, each response is followed at once
        by the next request. `repeat_every`: after this many new events, a phone repeats its last acknowledged event
        once."""
        self.port = port
        self.phones = phones
        self.interval = 1 / per_second if per_second else 0
        self.repeat_every = repeat_every
        self.exchanges = []
        self.unanswered = []
        self.broken = 0

    def run(self, seconds, at_end=None, drain_seconds=10):
        """Sends events for `seconds`, calls `at_end`, and waits at most `drain_seconds` for the outstanding responses.
        A broken connection is not opened again."""
        self.selector = selectors.DefaultSelector()
        self.due = []
        started = time.monotonic()
        for index, phone in enumerate(self.phones):
            phone.index = index
            self.connect(phone)
            # Spreads the first requests over one interval, so that the connections do not send at the same moments.
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
        """Closes the connection. An event in flight stays without a response."""
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
            # A phone has only one request in flight, of a few hundred bytes. The request therefore fits into the
            # socket's buffer.
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

    # Results of the run.

    def acknowledged(self):
        """Returns the (driver, key) of every event that was answered 200."""
        return {(exchange.sent.driver, exchange.sent.key) for exchange in self.exchanges if exchange.status == 200}

    def statuses(self):
        return collections.Counter(exchange.status for exchange in self.exchanges)

    def wrong_words(self):
        """Returns the exchanges with the status 200 and a wrong `status` member. This member must be ok for a new
        event, and already_processed for a repeat."""
        return [
            exchange for exchange in self.exchanges if exchange.status == 200
            and exchange.answered != ("already_processed" if exchange.sent.repeat else "ok")
        ]


def percentile(values, share):
    """Returns a percentile of the values, or 0 if there are none. The share 0.5 gives the median."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def latencies(exchanges):
    """Returns a line with the percentiles of the response times."""
    seconds = [exchange.seconds for exchange in exchanges]
    shares = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1)]
    return ", ".join(f"{name} {percentile(seconds, share) * 1000:.1f} ms" for name, share in shares)
