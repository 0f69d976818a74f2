"""Searches the logs of all servers of the integration run for tokens, codes, phone numbers and coordinates. Finds the
values that the tests used, and also unknown texts of the same form."""

import json
import os
import pathlib
import re
import sys

from report import Report

# Finds the members of requests and responses whose values are secret.
MEMBERS = re.compile(
    r'"(?:access_token|refresh_token|token|identity_token|authorization_code|nonce|phone|code)"\s*:\s*"([^"\\]{6,})"')
LOOKS_LIKE = {
    "a signed token": re.compile(r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}"),
    "a phone number": re.compile(r"\+[1-9][0-9]{7,14}\b"),
    "a coordinate": re.compile(r"(?<![0-9.])-?[0-9]{1,3}\.[0-9]{4,}(?![0-9.])"),
    "a coordinate's name": re.compile(r'\b(?:latitude|longitude)\b', re.IGNORECASE),
    "a bearer": re.compile(r"bearer [A-Za-z0-9._~+/-]{16,}", re.IGNORECASE),
}
# These members are not searched, because six digits in their values need not be a code.
FIGURES = {"time", "duration_us", "bytes_in", "bytes_out", "client", "address", "request_id", "trace_id", "driver"}
# The only log line that may contain a code and its phone number. The server writes it only with OTP_DELIVERY=log, and a
# production server rejects this setting.
SHOWN_ON_PURPOSE = "one-time code, logged because OTP_DELIVERY=log"


def words_used(*folders):
    """Returns all secret values in the requests and responses of the run. Leaves out values that look like problem
    codes, which are public."""
    used = set()
    for folder in folders:
        for file in pathlib.Path(folder).iterdir():
            text = file.read_bytes().decode(errors="replace")
            used.update(value for value in MEMBERS.findall(text) if not re.fullmatch("[a-z_]+", value))
    return used


def texts(line):
    """Returns the parts of a line that must not contain secrets."""
    try:
        members = json.loads(line)
    except ValueError:
        return [line]
    if not isinstance(members, dict):
        return [line]
    if members.get("message") == SHOWN_ON_PURPOSE:
        return []
    return [str(value) for name, value in members.items() if name not in FIGURES]


def findings(lines, used):
    """Yields a sentence for each secret that is found. The sentence does not contain the secret."""
    # Each word of a line is looked up in the set of secrets, because searching for every secret would take too long.
    word = re.compile(r"[A-Za-z0-9._~+/=-]{6,}")
    for number, line in enumerate(lines, 1):
        for text in texts(line):
            for what, pattern in LOOKS_LIKE.items():
                if pattern.search(text):
                    yield f"line {number}: {what}"
            if any(found.strip(".") in used for found in word.findall(text)):
                yield f"line {number}: a word that was a secret of the run"


def check_that_it_can_fail(report):
    used = {"rt-0123456789", "123456"}
    lines = [
        '{"message":"signed in","token":"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqbyJ9.x"}', '{"message":"sent to +4915112345678"}',
        '{"message":"at 52.520008"}', '{"message":"spent","old":"rt-0123456789"}', '{"message":"wrong code 123456"}',
        "panic: Authorization: Bearer abcdefghijklmnop", '"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqbyJ9.x"', '["+4915112345678"]']
    for line in lines:
        report.check(list(findings([line], used)), f"it would be found: {line[:24]}...")
    clean = '{"time":"2026-11-20T10:00:00.123Z","message":"request","duration_us":"123456","status":"200"}'
    report.check(not list(findings([clean], used)), "a figure is no code")


def main():
    report = Report("logs")
    check_that_it_can_fail(report)
    if logs := os.environ.get("DWELL_LOGS"):
        used = words_used(os.environ["DWELL_EXCHANGES"], os.environ["DWELL_SECRETS"])
        files = sorted(pathlib.Path(logs).iterdir())
        found, count = [], 0
        for file in files:
            lines = file.read_text(errors="replace").splitlines()
            count += len(lines)
            found += [f"{file.name}: {finding}" for finding in findings(lines, used)]
        report.note(f"{count} lines of {len(files)} logs, {len(used)} secrets")
        report.check(not found, "no log has a token, a code, a number or a coordinate", *found)
    report.exit()


if __name__ == "__main__":
    sys.exit(main())
