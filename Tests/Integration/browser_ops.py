#!/usr/bin/env python3
"""Checks the operator page in Chromium, on a server that has drivers in every state. The page shows the posted data,
updates itself, and says when its connection is lost. It works with a keyboard, with a screen reader, on a phone, and in
dark mode.

Screenshots go to $DWELL_SCREENSHOTS, if it is set."""

import collections
import json
import re
import signal
import time

from app_store import COINS, DAY, LIFETIME, YEARLY, AppStore, now_ms, number
from chromium import ENTER, ESCAPE, PHONE, WIDE, Chromium
from client import Client, token
from page_checks import PageChecks
from processes import Folder, Redis, Server, arguments, wait_until
from report import Report

OPERATOR = "operator-of-these-tests"
METRICS = "metrics-of-these-tests"
INSTANCE = "first"
CHANGE = """NATIVE_CHARGER_INTENT_RADIUS_M=200
NATIVE_MERCHANT_UNLOCK_RADIUS_M=100
SETTINGS_CHANGED_BY=Ann
SETTINGS_CHANGE_REASON=too many false starts
"""
PRESESSION_LIMIT = 8
# The events of each drive, as (seconds ago, name, session, result). The result is the state after the event, None if
# the event does not change the state, or "rejected".
NEAR = [(600, "enteredChargerIntentZone", None, "NEAR_CHARGER")]
ACTIVE = NEAR + [(500, "anchorDwellComplete", None, "ANCHORED"), (400, "exclusiveActivatedByWeb", "s", "SESSION_ACTIVE")]
TRANSIT = ACTIVE + [(300, "exitedChargerAnchorZone", "s", "IN_TRANSIT")]
MERCHANT = TRANSIT + [(200, "enteredMerchantZone", "s", "AT_MERCHANT")]
DRIVES = {
    "idle": [(600, "chargerTargeted", None, None)],
    "near-1": NEAR,
    "near-2": NEAR,
    # The second event arrives late: it occurred before the first one. After the second event, the first event is no
    # longer rejected.
    "late": [(60, "anchorDwellComplete", None, "ANCHORED"), (600, "enteredChargerIntentZone", None, "NEAR_CHARGER")],
    "active": ACTIVE + [(100, "enteredMerchantZone", "s", "rejected")],
    "transit": TRANSIT,
    "merchant": MERCHANT,
    "ended": MERCHANT + [(100, "visitVerifiedByWeb", "s", "SESSION_ENDED")],
}
DRIVERS = {"IDLE": 2, "NEAR_CHARGER": 2, "ANCHORED": 1, "SESSION_ACTIVE": 1, "IN_TRANSIT": 1, "AT_MERCHANT": 1, "SESSION_ENDED": 1}

READ_FUNNEL = """return [...document.querySelectorAll(".states > li")].map((item) => [
    item.querySelector(".name").innerText, Number(item.querySelector(".count").innerText),
    [...item.querySelectorAll("ul li")].map((move) => [...move.querySelectorAll("span")].map((span) => span.innerText))])"""
READ_ROWS = """return [...document.querySelectorAll(arguments[0] + " tbody tr")].map((row) =>
    [...row.querySelectorAll("td")].map((cell) => cell.innerText))"""
READ_RINGS = """return Object.fromEntries([...document.querySelectorAll("#rings .ring")].map((ring) =>
    [ring.classList[1], ring.r.baseVal.value]))"""
COUNT_OF = """return Number([...document.querySelectorAll(".states > li")].find((item) =>
    item.querySelector(".name").innerText === arguments[0])?.querySelector(".count").innerText ?? -1)"""


def post(server, driver, name, session=None, seconds_ago=0, key=None):
    event = {"event_id": key or f"{driver}-{name}-{seconds_ago}", "event": name, "charger_id": "c-1",
             "occurred_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - seconds_ago))}
    if session:
        event["session_id"] = f"{session}-{driver}"
    with Client(server.port, token(driver)) as client:
        return client.post("/native/events", event)


def populate(server):
    """Posts events of drivers in every state. Also sends requests that are rejected: above the rate limit, without a
    token, and with an invalid event."""
    for driver, drive in DRIVES.items():
        for seconds_ago, name, session, _ in drive:
            status, answer = post(server, driver, name, session, seconds_ago)
            assert status == 200, answer
    for number in range(PRESESSION_LIMIT + 2):
        post(server, "busy", "chargerTargeted", key=f"busy-{number}")
    with Client(server.port, None) as client:
        assert client.request("POST", "/native/events", b"{}").status == 401
    with Client(server.port, token("idle")) as client:
        assert client.request("POST", "/native/events", b"{}").status == 400


def buy(server, store):
    """Adds six purchases of an existing driver: two active, and one each in the grace period, in billing retry,
    refunded, and in the sandbox."""
    ended = now_ms() - 31 * DAY
    retries = {"isInBillingRetryPeriod": True}
    purchases = [(store.product(LIFETIME), None), (store.transaction(), None),
                 (store.product(COINS, revocationDate=now_ms()), None),
                 (store.transaction(productId=YEARLY, environment="Sandbox"), None)]
    for group, more in (("21000002", {"gracePeriodExpiresDate": now_ms() + DAY}), ("21000003", {})):
        id = number()
        purchases.append((store.transaction(transactionId=id, purchaseDate=ended, subscriptionGroupIdentifier=group),
                          store.renewal(id, **retries, **more)))
    with Client(server.port, token("idle")) as client:
        for transaction, renewal in purchases:
            body = {"signed_transaction": transaction, **({"signed_renewal_info": renewal} if renewal else {})}
            status, _, answer = client.request("POST", "/native/purchases", json.dumps(body).encode())
            assert status == 200, answer


def purchases(browser, report):
    shown = "2 active, 1 in grace, 1 in billing retry, 1 refunded today"
    browser.wait_for_text("#parts", shown)
    report.check("Purchases" in browser.text("#parts"), "the purchases in production are counted", browser.text("#parts"))
    browser.keep_picture("ops-purchases")


def enter(browser, word):
    browser.run("document.getElementById('token').value = ''; document.getElementById('token').focus()")
    browser.press(word, ENTER)


def door(server, browser, report, checks):
    browser.open(f"http://127.0.0.1:{server.port}/ops")
    browser.wait_for_text("#enter", "Operator token")
    report.check(browser.is_hidden("#content"), "the page asks for a token first")
    checks.contrast_and_width("door")
    checks.keyboard("door")
    checks.names("door")
    checks.console("at the door")
    enter(browser, "not-the-token")
    browser.wait("return document.getElementById('refusal').innerText !== ''", "a wrong token is told")
    report.check(browser.is_hidden("#content"), "a wrong token opens nothing")
    checks.contrast_and_width("refused")
    checks.console("but for the 401", "401 (Unauthorized)")
    enter(browser, OPERATOR)
    browser.wait("return document.querySelectorAll('.states > li').length === 7", "the right token opens it")
    report.check(browser.run("return document.activeElement.id") == "content", "the focus goes where the picture is")


def figures(browser, report):
    found = browser.run(READ_FUNNEL)
    report.check({name: count for name, count, _ in found} == DRIVERS,
                 "as many drivers in each state as were posted", found)
    expected = collections.Counter(
        (move[3], move[1]) for drive in DRIVES.values() for move in drive if move[3] in DRIVERS)
    shown = {(state, event): int(count) for state, _, moves in found for event, count in moves}
    report.check(shown == dict(expected), "the moves of the hour are those that were posted", shown, dict(expected))
    # The page counts verdicts as clients received them, so the first event of the drive "late" counts as rejected.
    none, rejected_count = 1 + PRESESSION_LIMIT, 2
    applied = sum(expected.values()) - 1
    browser.wait("return document.getElementById('rate-text').innerText !== ''", "counts over time are read")
    text = browser.text("#rate-text")
    report.check(text.split() == f"applied {applied} no change {none} rejected {rejected_count} rate limited 2".split(),
                 "the events are counted by outcome", text)
    rejected = browser.run(READ_ROWS, "#rejections")
    report.check(rejected == [["1", "enteredMerchantZone", "must_depart_first"]],
                 "what was rejected is told with its reason", rejected)
    refused = {status: (count, reason) for count, status, reason in browser.run(READ_ROWS, "#refused")}
    report.check(refused.get("429") == ("2", "rate limited") and refused.get("400") == ("1", "invalid request")
                 and "invalid credential" in refused.get("401", ""), "refused requests are counted by reason", refused)
    latency = browser.text("#requests")
    report.check("p50" in latency and latency.count(" ms") == 3, "latency is shown", latency)
    bars = browser.run("""return [...document.querySelectorAll("#rate rect")].map((bar) => [bar.classList[1], bar.height.baseVal.value])""")
    heights = collections.Counter()
    for name, height in bars:
        heights[name] += height
    report.check(abs(heights["none"] / heights["rejected"] - none / rejected_count) < 0.01,
                 "the bars are as high as the counts", bars)
    browser.wait_for_text("#parts", "accepts writes")
    report.check("Rate limits\nRedis" in browser.text("#parts").replace("\n\n", "\n"),
                 "the limiter is Redis", browser.text("#parts"))


def rings(browser, settings):
    """Compares the radius of each drawn ring with the settings. Returns the largest error, in units of the intent
    ring's radius."""
    drawn = browser.run(READ_RINGS)
    return max(abs(drawn[name] / drawn["intent"] - settings[name] / settings["intent"]) for name in settings)


def live(options, server, redis, browser, report, checks):
    browser.run("window.sameDocument = true")
    report.check(rings(browser, {"intent": 400, "merchant": 40, "anchor": 30}) < 0.001, "the rings are to scale")
    post(server, "near-3", "enteredChargerIntentZone")
    browser.wait(COUNT_OF.replace("return ", "return 3 === "), "a new event is seen", "NEAR_CHARGER")
    report.check("not reloaded since" in browser.text("#reload"), "no reload yet is told", browser.text("#reload"))
    report.check("Changed by\nnot given" in browser.text("#in-force"), "nobody said who changed the settings", browser.text("#in-force"))
    reload(server, CHANGE)
    browser.wait_for_text("#settings", "200")
    report.check(rings(browser, {"intent": 200, "merchant": 100, "anchor": 30}) < 0.001,
                 "changed radii are drawn at once")
    post(server, "near-4", "enteredChargerIntentZone")
    browser.run("document.getElementById('history').open = true; document.getElementById('minutes').open = true")
    browser.wait_for_text("#versions", "chargerIntentRadius_m 400 → 200, merchantUnlockRadius_m 40 → 100")
    versions = browser.run(READ_ROWS, "#versions")
    report.check([row[3:] for row in versions] == [["Ann", "too many false starts"], ["", ""]],
                 "the history has both versions, with who and why", versions)
    browser.wait_for_text("#in-force", "Ann")
    in_force = browser.text("#in-force").splitlines()
    report.check([in_force[0], *in_force[4:]] == ["Version in force", "Changed by", "Ann", "Reason", "too many false starts"]
                 and in_force[1] == versions[0][1] and in_force[3] == versions[0][0],
                 "the version in force, since when, by whom and why", in_force, versions)
    report.check(browser.text("#reload").startswith("Reloaded at"), "a good reload is told", browser.text("#reload"))
    minutes = browser.run(READ_ROWS, "#minutes-table")
    report.check(sum(int(row[3]) for row in minutes) == 2, "the table of minutes says what the bars say", minutes)
    reload(server, CHANGE + "HTTP_IDLE_TIMEOUT_SECONDS=60\nRATE_LIMIT_AUHT=5\n")
    browser.wait_for_text("#reload", "Needs a restart: HTTP_IDLE_TIMEOUT_SECONDS.")
    browser.wait_for_text("#reload", "Unknown setting RATE_LIMIT_AUHT; did you mean RATE_LIMIT_AUTH?")
    reload(server, CHANGE + "NATIVE_GRACE_PERIOD_SECONDS=40m\n")
    browser.wait_for_text("#reload", "changed nothing: NATIVE_GRACE_PERIOD_SECONDS=40m")
    browser.run("document.getElementById('reloads').open = true")
    browser.wait("return document.querySelectorAll('#reloads-table tbody tr').length === 2", "the reloads are listed")
    rows = browser.run(READ_ROWS, "#reloads-table")
    report.check([row[2] for row in rows] == ["failed", "partly applied"] and "40m" in rows[0][3]
                 and "HTTP_IDLE_TIMEOUT_SECONDS" in rows[1][3] and rows[0][1] == INSTANCE, "with what was wrong", rows)
    reload(server, CHANGE)
    browser.wait("return document.querySelectorAll('#reload p').length === 1", "a reload that is good again")
    servers(options, server, browser, report)
    redis.kill()
    # This request makes the server notice that Redis is unreachable.
    post(server, "near-3", "chargerTargeted")
    browser.wait_for_text("#parts", "Redis is unreachable")
    report.check(browser.run("return window.sameDocument === true"),
                 "new events, settings, a Redis that is away: all without a reload")
    checks.quiet("#as-of", 3)


def reload(server, text):
    (server.folder / "env").write_text(text)
    server.process.send_signal(signal.SIGHUP)


def servers(options, server, browser, report):
    """Checks that the list of servers contains this server. While a second server with other settings runs, the list
    must contain that server too."""
    rows = browser.run(READ_ROWS, "#servers")
    report.check([row[:2] for row in rows] == [[f"{INSTANCE} (this one)", "running"]], "the server shows itself", rows)
    second = server.folder / "second"
    second.mkdir()
    environment = {"OPS_TOKEN": OPERATOR, "INSTANCE_NAME": "second", "RATE_LIMIT_SESSION_EVENTS": "0", "RATE_LIMIT_AUTH": "77"}
    with Server(options, second, environment, database_folder=server.folder) as other:
        browser.wait_for_text("#servers", "second")
        found = {row[0]: row for row in browser.run(READ_ROWS, "#servers")}
        report.check(found["second"][1] == "running" and "RATE_LIMIT_AUTH" in found["second"][5]
                     and found["second"][3] != found[f"{INSTANCE} (this one)"][3],
                     "another server on the database, its version of the settings, and what differs", found)
        other.stop()
    browser.wait("return !document.getElementById('servers').innerText.includes('second')", "one that has ended is gone")


def over_time(browser, report):
    """Checks that every time range contains all events of this run. Also checks that the page shows the values of the
    bar under the pointer."""
    shown = browser.text("#rate-text")
    for name, title in (("15m", "minute"), ("6h", "five minutes"), ("24h", "quarter of an hour"), ("7d", "two hours"),
                        ("30d", "six hours"), ("1h", "minute")):
        browser.run("document.querySelector(`#ranges button[value='${arguments[0]}']`).click()", name)
        browser.wait("return shownHistory.range === arguments[0]", f"the range {name}", name)
        report.check(browser.text("#rate-title") == f"Events per {title}" and browser.text("#rate-text") == shown,
                     f"the last {name} in steps", browser.text("#rate-title"), browser.text("#rate-text"), shown)
    place = browser.run("""const bar = document.querySelector("#rate rect.applied"); bar.scrollIntoView({ block: "center" });
        const box = bar.getBoundingClientRect(); return { x: box.x + box.width / 2, y: box.y + 1 };""")
    browser.devtools("Input.dispatchMouseEvent", type="mouseMoved", **place)
    browser.wait_for_text("#values", "applied")
    line = browser.run("return document.querySelectorAll('#latency path').length")
    report.check(line == 3, "latency is drawn as three lines", line)
    browser.keep_picture("ops-hover-wide-light")
    shown = browser.text("#values")
    browser.devtools("Input.dispatchMouseEvent", type="mousePressed", button="left", clickCount=1, **place)
    browser.devtools("Input.dispatchMouseEvent", type="mouseReleased", button="left", clickCount=1, **place)
    browser.wait_for_text("#cases-body table", "NEAR_CHARGER")
    verdicts = collections.Counter(row[3].split(":")[0] for row in browser.run(READ_ROWS, "#cases-body"))
    # The chart counts the verdicts that clients received, and the list shows the verdicts that are stored now. They
    # differ by one event, whose verdict the late event changed.
    told = {name: int(line.rsplit(" ", 1)[1]) for line in shown.splitlines()[1:] for name in [line.rsplit(" ", 1)[0]]}
    report.check(sum(told[name] for name in ("applied", "no change", "rejected")) == sum(verdicts.values())
                 and verdicts["applied"] == told["applied"] + 1, "a step of the chart leads to its events", shown, verdicts)
    browser.run("document.getElementById('cases-close').click()")
    for chart in ("rate", "answers", "latency"):
        place = browser.run("""const box = document.getElementById(arguments[0]).getBoundingClientRect(); window.scrollTo(0, box.y - 100);
            const now = document.getElementById(arguments[0]).getBoundingClientRect(); return { x: now.right - 8, y: now.y + 20 };""", chart)
        browser.devtools("Input.dispatchMouseEvent", type="mouseMoved", **place)
        browser.wait("return !document.getElementById('values').hidden", f"values on hover over {chart}")
    browser.devtools("Input.dispatchMouseEvent", type="mouseMoved", x=1, y=1)


def cases(browser, report, checks):
    """Checks that a click on a count opens a list of what was counted, and that this list can be closed."""
    def close():
        browser.run("document.getElementById('cases-close').click()")

    def click(selector, text):
        browser.wait("""const found = [...document.querySelectorAll(arguments[0])].find((one) => one.innerText === arguments[1]);
            found?.click(); return found !== undefined;""", f"there is {text} in {selector}", selector, text)

    def rows(text):
        browser.wait_for_text("#cases-body table", text)
        return browser.run(READ_ROWS, "#cases-body")

    browser.run("[...document.querySelectorAll('.states > li')].find((item) => item.innerText.startsWith('AT_MERCHANT')).querySelector('button').click()")
    found = rows("merchant")
    report.check([row[:2] for row in found] == [["merchant", "AT_MERCHANT"]], "a count of drivers leads to them", found)
    click("#cases-body button.link", "merchant")
    browser.wait_for_text("#cases-body", "Last events")
    report.check("s-merchant" in browser.text("#cases-body"), "and a driver to its sessions", browser.text("#cases-body"))
    browser.keep_picture("ops-driver-wide-light")
    click("#cases-body button.link", "s-merchant")
    browser.wait_for_text("#timeline", "enteredMerchantZone")
    for _ in range(2):
        browser.run("document.getElementById('cases-back').click()")
    report.check(rows("merchant") == found, "and back")
    browser.press(ESCAPE)
    report.check(browser.is_hidden("#cases"), "Escape closes it")
    browser.run("[...document.querySelectorAll('#refused tr')].find((row) => row.innerText.includes('429')).querySelector('button').click()")
    found = rows("rate limited")
    report.check([row[:4] for row in found] == [["2", "busy", "/native/events", "429 rate limited"]],
                 "a count of refusals leads to whose they are", found)
    checks.contrast_and_width("cases")
    close()
    # Two of the sums under the charts open no list, and the page says why.
    for text, words in (("rate", "Repeated events are not listed"), ("answers", "Successful requests are only counted")):
        shown = browser.run("return document.getElementById(arguments[0] + '-text').parentElement.innerText", text)
        report.check(words in shown, f"the counts of {text} without cases say why", shown)
    sources = browser.text("#rate-sources")
    report.check(sources.startswith("ios_native ") and "other" not in sources, "events are shown by source", sources)
    browser.run("document.querySelector(`#rate-text button[aria-label*='rejected']`).click()")
    found = rows("must_depart_first")
    report.check(all(row[3].startswith("rejected") for row in found) and len(found) == 1, "a sum leads to its events", found)
    close()
    browser.run("document.querySelector(`#answers-text button[aria-label*='rate limited']`).click()")
    report.check([row[1] for row in rows("rate limited")] == ["busy"], "a sum of refusals leads to whose they are")
    close()
    browser.run("[...document.querySelectorAll('#minutes-table button.link')].at(-1).click()")
    browser.wait("return document.querySelectorAll('#cases-body tbody tr').length > 0", "a count of the table leads to its events")
    close()
    click("#rejections button.link", "1")
    found = rows("must_depart_first")
    report.check([row[1] for row in found] == ["active"], "a count of rejections leads to the events", found)
    close()
    browser.run("""openCases("First", () => new Promise((_, reject) => { window.failFirst = () => reject(new Error("too late")); }));
        openCases("Second", async () => ["of the second list"]);""")
    browser.wait_for_text("#cases-body", "of the second list")
    browser.run("failFirst()")
    report.check(browser.text("#cases-body") == "of the second list", "a list that fails late does not replace another",
                 browser.text("#cases-body"))
    close()
    browser.run("document.getElementById('state').value = 'SESSION_ENDED'; document.getElementById('filter').requestSubmit()")
    browser.wait_for_text("#sessions table", "s-ended")
    report.check([row[0] for row in browser.run(READ_ROWS, "#sessions")] == ["s-ended"], "sessions are listed by state")
    browser.run("document.getElementById('state').value = ''; document.getElementById('charger').value = 'c-1'; document.getElementById('filter').requestSubmit()")
    browser.wait("return document.querySelectorAll('#sessions tbody tr').length === 4", "sessions are listed by charger")


def signed_in(server, phone):
    with Client(server.port, None) as client:
        def post(path, body):
            answer = client.request("POST", path, json.dumps(body).encode())
            assert answer.status == 200, answer.body
            return json.loads(answer.body)

        post("/auth/otp/start", {"phone": phone})
        wait_until(lambda: "one-time code" in server.log_path.read_text(), 5, "the code is in the log")
        line = [line for line in server.log_path.read_text().splitlines() if "one-time code" in line][-1]
        return post("/auth/otp/verify", {"phone": phone, "code": str(json.loads(line)["code"])})["user"]["id"]


def search(server, browser, report):
    def find(text):
        browser.run("document.getElementById('cases').close(); const field = document.getElementById('query'); field.value = ''; field.focus()")
        browser.press(text, ENTER)

    find("nobody-knows-this")
    browser.wait_for_text("#cases-body", "No driver, session or charger")
    report.check(not browser.run(READ_ROWS, "#cases-body"), "what nobody knows is told", browser.text("#cases-body"))
    # The number is typed with blanks, as a driver dictates it on the telephone. The page sends the number in a POST,
    # because logs may contain the URL of a GET.
    driver = signed_in(server, "+4915112345678")
    find("+49 151 12345678")
    browser.wait_for_text("#cases-body table", driver)
    report.check([row[0] for row in browser.run(READ_ROWS, "#cases-body")] == [driver], "a phone number leads to its driver")
    browser.keep_picture("ops-search-wide-light")
    browser.run("document.querySelector('#cases-body td button.link').click()")
    browser.wait_for_text("#cases-title", f"Driver {driver}")
    find("+49 151 12345679")
    browser.wait_for_text("#cases-body", "no driver has this phone number")
    report.check("15112345679" not in re.sub(r"[ +]", "", server.log_path.read_text()), "a number that was searched for is in no log")
    find("c-")
    browser.wait_for_text("#cases-body", "c-1")
    find("near-")
    browser.wait_for_text("#cases-body table", "near-2")
    find("s-ended")
    browser.wait_for_text("#cases-body table", "s-ended")
    browser.run("document.querySelector('#cases-body td button.link').click()")
    browser.wait_for_text("#found", "Driver ended, now SESSION_ENDED")
    rows = browser.run(READ_ROWS, "#timeline")
    names = [name for _, name, session, _ in DRIVES["ended"] if session]
    report.check([row[1] for row in rows] == names and all(row[2] == "applied" for row in rows),
                 "a session's events with their verdicts", rows)
    browser.run("document.getElementById('cases').close()")


def end_of_page(browser, report):
    """Checks that the page ends directly below its last section, at both widths."""
    for size in (WIDE, PHONE):
        browser.show_as(size)
        blank = browser.run("""return document.documentElement.scrollHeight
            - Math.max(...[...document.querySelectorAll("section")].map((part) => part.getBoundingClientRect().bottom + window.scrollY))""")
        report.check(blank <= 40, f"at {size[0]} px the page ends behind its last part", blank)
    browser.show_as(WIDE)


def top(server, browser, report):
    """Checks that the page opens at its top on a phone. The content has the focus, but no ring is drawn around it."""
    browser.run("document.getElementById('leave').click()")
    browser.show_as(PHONE)
    enter(browser, OPERATOR)
    browser.wait("return !document.getElementById('content').hidden", "the token opens it again")
    report.check(browser.run("return window.scrollY") == 0, "at 390 px it opens at its top",
                 browser.run("return window.scrollY"))
    ring = browser.run("return [document.activeElement.id, getComputedStyle(document.activeElement).outlineStyle]")
    report.check(ring == ["content", "none"], "the focus is in the page, and no ring is around it", ring)
    browser.show_as(WIDE)


def operator_streams(server):
    with Client(server.port, METRICS) as client:
        text = client.request("GET", "/metrics").body.decode()
    return int(re.search(r'^dwell_streams\{kind="operator"\} ([0-9]+)$', text, re.MULTILINE)[1])


def signed_in_twice(server, browser, report):
    """Checks that no stream stays open if the operator submits the form twice and then signs out."""
    browser.run("document.getElementById('leave').click()")
    wait_until(lambda: operator_streams(server) == 0, 10, "the stream of before is closed")
    browser.run("""document.getElementById('token').value = arguments[0];
        document.getElementById('enter').requestSubmit();
        document.getElementById('enter').requestSubmit();""", OPERATOR)
    browser.wait("return document.getElementById('standing').innerText === 'Live'", "a form that is sent twice signs in")
    wait_until(lambda: operator_streams(server) == 1, 10, "one of two streams is closed")
    browser.run("document.getElementById('leave').click()")
    wait_until(lambda: operator_streams(server) == 0, 10, "both streams are closed")
    # The server sends an update (a "picture") every two seconds. An open stream would therefore get two updates during
    # this sleep.
    time.sleep(5)
    standing = browser.text("#standing")
    report.check(standing == "Not connected." and browser.is_hidden("#content"), "after signing out nothing is drawn", standing)
    enter(browser, OPERATOR)
    browser.wait("return document.getElementById('standing').innerText === 'Live'", "the token opens it again")


def cut_off(server, browser, report, checks):
    server.kill()
    browser.wait_for_text("#standing", "Disconnected")
    report.check(browser.run("return document.getElementById('standing').classList.contains('stale')"),
                 "a page without its server says so")
    checks.contrast_and_width("cut-off")
    server.start()
    browser.wait("return document.getElementById('standing').innerText === 'Live'", "it recovers when the server is back")
    report.check(browser.run(COUNT_OF, "SESSION_ENDED") == 1, "and shows what is stored")
    server.stop()
    browser.wait_for_text("#standing", "Disconnected")
    server.start()
    browser.wait("return document.getElementById('standing').innerText === 'Live'", "the same after a drain")


# Returns the tables for which "can be scrolled" and "is a tab stop" differ. The lists of cases are left out, because
# the keyboard reaches the buttons inside them.
WRONG_STOPS = """return [...document.querySelectorAll(".scroll[role=group]")]
    .filter((part) => (part.tabIndex === 0) !== (part.scrollWidth > part.clientWidth)).map((part) => part.id)"""


def tab_stops(browser, report):
    """Checks that a wide table is a tab stop if and only if it can be scrolled (WCAG 2.1.1). This must hold as soon as
    the window's width changes, before the page loads new data."""
    for size in (PHONE, WIDE, PHONE, WIDE):
        browser.show_as(size)
        time.sleep(0.2)
        wrong = browser.run(WRONG_STOPS)
        report.check(not wrong, f"at {size[0]} px the tables that can be scrolled are tab stops", wrong)


def main():
    options = arguments(__doc__).parse_args()
    report = Report("browser_ops")
    with Folder() as folder, Redis(folder) as redis:
        (folder / "env").write_text("")
        store = AppStore()
        environment = {"OPS_TOKEN": OPERATOR, "INSTANCE_NAME": INSTANCE, "ENV_FILE": str(folder / "env"), "REDIS_URL": redis.url,
                       **store.environment(folder), "OTP_DELIVERY": "log", "LOG_LEVEL": "notice",
                       "METRICS_TOKEN": METRICS,
                       "RATE_LIMIT_PRESESSION_EVENTS": str(PRESESSION_LIMIT), "RATE_LIMIT_SESSION_EVENTS": "0"}
        with Server(options, folder, environment) as server, Chromium() as browser:
            checks = PageChecks(browser, report, "ops")
            populate(server)
            buy(server, store)
            door(server, browser, report, checks)
            report.run("the figures", lambda: figures(browser, report))
            report.run("purchases", lambda: purchases(browser, report))
            report.run("what happens is shown", lambda: live(options, server, redis, browser, report, checks))
            report.run("counts over time", lambda: over_time(browser, report))
            report.run("cases behind the counts", lambda: cases(browser, report, checks))
            report.run("drivers, sessions and chargers are found", lambda: search(server, browser, report))
            checks.contrast_and_width("picture")
            end_of_page(browser, report)
            top(server, browser, report)
            report.run("a form that is submitted twice", lambda: signed_in_twice(server, browser, report))
            tab_stops(browser, report)
            checks.keyboard("picture")
            checks.names("picture")
            checks.stillness()
            checks.console("after all that")
            report.run("the page is cut off", lambda: cut_off(server, browser, report, checks))
            checks.console("but for what a server that is away makes", "net::ERR_", "401 (Unauthorized)")
            checks.only_from(f"http://127.0.0.1:{server.port}/")
            browser.run("document.getElementById('leave').click()")
            report.check(browser.run("return sessionStorage.getItem('dwell-operator-token') === null"), "the token is forgotten when told to")
    report.exit()


main()
