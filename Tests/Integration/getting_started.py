#!/usr/bin/env python3
"""Runs the `sh` blocks of docs/getting-started.md in order, in one shell, with a server like that of `make run`. The
output of each block must match the `text` block below it. In a `text` block, `...` stands for any text."""

import os
import pathlib
import re
import subprocess
import uuid

from processes import REPOSITORY, Folder, Server, arguments
from report import Report

PAGE = REPOSITORY / "docs" / "getting-started.md"


def steps(text):
    """Returns a list of [heading, commands, expected output or None]."""
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
    """Returns a regular expression for the expected output. A line that is only `...` matches any number of lines.
    Within a line, `...` matches any text of that line."""
    lines = [r"(?:.*\n)*?" if line == "..." else ".*?".join(map(re.escape, line.split("..."))) + r"\n"
             for line in expected.splitlines()]
    return "".join(lines)


class Shell:
    def __init__(self, folder, environment):
        self.mark = uuid.uuid4().hex
        self.process = subprocess.Popen(
            ["bash"], cwd=folder, env=environment, text=True, bufsize=1,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, commands):
        """Returns the output of the commands, including standard error."""
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
    """Replaces the reader's clone after `make run`. Contains only the binary, at the path where `make run` builds
    it."""

    def __init__(self, folder, binary):
        (folder / ".build/release").mkdir(parents=True)
        (folder / ".build/release/dwell").symlink_to(binary)
        self.tools = folder / "tools"
        self.tools.mkdir()

    def says_pid(self, pid):
        """Makes `pidof` print only this process id, because other servers may run on the test machine."""
        stand_in = self.tools / "pidof"
        stand_in.write_text(f"#!/bin/sh\necho {pid}\n")
        stand_in.chmod(0o755)


def main():
    options = arguments(__doc__).parse_args()
    report = Report("getting_started")
    with Folder() as folder:
        clone = Clone(folder, options.dwell.resolve())
        server = Server(options, folder, {})
        # The settings are those of `make run`: every setting except the port has its default.
        server.environment = {name: server.environment[name] for name in ("PATH", "HOME", "HTTP_PORT")}
        with server:
            clone.says_pid(server.process.pid)
            shell = Shell(folder, {**server.environment, "PATH": f"{clone.tools}:{server.environment['PATH']}"})
            for number, (heading, commands, expected) in enumerate(steps(PAGE.read_text()), start=1):
                printed = shell.run(commands.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}"))
                # Commands without a `text` block print nothing.
                wanted = pattern(expected.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}") if expected else "")
                report.check(re.fullmatch(wanted, printed) is not None,
                             f"step {number}, {heading}", f"commands: {commands}", f"expected: {expected}", f"printed: {printed}")
            shell.close()
            report.check(server.stop() == 0, "and the server ends well", server.log())
    report.check(report.count > 10, "the page was not empty")
    report.exit()


main()
