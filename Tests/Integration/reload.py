#!/usr/bin/env python3
"""Tests that operators see the results of a reload: it fails, a changed setting needs a restart, or a name is
misspelled. The log, /metrics, /ops, `dwell config history` and `dwell config show` must report each.

Also tests two servers with different settings on one database."""

import json
import signal
import subprocess

from client import Client
from processes import UNLIMITED, Folder, Server, arguments, wait_until
from report import Report

TOKEN = "operator-token-of-this-test"
METRICS = "metrics-token-of-this-test"


def lines_of(server, message):
    return [line for line in map(json.loads, server.log_path.read_text().splitlines()) if line["message"].startswith(message)]


def figures(server):
    with Client(server.port, METRICS) as client:
        text = client.request("GET", "/metrics").body.decode()
    return {line.split(" ")[0]: float(line.split(" ")[1]) for line in text.splitlines() if line.startswith(("dwell_settings_", "dwell_instances"))}


def picture(server, path="/ops/picture"):
    with Client(server.port, TOKEN) as client:
        answer = client.request("GET", path)
        assert answer.status == 200, answer
        return json.loads(answer.body)


def command(server, *words):
    return subprocess.run([server.binary, "config", *words], env=server.environment, cwd=server.folder, capture_output=True, text=True)


def reload(server, path, text, message):
    before = len(lines_of(server, message))
    path.write_text(text)
    server.process.send_signal(signal.SIGHUP)
    wait_until(lambda: len(lines_of(server, message)) > before, 20, message)


def reloads(report, options, folder):
    path = folder / "settings.env"
    path.write_text("NATIVE_CHARGER_DWELL_SECONDS=100\nRATE_LIMIT_AUTH=1000\n")
    environment = {**UNLIMITED, "LOG_LEVEL": "info", "ENV_FILE": str(path), "OPS_TOKEN": TOKEN, "METRICS_TOKEN": METRICS, "INSTANCE_NAME": "first"}
    with Server(options, folder, environment) as server:
        at_start = figures(server)
        state = picture(server)["settings_reload"]
        report.check(at_start["dwell_settings_reload_success"] == 1 and at_start["dwell_settings_restart_needed"] == 0
                     and at_start["dwell_settings_unknown"] == 0 and state["is_good"] and "last_attempt_at" not in state,
                     "after the start all is well", at_start, state)
        shown = command(server, "show")
        report.check(shown.returncode == 0 and "RATE_LIMIT_AUTH" in shown.stdout and TOKEN not in shown.stdout,
                     "dwell config show says what is in force, and no secret", shown)

        reload(server, path, "NATIVE_CHARGER_DWELL_SECONDS=200\nNATIVE_GRACE_PERIOD_SECONDS=40m\n", "settings not reloaded")
        failed = figures(server)
        state = picture(server)["settings_reload"]
        report.check(failed["dwell_settings_reload_success"] == 0
                     and failed["dwell_settings_reload_timestamp_seconds"] == at_start["dwell_settings_reload_timestamp_seconds"],
                     "a reload that failed: the metric is 0, the time is that of what is in force", failed)
        report.check(not state["is_good"] and any("NATIVE_GRACE_PERIOD_SECONDS" in problem for problem in state["problems"])
                     and state["last_attempt_at"], "and /ops says why", state)
        wait_until(lambda: "reload failed (first)" in command(server, "history").stdout, 20, "the history")
        history = command(server, "history").stdout
        report.check("NATIVE_GRACE_PERIOD_SECONDS" in history, "and so does the history", history)
        shown = command(server, "show")
        report.check(shown.returncode == 1 and "failed" in shown.stdout and "40m" in shown.stdout, "and dwell config show, with status 1",
                     shown.returncode, shown.stdout, shown.stderr)

        reload(server, path, "NATIVE_CHARGER_DWELL_SECONDS=200\nRATE_LIMIT_AUTH=2000\nJWT_ISSUER=other\nRATE_LIMIT_AUHT=5\n", "unknown setting")
        warning = lines_of(server, "changed settings take effect after a restart")[-1]
        report.check(warning["level"] == "warning" and warning["needs_restart"] == "JWT_ISSUER, RATE_LIMIT_AUTH",
                     "settings that need a restart are named in the log", warning)
        unknown = lines_of(server, "unknown setting")[-1]
        report.check("RATE_LIMIT_AUHT" in unknown["detail"] and "did you mean RATE_LIMIT_AUTH?" in unknown["detail"],
                     "a misspelt one too, with the one that was meant", unknown)
        partly = figures(server)
        report.check(partly["dwell_settings_reload_success"] == 1 and partly["dwell_settings_restart_needed"] == 2
                     and partly["dwell_settings_unknown"] == 1
                     and partly["dwell_settings_reload_timestamp_seconds"] > at_start["dwell_settings_reload_timestamp_seconds"],
                     "and in the metrics", partly)
        document = picture(server, "/ops/config")
        in_force = {setting["name"]: setting for setting in document["settings"]}
        report.check(document["settings_reload"]["needs_restart"] == ["JWT_ISSUER", "RATE_LIMIT_AUTH"]
                     and document["settings_reload"]["unknown"] == [{"name": "RATE_LIMIT_AUHT", "nearest": "RATE_LIMIT_AUTH"}]
                     and in_force["RATE_LIMIT_AUTH"]["value"] == "1000" and in_force["RATE_LIMIT_AUTH"]["needs_restart"]
                     and in_force["NATIVE_CHARGER_DWELL_SECONDS"]["value"] == "200"
                     and in_force["JWT_SECRET"]["value"] == "set",
                     "/ops/config has what is in force, and what waits for a restart", document)
        wait_until(lambda: "needs a restart" in command(server, "history").stdout, 20, "the history")
        history = json.loads(command(server, "history", "--json").stdout)
        report.check([entry["is_good"] for entry in history["reloads"]] == [True, False]
                     and any("did you mean" in detail for detail in history["reloads"][0]["details"]),
                     "the history has both, the newest first", history["reloads"])
        shown = command(server, "show")
        report.check(shown.returncode == 1 and "needs a restart: JWT_ISSUER, RATE_LIMIT_AUTH" in shown.stdout
                     and "did you mean RATE_LIMIT_AUTH?" in shown.stdout, "dwell config show says it", shown.stdout)

        reload(server, path, "NATIVE_CHARGER_DWELL_SECONDS=100\nRATE_LIMIT_AUTH=1000\n", "settings reloaded")
        report.check(figures(server)["dwell_settings_restart_needed"] == 0 and command(server, "show").returncode == 0,
                     "with the old values again, nothing waits for a restart", figures(server))
        server.stop()
        gone = command(server, "show")
        report.check(gone.returncode == 1 and "no server responds" in gone.stderr, "without a server, dwell config show says so", gone.stderr)


def two_servers(report, options, folder):
    common = {**UNLIMITED, "LOG_LEVEL": "info", "OPS_TOKEN": TOKEN, "METRICS_TOKEN": METRICS}
    one, two = folder / "one", folder / "two"
    one.mkdir()
    two.mkdir()
    with Server(options, one, {**common, "INSTANCE_NAME": "one"}, database_folder=folder) as first:
        wait_until(lambda: picture(first)["instances"], 20, "the server's own row")
        alone = figures(first)
        report.check(alone["dwell_instances"] == 1 and alone["dwell_instances_differing"] == 0, "one server knows itself", alone)
        different = {**common, "INSTANCE_NAME": "two", "RATE_LIMIT_AUTH": "77", "HTTP_IDLE_TIMEOUT_SECONDS": "60"}
        with Server(options, two, different, database_folder=folder) as second:
            told = "another server on this database has different settings"
            wait_until(lambda: lines_of(second, told), 20, "the warning at the start")
            line = lines_of(second, told)[0]
            report.check(line["instance"] == "one" and line["settings"] == "HTTP_IDLE_TIMEOUT_SECONDS, RATE_LIMIT_AUTH" and line["level"] == "warning",
                         "a second one with other settings warns at its start, and names them", line)
            states = {state["name"]: state for state in picture(first)["instances"]}
            report.check(set(states) == {"one", "two"} and states["two"]["differences"] == ["HTTP_IDLE_TIMEOUT_SECONDS", "RATE_LIMIT_AUTH"]
                         and states["two"]["is_alive"] and states["one"]["is_this_one"] and states["one"]["differences"] == [],
                         "/ops of the first one shows it", states)
            report.check(figures(first)["dwell_instances"] == 2 and figures(first)["dwell_instances_differing"] == 1, "and its metrics", figures(first))
            second.stop()
        report.check([state["name"] for state in picture(first)["instances"]] == ["one"], "a server that has ended is gone from the list")
        same = {**common, "INSTANCE_NAME": "three", "LOG_LEVEL": "warning", "EVENT_LOOPS": "1"}
        with Server(options, two, same, database_folder=folder) as third:
            wait_until(lambda: len(picture(third)["instances"]) == 2, 20, "the third server's row")
            report.check(figures(third)["dwell_instances_differing"] == 0, "what is each server's own business is no difference", figures(third))
            third.kill()
        states = {state["name"]: state for state in picture(first)["instances"]}
        report.check("three" in states, "one that was killed stays on the list until its heartbeat is old", states)


def reload_one_by_one(report, options, folder):
    """Checks that both servers list the settings in which they differ, also after a reload has changed a setting."""
    name = "NATIVE_GRACE_PERIOD_SECONDS"
    servers, files = [], []
    for instance in ("one", "two"):
        own = folder / instance
        own.mkdir()
        files.append(own / "settings.env")
        files[-1].write_text(f"{name}=60\n")
        environment = {**UNLIMITED, "LOG_LEVEL": "info", "OPS_TOKEN": TOKEN, "ENV_FILE": str(files[-1]), "INSTANCE_NAME": instance}
        servers.append(Server(options, own, environment, database_folder=folder))

    def differences():
        return [{state["name"]: state["differences"] for state in picture(server)["instances"]} for server in servers]

    def expect(one, two, what):
        """`one` lists the settings that server one must show as different on server two. `two` lists those that server
        two must show as different on server one."""
        expected = [{"one": [], "two": one}, {"one": two, "two": []}]
        try:
            wait_until(lambda: differences() == expected, 20, what)
        except AssertionError:
            pass
        found = differences()
        report.check(found == expected, what, found)

    with servers[0] as first, servers[1] as second:
        expect([], [], "two servers with the same settings")
        reload(first, files[0], f"{name}=90\n", "settings reloaded")
        expect([name], [name], "a reload of one of them makes a difference, on both")
        reload(second, files[1], f"{name}=90\n", "settings reloaded")
        expect([], [], "a reload of the other one ends it")
        first.stop()
        first.start()
        expect([], [], "a restart makes no difference")


def change_together(report, options, folder):
    """Two servers reload the same changed file at the same moment. The history must contain the change only once."""
    path = folder / "settings.env"
    path.write_text("NATIVE_CHARGER_DWELL_SECONDS=100\n")
    common = {**UNLIMITED, "LOG_LEVEL": "info", "ENV_FILE": str(path)}
    one, two = folder / "one", folder / "two"
    one.mkdir()
    two.mkdir()
    with Server(options, one, {**common, "INSTANCE_NAME": "one"}, database_folder=folder) as first, \
            Server(options, two, {**common, "INSTANCE_NAME": "two"}, database_folder=folder) as second:
        for number in range(1, 4):
            path.write_text(f"NATIVE_CHARGER_DWELL_SECONDS={100 + number}\n")
            for server in (first, second):
                server.process.send_signal(signal.SIGHUP)
            for server in (first, second):
                wait_until(lambda: len(lines_of(server, "settings reloaded")) == number, 20, "the reload")
            # A server that has ended has recorded what it read.
            for server in (first, second):
                server.stop()
            history = json.loads(command(first, "history", "--json").stdout)
            found = [change["settings"]["chargerDwellSeconds"] for change in history["changes"]]
            report.check(
                found == list(range(100 + number, 99, -1)), f"change {number} that two servers read is recorded once", found)
            for server in (first, second):
                server.start()


def main():
    options = arguments(__doc__).parse_args()
    report = Report("reload")
    with Folder() as folder:
        report.run("reloads", lambda: reloads(report, options, folder))
    with Folder() as folder:
        report.run("two servers", lambda: two_servers(report, options, folder))
    with Folder() as folder:
        report.run("reloads of two servers", lambda: reload_one_by_one(report, options, folder))
    with Folder() as folder:
        report.run("a change of two servers", lambda: change_together(report, options, folder))
    report.exit()


main()
