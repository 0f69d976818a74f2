#!/usr/bin/env python3
"""Plays the scripted journeys of Tests/Fixtures/journeys against a server. In every order of delivery, the verdicts and
the final state must be those of the file. `server_events` are not compared, because no route returns them.

Each journey is played in three spellings: the file's own, the canonical names, and the names and routes of shipped v1
clients. In the file's own spelling, it is also played as batches.

Events are sent in the file's order, in the orders of `deliveries`, and in random orders with repeats. In the file's
spelling, a short journey is sent in all possible orders, not in random ones. A journey whose `permutable` is false is
sent only in the file's order and in the orders of `deliveries`."""

import datetime
import itertools
import json
import random
import re
import time

from client import Client, token
from processes import REPOSITORY, UNLIMITED, Folder, Server, arguments
from report import Report

V1_NAMES = {
    "chargerTargeted": "charger_targeted",
    "enteredChargerIntentZone": "entered_charger_intent_zone",
    "exitedChargerIntentZone": "exited_charger_intent_zone",
    "anchorDwellComplete": "anchor_dwell_complete",
    "activationRejected": "activation_rejected",
    "exclusiveActivatedByWeb": "exclusive_activated",
    "enteredMerchantZone": "entered_merchant_zone",
    "gracePeriodExpired": "grace_period_expired",
    "hardTimeoutExpired": "hard_timeout_expired",
    "visitVerifiedByWeb": "visit_verified",
    "webRequestedEnd": "web_requested_end",
    "reset": "reset",
    "sessionRestored": "session_restored",
}
CANONICAL_NAMES = {v1: canonical for canonical, v1 in V1_NAMES.items()}
# `exitedChargerAnchorZone` is the only canonical name with two meanings. Whether an event has a session_id tells them
# apart.
DEPARTED, ANCHOR_LOST, EXITED_ANCHOR = "departed_charger", "anchor_lost", "exitedChargerAnchorZone"

# A journey with at most this many events is played in every order. The journeys that reproduce failures in the field
# (files 40, 42, 45 to 50) have at most five events.
EVERY_ORDER_EVENTS_MAX = 5

VARIABLES = {
    "gracePeriodSeconds": "NATIVE_GRACE_PERIOD_SECONDS",
    "hardTimeoutSeconds": "NATIVE_HARD_TIMEOUT_SECONDS",
}


# --- spellings ----------------------------------------------------------------------------------------------------


def as_in_the_file(event):
    return event["route"], event["body"]["event"]


def canonical(event):
    name = event["body"]["event"]
    if name in (DEPARTED, ANCHOR_LOST):
        return "/native/events", EXITED_ANCHOR
    return "/native/events", CANONICAL_NAMES.get(name, name)


def v1(event):
    name, in_session = event["body"]["event"], event["body"].get("session_id") is not None
    if name == EXITED_ANCHOR:
        name = DEPARTED if in_session else ANCHOR_LOST
    route = "/v1/native/session-events" if in_session else "/v1/native/pre-session-events"
    return route, V1_NAMES.get(name, name)


# --- times --------------------------------------------------------------------------------------------------------


def seconds_since_epoch(text):
    return int(datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp())


def shifted(text, seconds):
    """Moves the time in `text` by `seconds`. Keeps its notation, its offset and its number of digits."""
    date_time, rest = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(.*)", text).groups()
    moved = datetime.datetime.fromisoformat(date_time) + datetime.timedelta(seconds=seconds)
    return moved.isoformat() + rest


# --- one delivery of a journey ------------------------------------------------------------------------------------


class Play:
    """One journey in one spelling and one order of delivery, with its own drivers and ids. `differences` lists where
    the server's results differ from the file."""

    numbers = itertools.count(1)

    def __init__(self, server, journey, spelling):
        self.server = server
        self.journey = journey
        self.prefix = f"{int(time.time() * 1000):x}-{next(Play.numbers)}-"
        self.now = seconds_since_epoch(journey["now"])
        self.differences = []
        self.clients = {}
        shift = int(time.time()) - self.now
        self.requests = [self.request(event, spelling, shift) for event in journey["events"]]

    def request(self, event, spelling, shift):
        """Returns the route and the body of every attempt to send the event. If two entries of the file have the same
        key, they are one event whose body the app built twice."""
        route, name = spelling(event)
        body = {**event["body"], "event": name}
        for member in ("event_id", "idempotency_key", "session_id"):
            if body.get(member) is not None:
                body[member] = self.prefix + body[member]
        for member in ("occurred_at", "timestamp"):
            if member in body:
                body[member] = shifted(body[member], shift)
        return route, body

    def client(self, driver):
        if driver not in self.clients:
            self.clients[driver] = Client(self.server.port, token(self.prefix + driver))
        return self.clients[driver]

    def close(self):
        for client in self.clients.values():
            client.socket.close()

    def send(self, index):
        event = self.journey["events"][index]
        route, body = self.requests[index]
        headers = {
            name: shifted(value, int(time.time()) - self.now) if name == "X-Sent-At" else value
            for name, value in event.get("headers", {}).items()
        }
        return self.client(event["driver"]).post(route, body, headers)

    def differ(self, index, what, answer):
        body = self.requests[index][1]
        self.differences.append(f"event {index} ({body['event']}) {what}: {json.dumps(answer)}")

    def check_delivery(self, index, status, answer, is_repeat):
        expected = self.journey["events"][index]["expect"]
        if "status" in expected:
            if (status, answer.get("code")) != (expected["status"], expected["code"]):
                self.differ(index, f"should be refused with {expected['status']}", answer)
        elif status != 200 or answer["status"] != ("already_processed" if is_repeat else "ok"):
            self.differ(index, "should be stored" if not is_repeat else "was stored before", answer)

    def key(self, index):
        body = self.requests[index][1]
        return self.journey["events"][index]["driver"], body.get("idempotency_key") or body.get("event_id")

    def deliver(self, order):
        seen = set()
        for index in order:
            status, answer = self.send(index)
            self.check_delivery(index, status, answer, self.key(index) in seen)
            seen.add(self.key(index))

    def deliver_as_batches(self):
        """Posts consecutive events of the same driver as one batch."""
        seen = set()
        runs = itertools.groupby(range(len(self.requests)), key=lambda index: self.journey["events"][index]["driver"])
        for driver, indexes in runs:
            indexes = list(indexes)
            bodies = [self.requests[index][1] for index in indexes]
            status, answer = self.client(driver).post("/native/events/batch", {"events": bodies})
            if status != 200 or len(answer["results"]) != len(indexes):
                self.differ(indexes[0], "and its batch should be answered 200", answer)
                return
            for index, result in zip(indexes, answer["results"]):
                self.check_delivery(index, result["status_code"], result, self.key(index) in seen)
                seen.add(self.key(index))

    def compare(self):
        """Sends every event once more. Compares the verdicts and each driver's state with the file."""
        for index, event in enumerate(self.journey["events"]):
            expected = event["expect"]
            status, answer = self.send(index)
            self.check_delivery(index, status, answer, True)
            if "status" in expected or status != 200:
                continue
            verdict = {name: answer["session"].get(name) for name in ("transition", "reason", "implied")}
            if verdict != {name: expected.get(name) for name in verdict}:
                self.differ(index, f"should be {expected}", answer)
            ended_by = answer["session"].get("ended_by")
            if (ended_by is not None) != (answer["session"]["state"] == "SESSION_ENDED"):
                self.differ(index, "should say why the journey ended, if it did", answer)
            final = self.journey["final"][event["driver"]]
            if answer["session"]["state"] != final:
                self.differ(index, f"should leave its driver in {final}", answer)


    def compare_sessions(self):
        """Checks why each session ended. The list of sessions and the session's timeline must both give the reason in
        the file."""
        for driver, client in self.clients.items():
            _, answer = client.get("/native/sessions?limit=100")
            listed = {session["session_id"]: session.get("ended_by") for session in answer["sessions"]}
            for session, ending in self.journey.get("sessions", {}).items():
                if self.prefix + session not in listed:
                    continue
                _, one = client.get(f"/native/sessions/{self.prefix}{session}")
                if (listed[self.prefix + session], one.get("ended_by")) != (ending, ending):
                    self.differences.append(f"{session} of {driver} should be ended by {ending}: {json.dumps(one)}")


def orders(journey, chance, random_count, every):
    """Yields (name, order) for each delivery to play. If `every` is true, a short journey has all possible orders."""
    indexes = list(range(len(journey["events"])))
    yield "in order", indexes
    for delivery in journey.get("deliveries", []):
        order = delivery["order"]
        # A delivery of the file may lack some events. The test compares the verdicts of all events, so it sends the
        # missing events last.
        yield delivery["note"], order + [index for index in indexes if index not in order]
    if journey.get("permutable", True):
        if every and len(indexes) <= EVERY_ORDER_EVENTS_MAX:
            for order in itertools.permutations(indexes):
                yield "in every order", list(order)
            return
        for _ in range(random_count):
            order = indexes + chance.choices(indexes, k=len(indexes) // 3)
            chance.shuffle(order)
            yield "shuffled", order


def play(server, journey, spelling, chance, random_count):
    """Returns the differences from the file, over all orders."""
    differences = []
    for note, order in orders(journey, chance, random_count, spelling is as_in_the_file):
        one = Play(server, journey, spelling)
        one.deliver(order)
        one.compare()
        one.compare_sessions()
        one.close()
        differences += [f"{note} {order}: {difference}" for difference in one.differences]
    return differences


def play_as_batches(server, journey):
    one = Play(server, journey, as_in_the_file)
    one.deliver_as_batches()
    one.compare()
    one.close()
    return one.differences


def environment(journey):
    settings = journey.get("settings", {})
    return {**UNLIMITED, **{VARIABLES[name]: str(value) for name, value in settings.items()}}


def main():
    parser = arguments(__doc__)
    parser.add_argument("--seed", default=int(time.time()), type=int, help="of the random orders")
    parser.add_argument("--random-orders", default=10, type=int, help="for each journey and spelling, before scaling")
    parser.add_argument("--fixtures", default=REPOSITORY / "Tests/Fixtures/journeys")
    parser.add_argument("--only", default="", help="a part of the file names to play")
    options = parser.parse_args()

    report = Report("journeys")
    report.note(f"--seed {options.seed}")
    chance = random.Random(options.seed)
    random_count = max(1, round(options.random_orders * options.scale))
    files = sorted(file for file in REPOSITORY.joinpath(options.fixtures).glob("*.json") if options.only in file.name)
    report.check(len(files) >= (1 if options.only else 50), "the fixtures are there", options.fixtures)
    journeys = [json.loads(file.read_text()) for file in files]
    for settings, group in itertools.groupby(sorted(journeys, key=lambda j: str(environment(j))), key=environment):
        with Folder() as folder, Server(options, folder, settings) as server:
            for journey in group:
                for spelling in (as_in_the_file, canonical, v1):
                    what = f"{journey['name']}, {spelling.__name__.replace('_', ' ')}"
                    differences = play(server, journey, spelling, chance, random_count)
                    report.check(not differences, what, *differences)
                # All events of a batch share one X-Sent-At. A journey is therefore not played as batches if one of its
                # events has headers.
                if not any("headers" in event for event in journey["events"]):
                    differences = play_as_batches(server, journey)
                    report.check(not differences, f"{journey['name']}, as batches", *differences)
            report.check(server.stop() == 0, "SIGTERM ends the server with 0", server.log())
    report.exit()


if __name__ == "__main__":
    main()
