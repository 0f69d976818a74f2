"""Checks that the server delivers every stored event that the capture endpoint accepts, even after outages, restarts
and kill -9. Also checks that events are stored while the endpoint is down."""

import gzip
import http.server
import json
import re
import time

from client import Client, token
from loopback import LoopbackServer
from ports import free_port
from processes import UNLIMITED, Folder, Server, arguments, wait_until
from report import Report

KEY = "phc_key_of_these_checks"
METRICS = "a-token-for-the-figures"


class Capture(LoopbackServer):
    """PostHog's capture endpoint. It can be down, reject batches, or return any status."""

    def __init__(self, port):
        super().__init__(CaptureHandler, port)
        self.batches = []
        # The set of event ids of each rejected batch.
        self.refused = []
        self.status = 200
        self.refuses = None

    def take(self, path, coding, value):
        """Records a batch and returns the status of the response."""
        status = self.status
        if self.refuses and any(self.refuses(event) for event in value["batch"]):
            status = 400
        if status == 200:
            self.batches.append((path, coding, value))
        else:
            self.refused.append({event["properties"]["event_id"] for event in value["batch"]})
        return status

    @property
    def events(self):
        return [event for _, _, value in list(self.batches) for event in value["batch"]]

    @property
    def keys(self):
        return {event["properties"]["event_id"] for event in self.events}


class CaptureHandler(http.server.BaseHTTPRequestHandler):
    owner = None

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        coding = self.headers.get("Content-Encoding")
        if coding == "gzip":
            body = gzip.decompress(body)
        status = self.owner.take(self.path, coding, json.loads(body))
        self.send_response(status)
        if status == 503:
            self.send_header("Retry-After", "1")
        self.end_headers()
        self.wfile.write(b'{"status":1}')

    def log_message(self, *_):
        pass


def post(server, names):
    """Posts an event with each name as its id. Returns the set of response statuses, and the slowest response time in
    seconds."""
    statuses, slowest = set(), 0.0
    now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    with Client(server.port, token("analytics")) as client:
        for name in names:
            event = {"event_id": name, "event": "chargerTargeted", "charger_id": "c", "occurred_at": now}
            begun = time.monotonic()
            statuses.add(client.request("POST", "/native/events", json.dumps(event).encode()).status)
            slowest = max(slowest, time.monotonic() - begun)
    return statuses, slowest


def numbered(prefix, count):
    return {f"{prefix}-{number}" for number in range(count)}


def figures(server):
    """Returns the number of events that wait to be forwarded, and the number of events that were given up."""
    with Client(server.port, METRICS) as client:
        text = client.request("GET", "/metrics").body.decode()
    return tuple(
        int(re.search(rf"^{re.escape(series)} ([0-9]+)$", text, re.MULTILINE)[1])
        for series in ('dwell_outbox_waiting{queue="analytics"}', "dwell_analytics_lost_total"))


def check(report, options):
    capture = Capture(free_port())
    environment = {**UNLIMITED, "POSTHOG_HOST": f"http://127.0.0.1:{capture.port}", "POSTHOG_KEY": KEY,
                   "METRICS_TOKEN": METRICS}
    sent = set()

    def arrives(what, seconds=90):
        try:
            wait_until(lambda: capture.keys >= sent, seconds, what)
            return True
        except AssertionError as error:
            report.note(f"{error}; missing: {sorted(sent - capture.keys)[:5]}")
            return False

    with Folder() as folder, Server(options, folder, environment) as server:
        # The endpoint is down from the start: no process listens on its port.
        first = numbered("down", 300)
        sent |= first
        statuses, slowest = post(server, sorted(first))
        report.note(f"while it is down the slowest of 300 answers took {slowest * 1000:.0f} ms")
        report.check(statuses == {200}, "events are stored while nobody captures them", statuses)
        report.check(figures(server) == (300, 0), "the figures say that they wait", figures(server))
        with capture:
            report.check(arrives("events of the outage"), "what was stored during the outage arrives after it")
            path, coding, value = capture.batches[0]
            report.check(
                (path, coding, value["api_key"]) == ("/batch/", "gzip", KEY), "a batch is what the protocol says",
                path, coding)
            order = [event["properties"]["event_id"] for event in capture.events]
            report.check(order == sorted(first), "the oldest comes first, each once, while nothing goes wrong")
            names = {event["event"] for event in capture.events}
            report.check(names == {"native_presession_chargerTargeted"}, "names have their prefix", names)
            proof = {"event_id": "proof", "event": "visit_verified", "session_id": f"s-{time.time_ns()}",
                     "occurred_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                     "metadata": {"previous_state": "AT_MERCHANT"}}
            with Client(server.port, token("implied")) as client:
                client.request("POST", "/native/events", json.dumps(proof).encode())
            sent.add("proof")
            report.check(arrives("an event that proves others"), "an event that proves others arrives")
            found = [event for event in capture.events if event["distinct_id"] == "implied"]
            report.check(
                [(event["event"], event["properties"]["ended_by"], event["properties"]["implied"]) for event in found]
                == [("native_session_visitVerifiedByWeb", "verified",
                     ["enteredChargerIntentZone", "anchorDwellComplete", "exclusiveActivatedByWeb",
                      "exitedChargerAnchorZone", "enteredMerchantZone"])],
                "implied steps are told as implied, and never as events", *found)

            # The endpoint is overloaded, then recovers.
            wait_until(lambda: figures(server) == (0, 0), 30, "nothing waits")
            capture.status = 503
            more = numbered("busy", 50)
            sent |= more
            post(server, sorted(more))
            wait_until(lambda: sum(map(len, capture.refused)) > len(more), 30, "batches that were refused and sent again")
            report.check(set().union(*capture.refused) <= more and figures(server) == (50, 0),
                         "what an overloaded service refuses is sent again, and waits", figures(server))
            capture.status = 200
            report.check(arrives("events of the overload"), "they arrive once it is well again")

            # The server is killed twice while events wait to be forwarded.
            for round_number in range(2):
                more = numbered(f"kill{round_number}", 400)
                sent |= more
                post(server, sorted(more))
                server.kill()
                server.start()
            report.check(arrives("events around kill -9"), "none is lost to kill -9")

            # The endpoint rejects every batch that contains this event.
            capture.refuses = lambda event: event["properties"]["event_id"] == "bad"
            more = numbered("near", 20)
            post(server, sorted(more)[:10] + ["bad"] + sorted(more)[10:])
            sent |= more
            report.check(arrives("the neighbours of a bad event"), "one bad event never sinks its neighbours")
            wait_until(lambda: figures(server) == (0, 1), 30, "nothing waits, and one is counted as lost")
            tries = sum("bad" in batch for batch in capture.refused)
            report.check({"bad"} in capture.refused, "the bad one is sent by itself in the end", *capture.refused[-5:])
            post(server, ["after"])
            sent.add("after")
            report.check(arrives("an event after the bad one"), "an event after it arrives")
            again = sum("bad" in batch for batch in capture.refused) - tries
            report.check(again == 0, "the bad one is given up: it is not sent again", again)

        # The server restarts while the endpoint is down. The waiting events are on disk.
        more = numbered("restart", 30)
        sent |= more
        post(server, sorted(more))
        server.stop()
        server.start()
        with capture:
            report.check(arrives("events of before the restart"), "what waits outlives a restart")
            by_key = {}
            for event in capture.events:
                by_key.setdefault(event["properties"]["event_id"], set()).add((event["uuid"], event["timestamp"]))
            again = sum(1 for event in capture.events) - len(by_key)
            report.note(f"{len(by_key)} events arrived, {again} of them again after a kill")
            report.check(
                all(len(same) == 1 for same in by_key.values()), "one that comes twice has the same uuid and time")
            report.check(KEY not in server.log_path.read_text(errors="replace"), "the key is not in the log")


def main():
    options = arguments(__doc__).parse_args()
    report = Report("analytics")
    check(report, options)
    report.exit()


main()
