#!/usr/bin/env python3
"""Tests the operator commands that find, sign out and delete drivers, and repeat deletions after a restore. Output and
audit must be the same whether the command or the server makes the change.

With SQLite, a command asks a running server to make the change, through the control socket. If the server is stopped,
the command changes the database file itself. With PostgreSQL, the command always changes the database itself."""

import json
import os
import re
import shutil
import socket
import stat
import subprocess
import time

from processes import POSTGRES, psql, wait_until
from signing_in import Suite, expect, new_phone

suite = Suite(__doc__)


def control_socket(server):
    return server.database_path.with_name(server.database_path.name + ".sock")


def control_requests(lab):
    return re.findall(r'"route":"(/control/[a-z-]+)"', lab.log())


def post_event(lab, token, key):
    body = {"event_id": key, "event": "chargerTargeted", "charger_id": "c-1",
            "occurred_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())}
    return lab.call("POST", "/native/events", body, token)


# Without the signing key, a command that changes the SQLite file itself fails with status 78. A command that succeeds
# without the key has therefore asked the server. With PostgreSQL, every command makes the change itself and needs the
# key.
KEYLESS = {} if POSTGRES else {"JWT_SECRET": ""}


def expect_refused_soon(lab, token):
    """Expects that the server rejects the token. With SQLite, the server itself made the change, so it must reject the
    token at once. With PostgreSQL, the server must notice the command's change within two seconds."""
    if POSTGRES:
        wait_until(lambda: lab.call("GET", "/native/config", token=token).status == 401, 2, "the server reads of the change")
    lab.expect_refused(token)


@suite.check("find: by number, email and id; nobody, and one who was deleted")
def _(lab):
    phone = new_phone()
    pair = lab.phone_driver(phone)
    driver = pair["user"]["id"]
    email = f"{phone[1:]}@mail.example"
    lab.call("PATCH", "/auth/me", {"name": "Jonas", "email": email}, pair["access_token"]).expect(200)
    for words in (["--phone", f"{phone[:4]} {phone[4:]}"], ["--email", email.upper()], ["--id", driver]):
        expect(lab.dwell("driver", "find", *words), 0, driver, "Jonas", phone, email)
        found = json.loads(expect(lab.dwell("driver", "find", *words, "--json"), 0).stdout)["drivers"]
        assert [one["id"] for one in found] == [driver] and found[0]["sign_in_sessions"] == 1, found
    expect(lab.dwell("driver", "find", "--phone", new_phone()), 1, "no match")
    nobody = expect(lab.dwell("driver", "find", "--phone", new_phone(), "--json"), 1, "no match")
    assert json.loads(nobody.stdout) == {"drivers": []}, nobody
    expect(lab.dwell("driver", "find", "--phone", "0151 1234567"), 64, "with its country")
    expect(lab.dwell("driver", "find"), 64, "Give one of")
    lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)
    expect(lab.dwell("driver", "find", "--id", driver), 1, "no match", "was deleted at 20")


@suite.check("sign-out: the running server does it, and refuses the tokens at once")
def _(lab):
    pair, other = lab.phone_driver(), lab.phone_driver()
    driver = pair["user"]["id"]
    lab.expect_alive(pair["access_token"])
    expect(lab.dwell("driver", "sign-out", "--id", driver, **KEYLESS), 0, f"{driver}: 1 sign-in session ended")
    expect_refused_soon(lab, pair["access_token"])
    assert lab.refresh(pair["refresh_token"]).status == 401
    lab.expect_alive(other["access_token"])
    assert [entry["action"] for entry in lab.audit(driver)].count("operator_sign_out") == 1, lab.audit(driver)
    expect(lab.dwell("driver", "sign-out", "--id", "drv_nobody", **KEYLESS), 1, "Driver drv_nobody not found")
    expect(lab.dwell("driver", "sign-out", "--id", driver, **KEYLESS), 0, f"{driver}: 0 sign-in sessions ended")
    # An id may contain any characters.
    expect(lab.dwell("driver", "sign-out", "--id", 'a/b "c"\\%00 é', **KEYLESS), 1, "not found")


@suite.check("the control socket belongs to the owner of the database, and is on no other listener", on=["sqlite"])
def _(lab):
    mode = control_socket(lab.server).stat().st_mode
    assert stat.S_ISSOCK(mode) and stat.S_IMODE(mode) & 0o077 == 0, oct(mode)
    for path in ("/control", "/control/sign-out", "/control/erase", "/control/repeat-erasures"):
        for method in ("GET", "POST"):
            assert lab.call(method, path, {} if method == "POST" else None).status == 404, path


@suite.check("what is no request of a command is rejected by the control socket", on=["sqlite"])
def _(lab):
    def send(path, body, method="POST"):
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(control_socket(lab.server)))
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                               f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n".encode() + data)
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
        return int(answer.split()[1]), answer.split(b"\r\n\r\n", 1)[1].decode()
    file = os.stat(lab.server.database_path)
    database = f"{file.st_dev}:{file.st_ino}"
    assert send("/control", b"", "GET")[0] == 200
    for body in (b"", b"nonsense", [], {}, {"driver_id": "d"}, {"database": database}, {"database": database, "driver_id": 1}):
        assert send("/control/sign-out", body)[0] == 400, body
        assert send("/control/erase", body)[0] == 400, body
    for erasures in (None, 1, "nonsense", "\n".join(["2026-11-20T10:00:00Z " + "0" * 64 + " -"] * 501)):
        assert send("/control/repeat-erasures", {"database": database, "erasures": erasures})[0] == 400, erasures
    status, body = send("/control/sign-out", {"database": "1:2", "driver_id": "d"})
    assert status == 400 and "another file" in body, body
    assert send("/control/repeat-erasures", b"x" * 200_000)[0] == 413
    assert send("/native/events", {})[0] == 404


@suite.check("erase: asks, leaves nothing, prints a receipt")
def _(lab):
    phone = new_phone()
    pair = lab.phone_driver(phone)
    driver = pair["user"]["id"]
    expect(lab.dwell("driver", "erase", "--id", driver), 1, "confirm with --yes", phone)
    lab.expect_alive(pair["access_token"])
    # The limiter charges the driver for this event. The charge is in the server's memory, and also in Redis if there is
    # one. The deletion must remove the charge.
    post_event(lab, pair["access_token"], f"k-{driver}").expect(200)
    run = expect(lab.dwell("driver", "erase", "--id", driver, "--yes", **KEYLESS), 0, "receipt rcp_")
    receipt = run.stdout.split("receipt ")[1].strip()
    expect_refused_soon(lab, pair["access_token"])
    expect(lab.dwell("verify-erased", "--driver", driver, "--phone", phone), 0, "--driver was deleted at", "no remaining data")
    expect(lab.dwell("verify-erased", "--receipt", receipt), 0)
    rows = lab.sql("SELECT action FROM audit WHERE reason = ? ORDER BY id", receipt)
    assert rows == [("operator_erasure",), ("erased",)], rows
    expect(lab.dwell("driver", "erase", "--id", driver, "--yes"), 1, "not found")


@suite.alone("the same on the file of a stopped server, with the same output and the same audit", on=["sqlite"])
def _(lab):
    def without_what_differs(run):
        text = re.sub(r"drv_\w+|rcp_\w+|\+?\d{11,}|\d{4}-\d\d-\d\dT[\d:.]+Z|[^ ]*erasures.txt", "*", run.stdout + run.stderr)
        return run.returncode, text

    def play():
        outputs, rows = [], []
        for pair in (drivers.pop(), drivers.pop()):
            driver = pair["user"]["id"]
            for words in (["sign-out", "--id", driver], ["sign-out", "--id", "drv_nobody"], ["erase", "--id", driver],
                          ["erase", "--id", driver, "--yes"], ["erase", "--id", driver, "--yes"], ["find", "--id", driver]):
                run = lab.dwell("driver", *words)
                outputs.append(without_what_differs(run))
                if "receipt " in run.stdout:
                    receipt = run.stdout.split("receipt ")[1].strip()
                    rows += lab.sql("SELECT action, outcome, address, sid FROM audit WHERE reason = ? ORDER BY id", receipt)
            rows += lab.sql("SELECT action, outcome, count(*) FROM audit WHERE action = 'operator_sign_out' GROUP BY 1, 2")
            # With Redis, this also checks the keys of the rate limiter.
            expect(lab.dwell("verify-erased", "--driver", driver), 0, "no remaining data found")
        return outputs, rows

    drivers = [lab.phone_driver() for _ in range(4)]
    for pair in drivers:
        post_event(lab, pair["access_token"], "k-" + pair["user"]["id"]).expect(200)
    running, rows = play()
    assert control_requests(lab) == 2 * ["/control/sign-out", "/control/sign-out", "/control/erase"], control_requests(lab)
    pairs = list(drivers)
    lab.server.stop()
    assert not control_socket(lab.server).exists(), "the socket of a server that ended"
    stopped, more = play()
    assert running == stopped, (running, stopped)
    assert rows[:2] == more[:2] == [("operator_erasure", "done", None, None), ("erased", "done", None, None)], (rows, more)
    assert len(rows) == len(more), (rows, more)
    lab.server.start()
    for pair in pairs:
        lab.expect_refused(pair["access_token"])


@suite.alone("a server that was killed leaves its socket: the command works on the file, and the next server takes the name", on=["sqlite"])
def _(lab):
    pair, second = lab.phone_driver(), lab.phone_driver()
    lab.server.kill()
    assert control_socket(lab.server).exists()
    expect(lab.dwell("driver", "sign-out", "--id", pair["user"]["id"]), 0, "1 sign-in session ended")
    expect(lab.dwell("driver", "sign-out", "--id", second["user"]["id"], **KEYLESS), 78, "no signing key")
    lab.server.start()
    lab.expect_refused(pair["access_token"])
    lab.expect_alive(second["access_token"])
    expect(lab.dwell("driver", "sign-out", "--id", second["user"]["id"], **KEYLESS), 0, "1 sign-in session ended")
    lab.expect_refused(second["access_token"])
    # Puts an ordinary file at the path of the control socket. The server must keep this file, and log that it has no
    # control socket.
    lab.server.stop()
    control_socket(lab.server).write_text("mine")
    lab.server.start()
    third = lab.phone_driver()
    expect(lab.dwell("driver", "sign-out", "--id", third["user"]["id"]), 0, "1 sign-in session ended")
    assert control_socket(lab.server).read_text() == "mine"
    assert "no control socket" in lab.log()
    wait_until(lambda: lab.me(third["access_token"]).status == 401, 2, "the server hears of it")


@suite.alone("a server on another database is not asked", on=["sqlite"])
def _(lab):
    # The other server's database is a copy, so the driver is signed in there too.
    pair, copy = lab.phone_driver(), lab.folder / "copy.sqlite3"
    driver = pair["user"]["id"]
    expect(lab.dwell("backup", str(copy)), 0)
    other = lab.start_server("other", DATABASE_PATH=str(copy))
    only_here = lab.phone_driver()["user"]["id"]
    lab.expect_alive(pair["access_token"], other)
    lab.server.stop()
    expect(lab.dwell("driver", "sign-out", "--id", driver), 0, "1 sign-in session ended")
    lab.expect_alive(pair["access_token"], other)
    expect(lab.dwell("driver", "erase", "--id", driver, "--yes"), 0, "deleted at")
    lab.expect_alive(pair["access_token"], other)
    expect(lab.dwell("driver", "erase", "--id", only_here, "--yes", "--database", str(copy)), 1, "not found")
    # With `--database`, the command asks the server that uses the named database.
    expect(lab.dwell("driver", "sign-out", "--id", driver, "--database", str(copy), **KEYLESS), 0, "1 sign-in session ended")
    lab.expect_refused(pair["access_token"], other)
    # A symbolic link to the database leads to the same server.
    lab.server.start()
    pair = lab.phone_driver()
    link = lab.folder / "link.sqlite3"
    link.symlink_to(lab.server.database_path)
    expect(lab.dwell("driver", "sign-out", "--id", pair["user"]["id"], "--database", str(link), **KEYLESS), 0, "1 sign-in")
    lab.expect_refused(pair["access_token"])


@suite.alone("a file that was replaced under the running server is not changed, and neither is the server's", on=["sqlite"])
def _(lab):
    pair = lab.phone_driver()
    copy, moved = lab.folder / "copy.sqlite3", lab.folder / "moved.sqlite3"
    expect(lab.dwell("backup", str(copy)), 0)
    lab.server.database_path.rename(moved)
    shutil.copy(copy, lab.server.database_path)
    expect(lab.dwell("driver", "sign-out", "--id", pair["user"]["id"]), 1, "another file than the one that this server has open")
    lab.call("GET", "/native/config", token=pair["access_token"]).expect(200)
    # GET /auth/me may store an account token. The path of the database now names another file, so the server refuses to
    # write.
    lab.me(pair["access_token"]).expect_problem(503, "store_unavailable")
    lab.server.database_path.unlink()
    moved.rename(lab.server.database_path)
    lab.expect_alive(pair["access_token"])


@suite.alone("two servers on one file: one has the socket, and the other one takes it over", on=["sqlite"])
def _(lab):
    second = lab.second_server()
    pair, later = lab.phone_driver(), lab.phone_driver()
    lab.expect_alive(pair["access_token"], second)
    expect(lab.dwell("driver", "sign-out", "--id", pair["user"]["id"], **KEYLESS), 0, "1 sign-in session ended")
    lab.expect_refused(pair["access_token"])
    wait_until(lambda: lab.me(pair["access_token"], second).status == 401, 2, "the second server reads of it")
    lab.server.stop()
    wait_until(control_socket(lab.server).exists, 10, "the second server takes the socket over")
    expect(lab.dwell("driver", "sign-out", "--id", later["user"]["id"], **KEYLESS), 0, "1 sign-in session ended")
    lab.expect_refused(later["access_token"], second)


@suite.check("verify-erased of a name that never was says so")
def _(lab):
    expect(lab.dwell("verify-erased", "--driver", "drv_never_was_here"), 1, "no recorded deletion")
    expect(lab.dwell("verify-erased", "--receipt", "rcp_never"), 1, "matches no deletion")


@suite.alone("a copy from before the deletions: repeat-erasures deletes the drivers again", on=["postgres"])
def _(lab):
    phones = [new_phone() for _ in range(3)]
    stays, gone, listed = (lab.phone_driver(phone) for phone in phones)
    post_event(lab, gone["access_token"], "k").expect(200)
    copy = lab.server.database_url.replace("/test_", "/copy_")
    backup = lab.folder / "backup"
    subprocess.run(["pg_dump", "-Fc", "-f", backup, lab.server.database_url], check=True)
    for pair in (gone, listed):
        lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)
        time.sleep(0.01)
    erasures = lab.folder / "erasures.txt"
    erasures.write_text(expect(lab.dwell("driver", "erasures"), 0).stdout)
    heading, *lines = erasures.read_text().splitlines()
    assert heading == "# deletions: 2" and len(lines) == 2 and "drv_" not in erasures.read_text(), lines
    assert expect(lab.dwell("driver", "erasures", "--since", "2099-01-01T00:00:00Z"), 0).stdout == "# deletions: 0\n"
    psql(f"{POSTGRES}/postgres", f"CREATE DATABASE {copy.rsplit('/', 1)[1]} TEMPLATE template0")
    subprocess.run(["pg_restore", "-d", copy, backup], check=True)
    expect(lab.dwell("migrate", DATABASE_URL=copy), 0)
    expect(lab.dwell("driver", "find", "--phone", phones[1], DATABASE_URL=copy), 0)
    repeat = ["driver", "repeat-erasures", "--from", str(erasures)]
    expect(lab.dwell(*repeat, DATABASE_URL=copy), 1, "confirm with --yes")
    expect(lab.dwell(*repeat, "--yes", DATABASE_URL=copy), 0, "2 drivers deleted again")
    expect(lab.dwell(*repeat, "--yes", DATABASE_URL=copy), 0, "0 drivers deleted again")
    for phone, pair in zip(phones[1:], (gone, listed)):
        expect(lab.dwell("driver", "find", "--phone", phone, DATABASE_URL=copy), 1)
        expect(lab.dwell("verify-erased", "--driver", pair["user"]["id"], "--phone", phone, DATABASE_URL=copy), 0)
    expect(lab.dwell("driver", "find", "--id", stays["user"]["id"], DATABASE_URL=copy), 0)
    for database in (copy, lab.server.database_url):
        expect(lab.dwell("check", DATABASE_URL=database), 0, "no divergence")


@suite.alone("a restore brings deleted drivers back, and repeat-erasures deletes them again", on=["sqlite"])
def _(lab):
    phones = [new_phone() for _ in range(3)]
    stays, gone, listed = (lab.phone_driver(phone) for phone in phones)
    backup = str(lab.folder / "backup.sqlite3")
    expect(lab.dwell("backup", backup), 0)
    for pair in (gone, listed):
        lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)
        time.sleep(0.01)
    erasures = lab.folder / "erasures.txt"
    erasures.write_text(expect(lab.dwell("driver", "erasures"), 0).stdout)
    heading, *lines = erasures.read_text().splitlines()
    assert heading == "# deletions: 2" and len(lines) == 2 and "drv_" not in erasures.read_text(), lines
    assert expect(lab.dwell("driver", "erasures", "--since", "2099-01-01T00:00:00Z"), 0).stdout == "# deletions: 0\n"

    lab.server.stop()
    run = expect(lab.dwell("restore", "--yes", backup), 0, "2 drivers deleted after the backup was taken")
    old = run.stdout.split("the previous database is now ")[1].splitlines()[0]
    assert f"dwell driver repeat-erasures --from {old}" in run.stdout, run.stdout
    expect(lab.dwell("driver", "find", "--phone", phones[1]), 0)
    # The server is stopped, so the command changes the database file. The first deletion is repeated from a list in a
    # text file. The other deletion is repeated from the old database that the restore has kept.
    erasures.write_text(lines[0] + "\n")
    expect(lab.dwell("driver", "repeat-erasures", "--from", str(erasures)), 1, "confirm with --yes")
    expect(lab.dwell("driver", "repeat-erasures", "--from", str(erasures), "--yes"), 0, "1 driver deleted again")
    expect(lab.dwell("driver", "repeat-erasures", "--from", old, "--yes"), 0, "1 driver deleted again")
    expect(lab.dwell("driver", "repeat-erasures", "--from", old, "--yes"), 0, "0 drivers deleted again")
    erasures.write_text("# deletions: 2\n" + lines[0] + "\n")
    expect(lab.dwell("driver", "repeat-erasures", "--from", str(erasures), "--yes"), 1, "the list is truncated: it has 1 of 2")
    erasures.write_text("")
    expect(lab.dwell("driver", "repeat-erasures", "--from", str(erasures), "--yes"), 1, "the file is empty")
    erasures.write_text("# deletions: 0\n")
    expect(lab.dwell("driver", "repeat-erasures", "--from", str(erasures), "--yes"), 0, "0 drivers deleted again")
    erasures.write_text("nonsense\n")
    expect(lab.dwell("driver", "repeat-erasures", "--from", str(erasures), "--yes"), 1, "line 1 is not from")
    lab.server.start()
    # A command can also repeat deletions on a running server. Operators need this if they have started the server too
    # early after a restore.
    lab.sql("DELETE FROM erased_driver")
    pair = lab.phone_driver(phones[0])
    expect(lab.dwell("driver", "repeat-erasures", "--from", old, **KEYLESS), 0, "0 drivers deleted again, 2 only recorded")
    expect(lab.dwell("driver", "repeat-erasures", "--from", old, **KEYLESS), 0, "0 drivers deleted again, 0 only recorded")
    expect(lab.dwell("driver", "find", "--phone", phones[0]), 0)
    for phone, pair in zip(phones[1:], (gone, listed)):
        expect(lab.dwell("driver", "find", "--phone", phone), 1)
        lab.expect_refused(pair["access_token"])
        expect(lab.dwell("verify-erased", "--driver", pair["user"]["id"], "--phone", phone), 0)
    lab.expect_alive(stays["access_token"])
    expect(lab.dwell("check"), 0, "no divergence")


suite.main()
