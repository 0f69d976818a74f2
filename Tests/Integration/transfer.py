#!/usr/bin/env python3
"""Moves a server from SQLite to PostgreSQL under load with `dwell migrate --from sqlite`. The command is killed once
and run again. When it asks for the stop of the SQLite server, the test kills that server and starts a PostgreSQL
server.

The phones repeat events that were not acknowledged. No acknowledged event is lost, and none is stored twice. A stream
continues on the new server, and refresh tokens remain valid there."""

import os
import socket
import subprocess
import threading
import time

from client import Client, rendered, token
from code_receiver import CodeReceiver
from kill9 import send_again
from phones import Load, Phone, rfc3339
from postgresql import Postgres
from processes import UNLIMITED, Folder, Server, arguments, compare_with_disk, wait_until
from report import Report
from two_servers_postgres import Stream


class FollowedStream(Stream):
    """A stream that remembers the id of the newest change that it received. If `after` is given, the stream begins
    after the change with this id."""

    def __init__(self, port, driver, after=None):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        headers = {"Last-Event-ID": after} if after else None
        self.socket.sendall(rendered("GET", "/native/session/stream", token(driver), headers=headers))
        self.received = b""
        self.last = None

    def wait_for(self, text):
        while text not in self.received:
            more = self.socket.recv(65536)
            assert more, f"the stream ended before {text}"
            self.received += more
        for line in self.received.split(b"\n"):
            if line.startswith(b"id:"):
                self.last = line[3:].strip().decode()


class Move:
    """A run of the command."""

    def __init__(self, server, url, folder):
        (folder / "url").write_text(url + "\n", encoding="utf-8")
        self.log = folder / "move.log"
        self.began = time.monotonic()
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [server.binary, "migrate", "--from", "sqlite", "--to-file", folder / "url"], env=server.environment,
                cwd=folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def text(self):
        return self.log.read_text(errors="replace")

    def wait_for(self, text, seconds=300):
        def is_there():
            if text not in self.text() and self.process.poll() is not None:
                raise AssertionError(f"the command ended without {text!r}: {self.text()}")
            return text in self.text()
        wait_until(is_there, seconds, repr(text))


def main():
    parser = arguments(__doc__)
    parser.add_argument("--connections", default=32, type=int)
    parser.add_argument("--seconds", default=6, type=float, help="of load before the move (default: 6)")
    options = parser.parse_args()
    report = Report("from SQLite to PostgreSQL")
    with Folder() as folder, Postgres() as postgres, CodeReceiver() as receiver:
        url = postgres.create_database("target")
        common = {**UNLIMITED, **receiver.environment()}
        old = Server(options, folder, {**common, "DATABASE_PATH": str(folder / "dwell.sqlite3")})
        new = Server(options, folder, {**common, "DATABASE_URL": url})
        try:
            move(report, options, old, new, receiver)
        finally:
            old.kill()
            new.kill()
    report.exit()


def sign_in(server, receiver):
    phone = "+491511234567"
    with Client(server.port, None) as client:
        status, body = client.post("/auth/otp/start", {"phone": phone})
        assert status == 200, body
        status, body = client.post("/auth/otp/verify", {"phone": phone, "code": receiver.next_code(phone)})
        assert status == 200, body
    return body


def post(server, driver, event, key):
    now = rfc3339(int(time.time() * 1000))
    event = {"event_id": key, "event": event, "occurred_at": now, "charger_id": "charger-1"}
    with Client(server.port, token(driver)) as client:
        status, body = client.post("/native/events", event)
    assert status == 200, body
    return {(driver, key)}


def move(report, options, old, new, receiver):
    old.start()
    pair = sign_in(old, receiver)
    followed = f"followed-{os.getpid()}"
    acknowledged = post(old, followed, "enteredChargerIntentZone", "f-1")
    with FollowedStream(old.port, followed) as stream:
        stream.wait_for(b"NEAR_CHARGER")
        seen = stream.last
    acknowledged |= post(old, followed, "exitedChargerIntentZone", "f-2")
    sent = set(acknowledged)

    phones = [Phone(f"moved-{os.getpid()}-{index}") for index in range(options.connections)]
    first = Load(old.port, phones, repeat_every=10)
    first.run(max(2, options.seconds * options.scale))
    acknowledged |= first.acknowledged()
    report.note(f"{len(acknowledged)} events before the move")

    # The transfer copies a driver again if the driver has sent events meanwhile. It therefore copies these busy drivers
    # several times, and all other drivers once.
    busy = [Phone(f"busy-{os.getpid()}-{index}") for index in range(options.connections)]
    second = Load(old.port, busy, per_second=20, repeat_every=10)
    run = Move(old, new.environment["DATABASE_URL"], old.folder)
    run.wait_for("stop the server now")
    run.process.kill()
    run.process.wait()
    early = subprocess.run(
        [new.binary, "serve"], env=new.environment, cwd=new.folder, check=False, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=30)
    report.check(
        early.returncode == 1 and "not complete" in early.stdout, "no server starts on a part of a database", early)

    stopped = []

    def follow_the_command():
        run.wait_for("stop the server now")
        time.sleep(1)
        stopped.append(time.monotonic())
        # The phones have events in flight, which then get no response.
        old.kill()

    run = Move(old, new.environment["DATABASE_URL"], old.folder)
    operator = threading.Thread(target=follow_the_command)
    operator.start()
    second.run(120, drain_seconds=1)
    operator.join()
    run.wait_for("the transfer is complete")
    report.check("by an earlier run" in run.text(), "a command that was killed is continued", run.text())
    complete = time.monotonic()
    new.start()
    report.note(
        f"{complete - stopped[0]:.1f} s from the end of the server to the complete copy, {time.monotonic() - complete:.1f} s "
        "to the start of the server on PostgreSQL")
    acknowledged |= second.acknowledged()
    sent |= acknowledged | {(one.driver, one.key) for one in first.unanswered + second.unanswered}
    compare_with_disk(report, new, acknowledged, sent, "after the move")
    before = set(new.stored_keys())
    answers = send_again(new, second.unanswered)
    wrong = [(key, answer) for key, answer in answers.items()
             if answer[0] != 200 or answer[1]["status"] != ("already_processed" if key in before else "ok")]
    report.check(not wrong, f"{len(answers)} unanswered events sent again are told apart", *wrong)
    again = {}
    for exchange in first.exchanges[::50]:
        with Client(new.port, token(exchange.sent.driver)) as client:
            again[exchange.sent.key] = client.post("/native/events", exchange.sent.event)
    wrong = [item for item in again.items() if item[1][0] != 200 or item[1][1]["status"] != "already_processed"]
    report.check(again and not wrong, f"{len(again)} events from before are repeats", *wrong)
    sample = first.exchanges[0].sent
    with Client(new.port, token(sample.driver)) as client:
        status, body = client.post("/native/events", {**sample.event, "charger_id": "another"})
    report.check(status == 422, "a key from before with another event is refused", status, body)

    def resume():
        with FollowedStream(new.port, followed, after=seen) as stream:
            stream.wait_for(b"IDLE")
            changes = [line for line in stream.received.split(b"\n") if line.startswith(b"id:")]
            assert len(changes) == 1 and b"NEAR_CHARGER" not in stream.received, stream.received
    report.run("a stream goes on after the last change that it has shown", resume)

    def refresh():
        with Client(new.port, None) as client:
            status, body = client.post("/auth/refresh", {"refresh_token": pair["refresh_token"]})
        assert status == 200 and body["user"] == pair["user"], body
    report.run("a refresh token from before is good", refresh)

    acknowledged |= answers.keys()
    third = Load(new.port, [Phone(f"new-{os.getpid()}-{index}") for index in range(8)], repeat_every=10)
    third.run(1)
    acknowledged |= third.acknowledged()
    sent |= acknowledged | {(one.driver, one.key) for one in third.unanswered}
    compare_with_disk(report, new, acknowledged, sent, "in the end")
    status = run.process.wait(300)
    report.check(status == 0 and "no divergence" in run.text(), "the command checks the target", status, run.text())
    report.check(new.stop() == 0, "SIGTERM ends the server with 0", new.log())


if __name__ == "__main__":
    main()
