#!/usr/bin/env python3
"""Operator commands for a driver, with and without a running server: find, sign out, delete, and delete again after a
restore."""

import json
import time

from processes import wait_until
from signing_in import Suite, new_phone

suite = Suite(__doc__)

# How soon a running server has to refuse what a command revoked.
HEARD_SECONDS = 2


def expect(run, status, *parts):
    assert run.returncode == status, run
    for part in parts:
        assert part in run.stdout + run.stderr, (part, run)
    return run


def expect_refused_soon(lab, token):
    wait_until(lambda: lab.me(token).status == 401, HEARD_SECONDS, "the server hears of it")


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
    expect(lab.dwell("driver", "find", "--phone", "0151 1234567"), 64, "with its country")
    expect(lab.dwell("driver", "find"), 64, "Give one of")
    lab.call("DELETE", "/auth/me", {"confirm": True}, pair["access_token"]).expect(200)
    expect(lab.dwell("driver", "find", "--id", driver), 1, "no match", "was deleted at 20")


@suite.check("sign-out: the running server refuses within two seconds, and the audit has it")
def _(lab):
    pair, other = lab.phone_driver(), lab.phone_driver()
    driver = pair["user"]["id"]
    lab.expect_alive(pair["access_token"])
    expect(lab.dwell("driver", "sign-out", "--id", driver), 0, "1 sign-in session ended")
    expect_refused_soon(lab, pair["access_token"])
    assert lab.refresh(pair["refresh_token"]).status == 401
    lab.expect_alive(other["access_token"])
    assert lab.audit(driver)[0]["action"] in ("operator_sign_out", "refresh"), lab.audit(driver)
    assert "operator_sign_out" in [entry["action"] for entry in lab.audit(driver)]
    expect(lab.dwell("driver", "sign-out", "--id", "drv_nobody"), 1, "Driver drv_nobody not found")


@suite.check("erase: asks, leaves nothing, prints a receipt")
def _(lab):
    phone = new_phone()
    pair = lab.phone_driver(phone)
    driver = pair["user"]["id"]
    expect(lab.dwell("driver", "erase", "--id", driver), 1, "confirm with --yes", phone)
    lab.expect_alive(pair["access_token"])
    run = expect(lab.dwell("driver", "erase", "--id", driver, "--yes"), 0, "receipt rcp_")
    receipt = run.stdout.split("receipt ")[1].strip()
    expect_refused_soon(lab, pair["access_token"])
    expect(lab.dwell("verify-erased", "--driver", driver, "--phone", phone), 0, "--driver was deleted at", "no remaining data")
    expect(lab.dwell("verify-erased", "--receipt", receipt), 0)
    rows = lab.sql("SELECT action FROM audit WHERE reason = ? ORDER BY id", receipt)
    assert rows == [("operator_erasure",), ("erased",)], rows
    expect(lab.dwell("driver", "erase", "--id", driver, "--yes"), 1, "not found")


@suite.check("verify-erased of a name that never was says so")
def _(lab):
    expect(lab.dwell("verify-erased", "--driver", "drv_never_was_here"), 1, "no recorded deletion")
    expect(lab.dwell("verify-erased", "--receipt", "rcp_never"), 1, "matches no deletion")


@suite.alone("a restore brings deleted drivers back, and repeat-erasures deletes them again")
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
    # One by the list, then the rest by the database that was set aside. The server is stopped.
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
    expect(lab.dwell("driver", "find", "--phone", phones[0]), 0)
    for phone, pair in zip(phones[1:], (gone, listed)):
        expect(lab.dwell("driver", "find", "--phone", phone), 1)
        lab.expect_refused(pair["access_token"])
        expect(lab.dwell("verify-erased", "--driver", pair["user"]["id"], "--phone", phone), 0)
    lab.expect_alive(stays["access_token"])
    expect(lab.dwell("check"), 0, "no divergence")


suite.main()
