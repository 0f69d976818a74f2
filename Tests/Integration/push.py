#!/usr/bin/env python3
"""Tests the notifications about journeys, from the posted event to APNs and FCM (push_services.py). A journey causes
notifications of every kind. Late or unwanted notifications are not sent.

Also tests how soon a notification follows its deadline. No notification may be lost after kill -9 or an outage."""

import collections
import concurrent.futures
import json
import signal
import subprocess
import time

from client import Client, token
from processes import UNLIMITED, Folder, Server, arguments, wait_until
from push_services import FCM, APNs, error
from report import Report

# The server sends a warning three minutes before the end of the grace period. With 182 s, the warning is due two
# seconds after the departure.
GRACE_SECONDS = 182
METRICS = "a-token-for-the-figures"


class Phones(APNs):
    """An APNs that records when each notification arrives, and can respond differently for each device."""

    def __init__(self, folder, **options):
        super().__init__(folder, **options)
        self.by_device = {}

    def answer(self, request):
        request.at = time.time()
        action = super().answer(request)
        return self.by_device.get(device_of(request), action)

    def of(self, driver, activity=False):
        address = hexadecimal(driver, activity)
        return [request for request in list(self.requests) if device_of(request) == address]

    def kinds(self, driver):
        return [request.json().get("kind") for request in self.of(driver)]


def device_of(request):
    return request[":path"].removeprefix("/3/device/")


def hexadecimal(driver, activity=False):
    return (f"activity-{driver}" if activity else driver).encode().hex()


def register(server, driver, **members):
    body = {"platform": "ios", "environment": "production", **members}
    address = members.pop("address", None) or hexadecimal(driver)
    body.pop("address", None)
    with Client(server.port, token(driver)) as client:
        answer = client.request("PUT", f"/native/devices/{address}", json.dumps(body).encode())
    assert answer.status in (200, 201), answer
    return json.loads(answer.body)


STEPS = {
    "near": ("enteredChargerIntentZone", False), "anchored": ("anchorDwellComplete", False),
    "active": ("exclusiveActivatedByWeb", True), "departed": ("exitedChargerAnchorZone", True),
    "merchant": ("enteredMerchantZone", True), "verified": ("visitVerifiedByWeb", True),
}


def post(server, driver, *steps, ago=0.0, session=None):
    """Posts an event of the driver for each of `steps`, a hundredth of a second apart. The last event occurred `ago`
    seconds ago. Returns its time in seconds since 1970."""
    now = time.time()
    with Client(server.port, token(driver)) as client:
        for index, step in enumerate(steps):
            name, has_session = STEPS[step]
            at = now - ago - 0.01 * (len(steps) - 1 - index)
            event = {
                "event_id": f"{driver}-{step}-{time.time_ns()}", "event": name, "occurred_at": time.strftime(
                    "%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at * 1000) % 1000:03d}Z"}
            if has_session:
                event["session_id"] = session or f"s-{driver}"
            status, answer = client.post("/native/events", event)
            assert status == 200, answer
    return now - ago


def rows(server, sql):
    return server.rows(sql)


def figure(server, series):
    with Client(server.port, METRICS) as client:
        text = client.request("GET", "/metrics").body.decode()
    return next((float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(series + " ")), None)


def expect(phones, driver, kinds, seconds=30):
    """Waits until the driver's phone has `len(kinds)` notifications. Returns whether their kinds equal `kinds`."""
    try:
        wait_until(lambda: len(phones.of(driver)) >= len(kinds), seconds, f"{len(kinds)} notifications")
    except AssertionError:
        pass
    return phones.kinds(driver) == kinds


# --- a journey --------------------------------------------------------------------------------------------------------


def journey(report, server, phones):
    register(server, "visitor", live_activity_token=hexadecimal("visitor", activity=True), locale="de-AT")
    post(server, "visitor", "near", "anchored", "active")
    report.check(expect(phones, "visitor", ["session_active"]), "a session that begins is told")
    departed = post(server, "visitor", "departed")
    report.check(
        expect(phones, "visitor", ["session_active", "grace_ending"]), "the end of the grace period is announced",
        phones.kinds("visitor"))
    warning = phones.of("visitor")[1]
    report.check(
        0 <= warning.at - (departed + GRACE_SECONDS - 180) < 5, "three minutes before it",
        warning.at - departed)
    report.check(
        "3 min" in warning.json()["aps"]["alert"]["body"] and warning["apns-collapse-id"] == "s-visitor"
        and warning["apns-priority"] == "10" and warning["apns-push-type"] == "alert"
        and abs(int(warning["apns-expiration"]) - (departed + GRACE_SECONDS)) <= 1,
        "with the session as collapse id, and the deadline as expiration", warning.fields, warning.body)
    post(server, "visitor", "merchant")
    report.check(
        expect(phones, "visitor", ["session_active", "grace_ending", "at_merchant"]), "the arrival is told")
    post(server, "visitor", "verified")
    wait_until(lambda: len(phones.of("visitor", activity=True)) >= 4, 10, "the Live Activity's updates")
    activity = [request.json()["aps"] for request in phones.of("visitor", activity=True)]
    report.check(
        [(update["event"], update["content-state"]["state"]) for update in activity] == [
            ("update", "SESSION_ACTIVE"), ("update", "IN_TRANSIT"), ("update", "AT_MERCHANT"), ("end", "SESSION_ENDED")],
        "the Live Activity follows the journey to its end", activity)
    report.check(
        activity[1]["content-state"]["deadline"] == activity[1]["stale-date"]
        and GRACE_SECONDS - 5 <= activity[1]["content-state"]["seconds_left"] <= GRACE_SECONDS
        and activity[3]["dismissal-date"] > activity[3]["timestamp"], "with its deadline", activity)
    wait_until(
        lambda: rows(server, "SELECT count(*) FROM device WHERE live_activity_token IS NOT NULL") == [(0,)], 10,
        "the removal of the update token")
    report.check(phones.kinds("visitor") == ["session_active", "grace_ending", "at_merchant"], "a visit ends silently")


def followed(report, server, phones):
    """A session ends while APNs is down, so the `end` event for its Live Activity is late. The next session has its own
    Live Activity, which the late event must not end."""
    driver = "followed"
    first, second = hexadecimal(driver, activity=True), hexadecimal(driver + "-2", activity=True)
    register(server, driver, live_activity_token=first)
    post(server, driver, "near", "anchored", "active")
    wait_until(lambda: phones.of(driver, activity=True), 10, "the first session's Live Activity")
    phones.by_device[first] = error(503, "ServiceUnavailable")
    post(server, driver, "departed", "merchant", "verified")
    time.sleep(0.1)
    post(server, driver, "near", "anchored", "active", session="s-followed-2")
    register(server, driver, live_activity_token=second)

    def updates():
        return [(one["event"], one["content-state"]["session_id"]) for one in
                (request.json()["aps"] for request in phones.of(driver + "-2", activity=True))]

    wait_until(lambda: ("update", "s-followed-2") in updates(), 60, "the second session's Live Activity")
    report.check(
        set(updates()) == {("update", "s-followed-2")}, "the late end of a session does not end the next one's activity",
        updates())


def returned(report, server, phones):
    register(server, "returned")
    post(server, "returned", "near", "anchored", "active")
    expect(phones, "returned", ["session_active"])
    post(server, "returned", "departed")
    post(server, "returned", "merchant")
    time.sleep(GRACE_SECONDS - 180 + 1.5)
    report.check(
        phones.kinds("returned") == ["session_active", "at_merchant"], "a driver who arrived is not warned",
        phones.kinds("returned"))


def killed(report, server, phones):
    """Checks the notifications to a phone whose app is killed after the departure. The app cannot detect the end of the
    session, so the server must announce it."""
    delays = []
    for number in range(8):
        driver = f"killed-{number}"
        register(server, driver, live_activity_token=hexadecimal(driver, activity=True))
        departed = post(server, driver, "near", "anchored", "active", "departed", ago=GRACE_SECONDS - 1.5 - number / 8)
        report.check(
            expect(phones, driver, ["session_expired", "wake"]), "the phone is told of the time-out, and woken",
            phones.kinds(driver))
        delays.append(phones.of(driver)[0].at - (departed + GRACE_SECONDS))
        wake = phones.of(driver)[1]
        report.check(
            wake["apns-push-type"] == "background" and wake["apns-priority"] == "5"
            and wake.json()["aps"] == {"content-available": 1}, "by a background push", wake.fields, wake.body)
        wait_until(lambda: phones.of(driver, activity=True), 10, "the end of the Live Activity")
        end = phones.of(driver, activity=True)[-1].json()["aps"]
        report.check(end["event"] == "end" and end["content-state"]["ended_by"] == "grace", "its activity ends", end)
    report.note(f"told {min(delays):.2f} to {max(delays):.2f} s after the deadline")
    report.check(0 <= min(delays) and max(delays) < 2, "within two seconds of the deadline", delays)


def silent(report, server, phones):
    """Checks that late events and simulated drivers cause no notifications. Devices of the platform `web` get none. No
    device gets a kind that its driver has turned off."""
    register(server, "late")
    post(server, "late", "near", "anchored", "active", ago=65)
    register(server, "quiet", notifications={"quiet": True})
    post(server, "quiet", "near", "anchored", "active")
    register(server, "partly", notifications={"session_active": False})
    post(server, "partly", "near", "anchored", "active", "departed", "merchant")
    register(server, "simulated-1x-driver-1")
    post(server, "simulated-1x-driver-1", "near", "anchored", "active")
    register(server, "other", platform="web")
    post(server, "other", "near", "anchored", "active")
    report.check(expect(phones, "partly", ["at_merchant"]), "one kind is turned off", phones.kinds("partly"))
    time.sleep(0.5)
    for driver in ("late", "quiet", "simulated-1x-driver-1", "other"):
        report.check(phones.kinds(driver) == [], f"nothing for {driver}", phones.kinds(driver))
    report.check(
        register(server, "quiet", notifications={"quiet": True})["notifications"]["quiet"] is True,
        "the answer has the preferences")


def android(report, server, fcm):
    register(server, "android", platform="android", address="registration:token")
    post(server, "android", "near", "anchored", "active")
    wait_until(lambda: fcm.requests, 10, "the message")
    message = fcm.requests[-1].json()["message"]
    report.check(
        message["token"] == "registration:token" and message["data"]["kind"] == "session_active"
        and message["notification"]["title"] and message["android"]["collapse_key"] == "s-android"
        and message["android"]["notification"] == {"tag": "s-android"}
        and message["android"]["priority"] == "HIGH", "an Android phone gets a message of FCM", message)


# --- answers, outages and kills ---------------------------------------------------------------------------------------


def gone(report, server, phones):
    """Checks Apple's status 410. The server must remove a device only if the device registered before the response's
    timestamp."""
    register(server, "gone")
    register(server, "again")
    phones.by_device[hexadecimal("gone")] = error(410, "Unregistered", timestamp=int((time.time() + 1) * 1000))
    phones.by_device[hexadecimal("again")] = error(410, "Unregistered", timestamp=int((time.time() - 60) * 1000))
    for driver in ("gone", "again"):
        post(server, driver, "near", "anchored", "active")
        wait_until(lambda: phones.of(driver), 10, "the notification")
    devices = "SELECT push_token FROM device"
    wait_until(lambda: (hexadecimal("gone"),) not in rows(server, devices), 10, "the removal of the device")
    time.sleep(0.3)
    report.check((hexadecimal("again"),) in rows(server, devices), "a device that registered later stays")
    phones.by_device.clear()


def outage(report, server, phones, count):
    """Checks that no notification is lost while APNs responds with 503, or when the server is killed during a
    delivery."""
    drivers = [f"outage-{number}" for number in range(count)]
    phones.always = error(503, "ServiceUnavailable")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda driver: register(server, driver), drivers))
        list(pool.map(lambda driver: post(server, driver, "near", "anchored", "active"), drivers))
    wait_until(lambda: figure(server, 'dwell_push_sent_total{kind="session_active",outcome="unavailable"}') > count / 2,
               30, "the first attempts")
    wait_until(lambda: figure(server, 'dwell_outbox_waiting{queue="push"}') == count, 10, "the full outbox")
    report.check(figure(server, 'dwell_outbox_age_seconds{queue="push"}') > 0, "and the oldest is shown")
    phones.always = None
    phones.requests.clear()
    delivered = collections.Counter()

    def drain():
        delivered.clear()
        delivered.update(device_of(request) for request in list(phones.requests))
        return all(delivered[hexadecimal(driver)] for driver in drivers)

    wait_until(lambda: drain() or sum(delivered.values()) > count / 4, 90, "the first deliveries")
    server.kill()
    server.start()
    # The killed server had reserved the entries of push_outbox that it was sending. A reservation lasts up to 45
    # seconds, so the test waits longer.
    wait_until(drain, 90, "every delivery")
    wait_until(lambda: rows(server, "SELECT count(*) FROM push_outbox") == [(0,)], 60, "the empty outbox")
    drain()
    again = sum(number - 1 for number in delivered.values())
    report.note(f"{len(delivered)} notifications were delivered, {again} of them again after a kill")
    report.check(max(delivered.values()) <= 2, "none comes more than once again", delivered.most_common(3))
    before = phones.kinds(drivers[0])
    post(server, drivers[0], "departed", "merchant")
    report.check(expect(phones, drivers[0], before + ["at_merchant"]), "and deliveries go on")
    server.stop()
    log = server.log_path.read_text(errors="replace")
    report.check(not any(hexadecimal(driver) in log for driver in drivers), "no token is in the log")
    server.start()


# --- texts ------------------------------------------------------------------------------------------------------------


def texts(report, server, phones, path):
    kinds = ("session_active", "at_merchant", "grace_ending", "session_expired")

    def write(**languages):
        path.write_text(json.dumps({"default": "en", "languages": {
            language: {kind: {"title": f"{text} {kind}", "body": "b"} for kind in kinds}
            for language, text in languages.items()}}))

    write(en="Hello", de="Hallo")
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "texts of alerts reloaded" in server.log_path.read_text(), 10, "the reload")
    for driver, locale, title in (
            ("vienna", "de-AT", "Hallo session_active"), ("paris", "fr", "Hello session_active")):
        register(server, driver, locale=locale)
        post(server, driver, "near", "anchored", "active")
        wait_until(lambda: phones.of(driver), 10, "the alert")
        found = phones.of(driver)[0].json()["aps"]["alert"]["title"]
        report.check(found == title, f"a phone with {locale} gets its text", found)
    path.write_text(path.read_text().replace('"at_merchant"', '"arrival"', 1))
    checked = subprocess.run(
        [server.binary, "check-config"], env=server.environment, cwd=server.folder, capture_output=True, text=True)
    report.check(
        checked.returncode != 0 and "languages.en.arrival is not a member" in checked.stdout + checked.stderr,
        "a bad file is refused with its place", checked.stdout[-500:], checked.stderr[-500:])
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: "settings not reloaded" in server.log_path.read_text(), 10, "the refusal")
    write(en="Hello", de="Hallo")


def main():
    options = arguments(__doc__).parse_args()
    report = Report("push")
    with Folder() as folder, Phones(folder / "apns") as phones, FCM(folder / "fcm") as fcm:
        authorities = folder / "authorities.pem"
        authorities.write_bytes(phones.certificate.read_bytes() + fcm.certificate.read_bytes())
        path = folder / "texts.json"
        path.write_text(json.dumps({"default": "en", "languages": {"en": {
            kind: {"title": kind, "body": "ends in {minutes} min"}
            for kind in ("session_active", "at_merchant", "grace_ending", "session_expired")}}}))
        environment = {
            **UNLIMITED, **phones.environment(), **fcm.environment(), "PUSH_CA_FILE": str(authorities),
            "PUSH_TEXTS_FILE": str(path), "METRICS_TOKEN": METRICS, "LOG_LEVEL": "notice",
            "NATIVE_GRACE_PERIOD_SECONDS": str(GRACE_SECONDS)}
        with Server(options, folder, environment) as server:
            journey(report, server, phones)
            followed(report, server, phones)
            returned(report, server, phones)
            killed(report, server, phones)
            silent(report, server, phones)
            android(report, server, fcm)
            gone(report, server, phones)
            texts(report, server, phones, path)
            outage(report, server, phones, count=max(100, int(600 * options.scale)))
            report.check(not phones.complaints and not fcm.complaints, "every request is as the services document it",
                         phones.complaints[:3], fcm.complaints[:3])
    report.exit()


main()
