#!/usr/bin/env python3
"""Tests config/prometheus and config/grafana. promtool checks and tests the rules. A real Prometheus scrapes a server
under load, and must find series for each query of the rules, the dashboard and docs/operations.md."""

import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from apple_server import es256_key_file
from client import Client, token
from ports import free_port
from processes import REPOSITORY, UNLIMITED, Folder, Redis, Server, arguments, wait_until
from report import Report

CONFIGURATION = REPOSITORY / "config/prometheus/prometheus.yml"
RULES = REPOSITORY / "config/prometheus/rules.yml"
RULES_TEST = REPOSITORY / "Tests/Integration/prometheus_rules.yml"
DASHBOARD = REPOSITORY / "config/grafana/dwell.json"
OPERATIONS = REPOSITORY / "docs/operations.md"
# The time range of the tested queries. It contains many samples, because Prometheus scrapes about once a second in this
# test.
INTERVAL = "1m"
SCRAPE_SECONDS_MAX = 60
PRESESSION_LIMIT = 5
# The alerts whose condition may be true in this test. The load causes rejected tokens, events over the limit,
# undelivered codes and undelivered notifications. The alerts about disks, commits and loops depend on the machine.
TRUE_HERE = {"DwellTokensRefused", "DwellManyRateLimited", "DwellCodesWait", "DwellPushWaits",
             "DwellDiskAlmostFull", "DwellDiskFillsUp", "DwellSlowCommits", "DwellLoopStuck"}


class Prometheus:
    """A Prometheus with the repository's configuration, except that it scrapes `target_port` once a second."""

    def __init__(self, folder, target_port):
        self.folder = folder / "prometheus"
        self.folder.mkdir()
        self.port = free_port()
        text = CONFIGURATION.read_text().replace("127.0.0.1:9464", f"127.0.0.1:{target_port}")
        text = text.replace("rules.yml", str(RULES)).replace("interval: 15s", "interval: 1s")
        self.configuration = self.folder / "prometheus.yml"
        self.configuration.write_text(text)

    def __enter__(self):
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={self.configuration}", f"--storage.tsdb.path={self.folder}/data",
                 f"--web.listen-address=127.0.0.1:{self.port}"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            wait_until(self.is_ready, 30, "the start of Prometheus")
        except AssertionError as error:
            raise AssertionError(f"{error}; its log:\n{(self.folder / 'log').read_text()[-3000:]}") from None
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def is_ready(self):
        assert self.process.poll() is None, (self.folder / "log").read_text()[-3000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    def ask(self, path, **query):
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=30) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{query}: {error.read().decode()}") from None

    def series(self, query):
        """Returns the number of series that the query finds now."""
        return len(self.ask("query", query=query)["result"])

    def rules(self):
        return [rule for group in self.ask("rules")["groups"] for rule in group["rules"]]


class Traffic(threading.Thread):
    def __init__(self, port):
        super().__init__(daemon=True)
        self.port = port
        self.is_over = threading.Event()
        self.failure = None

    def run(self):
        try:
            with (Client(self.port, token("scraped")) as driver, Client(self.port, "no-token") as stranger,
                  Client(self.port, None) as anyone):
                # When this driver's session begins, the server sends a notification to the driver's device. No push
                # service accepts it.
                driver.request("PUT", "/native/devices/ab12", b'{"platform":"ios","environment":"production"}')
                for event in ("enteredChargerIntentZone", "anchorDwellComplete"):
                    driver.post("/native/events", {
                        "event": event, "event_id": event,
                        "occurred_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
                number = 0
                while not self.is_over.is_set():
                    number += 1
                    for event in ({"event": "chargerTargeted"}, {"event": "exclusiveActivatedByWeb", "session_id": "s"}):
                        driver.post("/native/events", {
                            **event, "event_id": f"{event['event']}-{number}", "charger_id": "c",
                            "occurred_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())})
                    stranger.request("GET", "/native/config")
                    anyone.post("/auth/otp/start", {"phone": f"+491520000{number % 10000:04}"})
                    time.sleep(0.05)
        except Exception as error:
            self.failure = error


def threshold_removed(query):
    """Removes the comparison at the end of a rule's query. Without it, the query finds series even if the alert does
    not fire."""
    value, count = re.subn(r"\s*(?:==|<|>)\s*[0-9.e+]+$", "", query.strip())
    assert count == 1, f"{query} does not end in a comparison with a number"
    return value


def dashboard_queries():
    """Yields (title, query) for each query of a panel, and (name, query) for each variable of the dashboard. Replaces
    Grafana's variables in the queries."""
    dashboard = json.loads(DASHBOARD.read_text())
    queries = [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel.get("targets", [])]
    for variable in dashboard["templating"]["list"]:
        if found := re.fullmatch(r"label_values\((.+), \w+\)", variable.get("definition", "")):
            queries.append((variable["name"], found[1]))
    for title, query in queries:
        query = query.replace("$job", "dwell").replace("$instance", ".*").replace("$__rate_interval", INTERVAL)
        yield title, query


def operations_queries():
    """Returns the queries and metric names in the code spans of docs/operations.md."""
    spans = re.findall(r"`([^`]*\bdwell_[^`]*)`", OPERATIONS.read_text())
    return sorted({re.sub(r"\[(5m|1h)\]", f"[{INTERVAL}]", span) for span in spans})


def promtool(report):
    for words, what in ((("check", "config", CONFIGURATION), "promtool accepts the configuration and its rules"),
                        (("test", "rules", RULES_TEST), "each alert fires when it should")):
        run = subprocess.run(["promtool", *map(str, words)], capture_output=True, text=True, timeout=600)
        report.check(run.returncode == 0, what, run.stdout, run.stderr)
    tested = set(re.findall(r"alertname: (\w+)\s+exp_alerts:\s+- exp_labels", RULES_TEST.read_text()))
    named = set(re.findall(r"- alert: (\w+)", RULES.read_text()))
    report.check(named and tested == named, "no alert is without a test that sees it fire", *(named ^ tested))


def runbooks(report):
    headings = {re.sub(r"[^\w -]", "", line.lstrip("# ").lower()).strip().replace(" ", "-")
                for line in OPERATIONS.read_text().splitlines() if line.startswith("#")}
    links = re.findall(r"runbook_url: docs/operations\.md#(\S+)", RULES.read_text())
    missing = [link for link in links if link not in headings]
    report.check(len(links) == RULES.read_text().count("- alert: ") and not missing,
                 "every alert has a section in docs/operations.md", *missing)


def without_series(prometheus, queries):
    """Returns a line with name and query for each query that finds no series within SCRAPE_SECONDS_MAX."""
    deadline = time.monotonic() + SCRAPE_SECONDS_MAX
    while empty := [f"{name}: {query}" for name, query in queries if not prometheus.series(query)]:
        if time.monotonic() > deadline:
            break
        time.sleep(1)
    return empty


def under_load(report, prometheus, traffic):
    wait_until(lambda: all(rule["health"] == "ok" for rule in prometheus.rules()), SCRAPE_SECONDS_MAX,
               "a first evaluation of every rule")
    rules = prometheus.rules()
    ill = [f"{rule['name']}: {rule['health']} {rule.get('lastError')}" for rule in rules if rule["health"] != "ok"]
    report.check(rules and not ill, f"Prometheus evaluates all of {len(rules)} rules", *ill)
    empty = without_series(prometheus, [(rule["name"], threshold_removed(rule["query"])) for rule in rules])
    report.check(not empty, "every rule finds the series that it judges", *empty)
    queries = list(dashboard_queries())
    empty = without_series(prometheus, queries)
    report.check(len(queries) > 30 and not empty, f"each of {len(queries)} queries of the dashboard finds series", *empty)
    queries = [("operations.md", query) for query in operations_queries()]
    empty = without_series(prometheus, queries)
    report.check(len(queries) > 20 and not empty, f"each of {len(queries)} queries of docs/operations.md finds series",
                 *empty)
    report.check(traffic.failure is None, "the load was one", traffic.failure)
    firing = {rule["name"] for rule in prometheus.rules() if rule["state"] == "firing"}
    report.check(not firing - {"DwellDiskAlmostFull"}, "no alert fires on a server that is well", *firing)
    # Most alerts fire only after their condition has been true for minutes, longer than this test lasts. But an alert
    # becomes pending as soon as its condition is true.
    true = {rule["name"] for rule in prometheus.rules() if rule["state"] != "inactive"}
    report.check(not true - TRUE_HERE, "no alert has a true condition, except those that the load causes", *true)


def main():
    options = arguments(__doc__).parse_args()
    # Connect directly, even if the environment has a proxy.
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    report = Report("prometheus")
    if not (shutil.which("prometheus") and shutil.which("promtool")):
        report.note("there is no prometheus here; scripts/bootstrap --tests installs it")
        report.check(False, "Prometheus is installed")
        report.exit()
    promtool(report)
    runbooks(report)
    nobody = free_port()
    with Folder() as folder, Redis(folder) as redis:
        metrics_port = free_port()
        es256_key_file(folder / "push-key.p8")
        environment = {
            **UNLIMITED, "RATE_LIMIT_PRESESSION_EVENTS": str(PRESESSION_LIMIT), "RATE_LIMIT_AUTH": "0",
            "METRICS_PORT": str(metrics_port), "REDIS_URL": redis.url, "EVENT_RETENTION_DAYS": "30",
            "PURCHASE_APPS": "com.example.dwell:1",
            # No process receives the events and codes, so they wait.
            "POSTHOG_HOST": f"http://127.0.0.1:{nobody}", "POSTHOG_KEY": "key", "OTP_DELIVERY": "webhook",
            "OTP_WEBHOOK_URL": f"http://127.0.0.1:{nobody}/codes", "OTP_WEBHOOK_SECRET": "signs-the-codes-of-this-test",
            "PUSH_APNS_TEAM_ID": "TEAM123456", "PUSH_APNS_KEY_ID": "PUSH123456", "PUSH_APNS_TOPIC": "org.example.chargers",
            "PUSH_APNS_KEY_FILE": str(folder / "push-key.p8"), "PUSH_APNS_URL": f"https://127.0.0.1:{nobody}",
        }
        with Server(options, folder, environment) as server, Prometheus(folder, metrics_port) as prometheus:
            traffic = Traffic(server.port)
            traffic.start()
            try:
                under_load(report, prometheus, traffic)
            finally:
                traffic.is_over.set()
                traffic.join(30)
    report.exit()


if __name__ == "__main__":
    main()
