#!/usr/bin/env python3
"""Compares docs/inventory.md with the source. The page must have a complete row for every database table, Redis key
family, log line and in-memory collection of the server.

`inventory.py --write` adds an incomplete row for each item without a row. It removes the rows of items that no longer
exist."""

import pathlib
import re
import sys

from report import Report

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs/inventory.md"
LEVELS = "trace|debug|info|notice|warning|error|critical"


def sources():
    """Yields the module, the path and the text of each source file of the server. Leaves out the C modules, the phone's
    client library, the simulation, and the domain model, which has no state."""
    for module in sorted(path for path in (REPOSITORY / "Sources").iterdir() if path.name not in (
            "JourneyClient", "JourneyModel", "Simulation") and path.is_dir() and not re.match("C[A-Z]", path.name)):
        for file in sorted(module.rglob("*.swift")):
            yield module.name, file, file.read_text()


def tables():
    """Returns the tables that a SQLite database has after all migrations."""
    schema = (REPOSITORY / "migrations/schema.sql").read_text()
    return set(re.findall(r"^CREATE (?:VIRTUAL )?TABLE (?:IF NOT EXISTS )?(\w+)", schema, re.MULTILINE))


def postgres_tables():
    """Returns the tables that exist only in a PostgreSQL database. Its migrations create some of them, and the module
    PostgresStore creates the others."""
    texts = [file.read_text() for file in sorted((REPOSITORY / "migrations/postgresql").glob("*.sql"))]
    texts += [text for module, _, text in sources() if module == "PostgresStore"]
    created = r"^\s*CREATE (?:UNLOGGED )?TABLE (?:IF NOT EXISTS )?(\w+)"
    return {name for text in texts for name in re.findall(created, text, re.MULTILINE)} - tables()


def redis_keys():
    """Returns the string literals that begin with Dwell's key prefix. Each interpolated value is replaced by *."""
    found = set()
    for module, _, text in sources():
        if module == "RateLimiting":
            code = "\n".join(line.split("//")[0] for line in text.splitlines())
            found |= {re.sub(r"\\\(([^()]|\([^()]*\))*\)", "*", key) for key in re.findall(r'"(dwell:[^"]*)"', code)}
    return found


def log_lines():
    found = set()
    for _, _, text in sources():
        constants = dict(re.findall(r'static let (\w+) = "([^"\\]+)"', text))
        messages = re.findall(rf'(?:logger\??\.|\n\s+)(?:{LEVELS})\(\s*"((?:[^"\\]|\\.)*)"', text)
        messages += re.findall(r'logger\??\.log\(\s*level: [^,]+,\s*"((?:[^"\\]|\\.)*)"', text)
        messages += re.findall(r'LogEvent\(\s*level: [^,]+, message: "((?:[^"\\]|\\.)*)"', text)
        for message in messages:
            constant = re.fullmatch(r"\\\(Self\.(\w+)\)", message)
            found.add(constants[constant.group(1)] if constant else message)
    return found


def members(text):
    """Yields a tuple for each `let` or `var` member: the enclosing type, the keywords before the name, the name, and
    the rest of the line."""
    scopes = []
    for line in text.splitlines():
        code = re.sub(r'"(\\.|[^"\\])*"', '""', line).split("//")[0]
        declared = re.match(r"\s*((?:@?\w+(?:\([\w, ]*\))? )*(?:let|var)) (\w+)\b(.*)", code)
        if declared and scopes and scopes[-1]:
            yield scopes[-1], declared.group(1), declared.group(2), declared.group(3).strip()
        for brace in re.finditer(r"[{}]", code):
            if brace.group() == "}":
                if scopes:
                    scopes.pop()
                continue
            before = code[:brace.start()]
            opened = re.search(r"\b(?:struct|class|actor|enum|extension|protocol)\s+(\w+)", before)
            other = re.search(r"\b(?:func|init|var|let|deinit|subscript)\b", before)
            scopes.append(opened.group(1) if opened and not (other and other.start() < opened.start()) else None)


def collections():
    """Returns the members that are empty at first and can grow."""
    found = set()
    for module, _, text in sources():
        for name, declaration, member, rest in members(text):
            is_computed = rest.endswith("{") or "{ " in rest and "Mutex" not in rest
            is_constant = "static let" in declaration and "Mutex" not in rest
            begins_empty = re.search(r"\[:\]|= \[\]|\(\[\]\)|Set<[^=]*>\(\)|<\[.*\]>\(", rest) or "Mutex<[" in rest
            if begins_empty and not is_computed and not is_constant:
                found.add(f"{module}: {name}.{member}")
    return found


SECTIONS = {"Tables": tables, "Tables only in PostgreSQL": postgres_tables, "Redis keys": redis_keys,
            "Log lines": log_lines, "In memory": collections}


def sections(page):
    """Yields each section's name, text and rows. The rows are a dictionary from the name in a row's first cell to the
    list of the row's cells."""
    parts = re.split(r"^(## .+)$", page, flags=re.MULTILINE)
    for title, body in zip(parts[1::2], parts[2::2]):
        name = title[3:]
        if name in SECTIONS:
            rows = {}
            for line in body.splitlines():
                cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                if len(cells) > 1 and cells[0].startswith("`"):
                    rows[cells[0].strip("`")] = cells
            yield name, body, rows


def write():
    page = PAGE.read_text()
    for name, body, rows in list(sections(page)):
        found = SECTIONS[name]()
        lines = body.splitlines()
        first = next(number for number, line in enumerate(lines) if line.startswith("|---"))
        width = lines[first].count("|") - 1
        kept = [f"| {' | '.join(rows.get(key) or [f'`{key}`'] + ['?'] * (width - 1))} |" for key in sorted(found)]
        last = max(number for number, line in enumerate(lines) if line.startswith("|"))
        new = "\n".join(lines[:first + 1] + kept + lines[last + 1:]) + "\n"
        page = page.replace(body, new)
    PAGE.write_text(page)


def main():
    if "--write" in sys.argv:
        return write()
    report = Report("inventory")
    rows_of = {name: rows for name, _, rows in sections(PAGE.read_text())}
    for name, find in SECTIONS.items():
        found, rows = find(), rows_of.get(name, {})
        report.check(len(found) > 1, f"{name}: {len(found)} are found in the source")
        missing = sorted(found - set(rows))
        report.check(not missing, f"{name}: each has a row in docs/inventory.md (--write adds them)", *missing)
        gone = sorted(set(rows) - found)
        report.check(not gone, f"{name}: each row is of something that is there", *gone)
        empty = sorted(key for key, cells in rows.items() if any(cell in ("", "?") for cell in cells))
        report.check(not empty, f"{name}: each row says what makes it grow, its bound and who sees it", *empty)
    report.exit()


main()
