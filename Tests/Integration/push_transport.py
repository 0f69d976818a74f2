#!/usr/bin/env python3
"""Tests how `dwell push-test` sends notifications to the APNs and FCM of push_services.py. Checks the requests and the
effect of every answer. Many notifications must use one connection.

The services also stall, close connections, reset streams and send GOAWAY."""

import collections
import re
import subprocess
import time

from processes import Folder, arguments
from push_services import APNs, FCM, TOPIC, error, fcm_error
from report import Report

TOKEN = "740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad"
REGISTRATION = "fGm3xQ:APA91bEexample-registration_token"


def push(options, service, *words, extra=None):
    """Runs `dwell push-test`. Returns its exit status, standard output, standard error, and duration in seconds."""
    begun = time.monotonic()
    environment = {"PATH": "/usr/bin:/bin", "ENV_FILE": "/dev/null", **service.environment(), **(extra or {})}
    run = subprocess.run([options.dwell.resolve(), "push-test", *words], env=environment, capture_output=True, text=True,
                         timeout=60)
    return run.returncode, run.stdout, run.stderr, time.monotonic() - begun


def counts(output):
    """Returns the counts that `push-test --count` prints: {word: count}."""
    return {word: int(count) for word, count in re.findall(r"^(.+) (\d+)$", output, re.MULTILINE)}


# --- what is sent ---------------------------------------------------------------------------------------------------


def fields(report, options, folder):
    with APNs(folder / "fields") as apns:
        ended = push(options, apns, "--token", TOKEN, "--text", "Grüße")
        request = apns.requests[-1]
        report.check(ended[:2] == (0, "delivered\n"), "an alert is delivered", ended)
        report.check(request[":path"] == f"/3/device/{TOKEN}" and request["apns-push-type"] == "alert"
                     and request["apns-priority"] == "10" and request["apns-topic"] == TOPIC
                     and request["apns-expiration"] == "0" and request["apns-collapse-id"] == "dwell-push-test"
                     and request.json() == {"aps": {"alert": "Grüße", "sound": "default"}},
                     "with Apple's fields and the body as given", request.fields, request.body)
        push(options, apns, "--token", TOKEN, "--kind", "background", "--environment", "sandbox")
        request = apns.requests[-1]
        report.check(request["apns-push-type"] == "background" and request["apns-priority"] == "5"
                     and request.json() == {"aps": {"content-available": 1}}, "a background push", request.fields)
        payload = folder / "activity.json"
        payload.write_text('{"aps":{"timestamp":1,"event":"update","content-state":{"state":"AT_MERCHANT"}}}')
        ended = push(options, apns, "--token", TOKEN, "--kind", "live-activity", "--payload", str(payload))
        request = apns.requests[-1]
        report.check(ended[0] == 0 and request["apns-push-type"] == "liveactivity"
                     and request["apns-topic"] == f"{TOPIC}.push-type.liveactivity"
                     and request.body == payload.read_bytes(), "an update of a Live Activity, its body byte for byte",
                     ended, request.fields)
        report.check(not apns.complaints, "every request is as Apple documents it", apns.complaints)
        sent = len(apns.requests)
        ended = push(options, apns, "--token", "../../other")
        report.check(ended[0] == 1 and "BadDeviceToken" in ended[1] and len(apns.requests) == sent,
                     "a token that is not hexadecimal is not sent", ended)


def fcm_fields(report, options, folder):
    with FCM(folder / "fcm") as fcm:
        ended = push(options, fcm, "--token", REGISTRATION, "--google", "--text", "Hello")
        message = fcm.requests[-1].json()["message"] if fcm.requests else None
        report.check(ended[:2] == (0, "delivered\n") and message == {
            "notification": {"body": "Hello"}, "token": REGISTRATION,
            "android": {"collapse_key": "dwell-push-test", "ttl": "0s", "priority": "HIGH"}},
                     "a message to an Android app is delivered", ended, message)
        payload = folder / "message.json"
        payload.write_text('{"data":{"a":"b"},"android":{"ttl":"60s"}}')
        push(options, fcm, "--token", REGISTRATION, "--google", "--payload", str(payload))
        message = fcm.requests[-1].json()["message"]
        report.check(message["android"]["ttl"] == "60s" and message["android"]["collapse_key"] == "dwell-push-test"
                     and message["data"] == {"a": "b"}, "what the message itself says about Android stays", message)
        asked = fcm.token_requests
        ended = push(options, fcm, "--token", REGISTRATION, "--google", "--count", "50")
        report.check(counts(ended[1]) == {"delivered": 50} and fcm.token_requests == asked + 1 and fcm.connections == 3,
                     "many messages use one access token and one connection", ended, fcm.token_requests, fcm.connections)
        report.check(not fcm.complaints, "every request is as Google documents it", fcm.complaints)


# --- answers --------------------------------------------------------------------------------------------------------


def apns_answers(report, options, folder):
    with APNs(folder / "answers") as apns:
        for answer, text in (
                (error(410, "Unregistered", timestamp=1_750_000_000_123),
                 "not delivered: the app is no longer on this device since 2025-06-15T15:06:40.123Z"),
                (error(410, "ExpiredToken"), "not delivered: the app is no longer on this device"),
                (error(400, "BadDeviceToken"), "rejected as BadDeviceToken. The token is mistyped"),
                (error(413, "PayloadTooLarge"), "rejected as PayloadTooLarge"),
                (error(403, "InvalidProviderToken"), "rejected as InvalidProviderToken. PUSH_APNS_TEAM_ID"),
                (error(429, "TooManyRequests"), "unavailable (TooManyRequests); it asks for a pause of 60 s"),
                (error(429, "TooManyProviderTokenUpdates"), "unavailable (TooManyProviderTokenUpdates)"),
                (error(500, "InternalServerError"), "unavailable (InternalServerError)"),
                ((503, {"retry-after": "7"}, b'{"reason":"Shutdown"}'), "unavailable (Shutdown); it asks for a pause of 7 s"),
                ((502, {}, b"<html>"), "unavailable (status_502)"),
                (error(403, "ExpiredProviderToken"), "unavailable (ExpiredProviderToken); it asks for a pause of 1"),
                ((301, {"location": "https://elsewhere"}, b""), "unavailable (redirected)"),
        ):
            apns.script.append(answer)
            ended = push(options, apns, "--token", TOKEN)
            report.check(ended[0] == 1 and text in ended[1], f"{answer[0]} {answer[2].decode()[:60]}", ended)
        report.check(len(apns.requests) == 12, "each was sent once", len(apns.requests))


def fcm_answers(report, options, folder):
    with FCM(folder / "fcm-answers") as fcm:
        def send():
            return push(options, fcm, "--token", REGISTRATION, "--google")

        for answer, text in (
                (fcm_error(404, "NOT_FOUND", "UNREGISTERED"), "the app is no longer on this device"),
                (fcm_error(404, "NOT_FOUND"), "rejected as NOT_FOUND. The service account's project"),
                (fcm_error(400, "INVALID_ARGUMENT", "INVALID_ARGUMENT"), "rejected as INVALID_ARGUMENT"),
                (fcm_error(403, "PERMISSION_DENIED", "SENDER_ID_MISMATCH"), "rejected as SENDER_ID_MISMATCH"),
                (fcm_error(401, "UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"), "rejected as THIRD_PARTY_AUTH_ERROR"),
                (fcm_error(429, "RESOURCE_EXHAUSTED", "QUOTA_EXCEEDED"), "unavailable (QUOTA_EXCEEDED); it asks for a pause of 60 s"),
                (fcm_error(503, "UNAVAILABLE", "UNAVAILABLE", **{"retry-after": "30"}),
                 "unavailable (UNAVAILABLE); it asks for a pause of 30 s"),
                (fcm_error(500, "INTERNAL"), "unavailable (INTERNAL)"),
        ):
            fcm.script.append(answer)
            ended = send()
            report.check(ended[0] == 1 and text in ended[1], f"FCM: {answer[0]} {text[:50]}", ended)
        asked = fcm.token_requests
        fcm.script.append(fcm_error(401, "UNAUTHENTICATED"))
        ended = send()
        report.check(ended[0] == 0 and fcm.token_requests == asked + 2,
                     "after a 401 the message is sent again with a new access token", ended)
        fcm.script.extend([fcm_error(401, "UNAUTHENTICATED")] * 2)
        ended = send()
        report.check(ended[0] == 1 and "rejected as UNAUTHENTICATED" in ended[1], "but only once", ended)
        for answer, word in (((400, b'{"error":"invalid_grant"}'), "token_status_400"), ((200, b"{}"), "token_malformed"),
                             ((503, b""), "token_status_503")):
            fcm.token_answer = answer
            ended = send()
            report.check(ended[0] == 1 and f"unavailable ({word})" in ended[1], f"no access token: {word}", ended)


# --- the connection -------------------------------------------------------------------------------------------------


def one_connection(report, options, folder):
    with APNs(folder / "one") as apns:
        ended = push(options, apns, "--token", TOKEN, "--count", "1000")
        report.check(counts(ended[1]) == {"delivered": 1000} and apns.connections == 1,
                     "1000 notifications at once use one connection", ended, apns.connections)
        report.check(len(apns.tokens) == 1, "and one provider token", len(apns.tokens))
        report.note(f"1000 at once: {ended[1].splitlines()[-1]}")
    with APNs(folder / "held") as apns:
        # Dwell waits for the answer to its first notification before it sends several at the same time. APNs therefore
        # answers the first one at once, and holds all others.
        apns.script.append((200, {}, b""))
        apns.always, apns.hold = "hold", 500
        ended = push(options, apns, "--token", TOKEN, "--count", "1001")
        report.check(counts(ended[1]) == {"delivered": 1001} and apns.connections == 1 and apns.most_streams == 500,
                     "500 notifications are in progress at once, never more", ended, apns.most_streams)
    # APNs allows one stream until it has verified the provider token.
    with APNs(folder / "few", streams=1) as apns:
        ended = push(options, apns, "--token", TOKEN, "--count", "100")
        report.check(counts(ended[1]) == {"delivered": 100} and apns.most_streams == 1 and apns.connections <= 2,
                     "a service that allows one stream gets one at a time, on at most two connections", ended,
                     apns.most_streams, apns.connections)


def disturbed(report, options, folder, name, actions, count, allowed, connections, in_flight=1000):
    """Sends `count` notifications, and the APNs disturbs some of them with `actions`. Dwell must report each
    notification as delivered, or as unavailable with a word in `allowed`.

    The time limit of 10 s begins when Dwell hands a notification to libcurl. `count` must be so small that a slow
    machine sends all notifications in this time."""
    with APNs(folder / name.replace(" ", "-")) as apns:
        apns.script.extend([(200, {}, b"")] * 20)
        for action in actions:
            apns.script.append(action)
            apns.script.extend([(200, {}, b"")] * 20)
        status, output, errors, seconds = push(options, apns, "--token", TOKEN, "--count", str(count), "--in-flight", str(in_flight))
        found = counts(output)
        others = collections.Counter(found)
        del others["delivered"]
        report.check(sum(found.values()) == count and set(others) <= {f"unavailable {word}" for word in allowed},
                     f"{name}: every notification has an outcome", output, errors)
        report.check(apns.connections <= connections and seconds < 30, f"{name}: at most {connections} connections",
                     apns.connections, seconds, output)
        # If the answer to a notification is lost, libcurl sends the notification a second time, but not more often.
        report.check(found.get("delivered", 0) <= len(apns.requests) <= 2 * count, f"{name}: none is sent again and again",
                     len(apns.requests), output)
        report.note(f"{name}: {dict(found)}, {len(apns.requests)} requests, {apns.connections} connections, {seconds:.1f} s")
        return found, apns, seconds


def disturbances(report, options, folder):
    found, apns, _ = disturbed(report, options, folder, "GOAWAY mid-stream", ["goaway"] * 3, 400, {"unreachable"}, 12)
    report.check(found.get("delivered") == 400 and len(apns.requests) == 400,
                 "GOAWAY: streams that it excludes are sent again on a new connection, and each once", found,
                 len(apns.requests))
    found, _, _ = disturbed(report, options, folder, "GOAWAY before a stream", ["goaway before"] * 3, 400, {"unreachable"}, 12)
    report.check(found.get("delivered") == 400, "a stream that GOAWAY excludes is sent again", found)
    found, _, _ = disturbed(report, options, folder, "refused streams", ["refuse"] * 10, 400, {"unreachable"}, 12)
    report.check(found.get("delivered") == 400, "a refused stream is sent again", found)
    # One handle of libcurl sends all these requests, and Dwell resets it before each request. Without the reset,
    # libcurl 7.88 counts the repetitions of all requests together, and fails at the sixth.
    found, _, _ = disturbed(report, options, folder, "refused one by one", ["refuse"] * 8, 200, {"unreachable"}, 12,
                            in_flight=1)
    report.check(found.get("delivered") == 200, "a handle's requests are sent again however often others were", found)
    disturbed(report, options, folder, "reset streams", ["reset"] * 10, 400, {"unreachable"}, 12)
    disturbed(report, options, folder, "closed connections", ["close"] * 3, 400, {"unreachable"}, 12)
    found, _, seconds = disturbed(report, options, folder, "stalled streams", ["stall"] * 5, 200,
                                     {"timed_out", "unreachable"}, 1)
    # When the first stalled stream times out, Dwell closes its connection, which has long been silent. The connection's
    # other stalled streams may then end shortly before their own time limits.
    report.check(found.get("delivered") == 195 and found.get("unavailable timed_out", 0) >= 1
                 and 9.5 < seconds < 15,
                 "stalled streams end by their time limit, and the others are not delayed", found, seconds)
    found, apns, seconds = disturbed(report, options, folder, "dead connection", ["dead"], 200,
                                     {"timed_out", "unreachable"}, 2, in_flight=100)
    report.check(found.get("delivered", 0) >= 80 and apns.connections == 2 and seconds < 15,
                 "a connection that died is replaced when its first notification times out", found, apns.connections, seconds)


def unreachable(report, options, folder):
    apns = APNs(folder / "stopped")
    with apns:
        pass
    ended = push(options, apns, "--token", TOKEN)
    report.check(ended[0] == 1 and "unavailable (unreachable)" in ended[1] and ended[3] < 5,
                 "without a service: unreachable, at once", ended)
    with APNs(folder / "untrusted") as apns:
        ended = push(options, apns, "--token", TOKEN, extra={"PUSH_CA_FILE": ""})
        report.check(ended[0] == 1 and "unavailable (not_trusted)" in ended[1] and not apns.requests,
                     "an untrusted certificate gets nothing", ended)
    with APNs(folder / "http1", alpn=("http/1.1",)) as apns:
        ended = push(options, apns, "--token", TOKEN)
        report.check(ended[0] == 1 and "unavailable (not_http2)" in ended[1], "a service without HTTP/2 is reported", ended)


# --- settings -------------------------------------------------------------------------------------------------------


def settings(report, options, folder):
    apns = APNs(folder / "settings")
    with apns:
        for name in ("PUSH_APNS_KEY_ID", "PUSH_APNS_TEAM_ID", "PUSH_APNS_KEY_FILE", "PUSH_APNS_TOPIC"):
            ended = push(options, apns, "--token", TOKEN, extra={name: ""})
            report.check(ended[0] == 78 and f"{name} is not set" in ended[2], f"without {name}: 78", ended)
        apns.key_path.chmod(0o604)
        ended = push(options, apns, "--token", TOKEN)
        report.check(ended[0] == 78 and "PUSH_APNS_KEY_FILE" in ended[2] and "other users" in ended[2],
                     "a key that others can read: 78", ended)
        apns.key_path.chmod(0o600)
        ended = push(options, apns, "--token", TOKEN, extra={"APP_ENV": "production", "JWT_SECRET": "x" * 32})
        report.check(ended[0] == 78 and "PUSH_CA_FILE" in ended[2], "an authority of our own in production: 78", ended)
        ended = push(options, apns, "--token", REGISTRATION, "--google")
        report.check(ended[0] == 78 and "PUSH_FCM_SERVICE_ACCOUNT_FILE is not set" in ended[2],
                     "a service that is not configured: 78", ended)
    report.check(not apns.requests, "none of them sent anything", apns.requests)


def main():
    options = arguments(__doc__).parse_args()
    report = Report("push_transport.py")
    with Folder() as folder:
        for part in (fields, fcm_fields, apns_answers, fcm_answers, one_connection, disturbances, unreachable, settings):
            report.run(part.__name__.replace("_", " "), lambda part=part: part(report, options, folder))
    report.exit()


if __name__ == "__main__":
    main()
