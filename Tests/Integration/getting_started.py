#!/usr/bin/env python3
"""Follows docs/getting-started.md: runs its `sh` blocks in order, in one shell beside a server that is started as by
`make run`, and compares the output of each with the `text` block below it, in which `...` matches anything."""

import os
import pathlib
import re
import subprocess
import uuid

from processes import REPOSITORY, Folder, Server, arguments
from report import Report

PAGE = REPOSITORY / "docs" / "getting-started.md"


def steps(text):
    """Each (heading, commands, what they print or None)."""
    heading = ""
    found = []
    for match in re.finditer(r"^## ([^\n]+)$|^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        title, language, body = match.groups()
        if title:
            heading = title
        elif language == "sh":
            found.append([heading, body, None])
        elif language == "text":
            assert found and found[-1][2] is None, f"what prints this? {body}"
            found[-1][2] = body
    return found


def pattern(expected):
    """A line that is only `...` is any number of lines; within a line it is anything but its end."""
    lines = [r"(?:.*\n)*?" if line == "..." else ".*?".join(map(re.escape, line.split("..."))) + r"\n"
             for line in expected.splitlines()]
    return "".join(lines)


class Shell:
    """One bash for the whole page, as somebody who pastes has it."""

    def __init__(self, folder, environment):
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            ["bash"], cwd=folder, env=environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, commands):
        """What it prints, standard error included."""
        self.process.stdin.write(f"{commands}\necho {self.mark}\n")
        self.process.stdin.flush()
        printed = []
        for line in self.process.stdout:
            if line.rstrip("\n") == self.mark:
                return "".join(printed)
            printed.append(line)
        raise AssertionError("the shell ended:\n" + "".join(printed))

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


class Clone:
    """A folder that looks like a clone after `make run`: the binary where it is built, nothing else yet."""

    def __init__(self, folder, binary):
        (folder / ".build/release").mkdir(parents=True)
        (folder / ".build/release/dwell").symlink_to(binary)
        self.tools = folder / "tools"
        self.tools.mkdir()

    def says_pid(self, pid):
        """On this machine more servers than one may run; on the reader's it is the one."""
        stand_in = self.tools / "pidof"
        stand_in.write_text(f"#!/bin/sh\necho {pid}\n")
        stand_in.chmod(0o755)


def main():
    options = arguments(__doc__).parse_args()
    report = Report("getting_started")
    with Folder() as folder:
        clone = Clone(folder, options.dwell.resolve())
        server = Server(options, folder, {})
        # As `make run` leaves it: every setting at its default, but for the port.
        server.environment = {name: server.environment[name] for name in ("PATH", "HOME", "HTTP_PORT")}
        with server:
            clone.says_pid(server.process.pid)
            shell = Shell(folder, {**server.environment, "PATH": f"{clone.tools}:{server.environment['PATH']}"})
            for number, (heading, commands, expected) in enumerate(steps(PAGE.read_text()), start=1):
                printed = shell.run(commands.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}"))
                # One whose output is not shown prints nothing.
                wanted = pattern(expected.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}") if expected else "")
                report.check(re.fullmatch(wanted, printed) is not None,
                             f"step {number}, {heading}", f"commands: {commands}", f"expected: {expected}", f"printed: {printed}")
            shell.close()
            report.check(server.stop() == 0, "and the server ends well", server.log())
    report.check(report.count > 10, "the page was not empty")
    report.exit()


main()
