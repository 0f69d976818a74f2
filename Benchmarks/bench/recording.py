"""Reads from PostgreSQL's CSV log the statements that a service sent, and writes them to a file, the recording.
Benchmarks/postgres/replay.c sends them again, and describes the format of the recording."""

import csv
import re
import struct

# The settings of a server whose log is to be read.
SETTINGS = {
    "logging_collector": "on", "log_destination": "csvlog", "log_statement": "all", "log_directory": "log",
    "log_filename": "statements.log", "log_rotation_size": "0", "log_parameter_max_length": "-1",
}
# The columns of the CSV form that are used here.
PROCESS, MESSAGE, DETAIL = 3, 13, 14
EXECUTE = re.compile(r"execute [^:]+: (.*)", re.DOTALL)
# Matches one parameter in a log line, for example `$1 = NULL` or `$2 = 'text'`. Within the text, a quote is doubled.
PARAMETER = re.compile(r"\$\d+ = (?:(NULL)|'((?:[^']|'')*)')(?:, )?", re.DOTALL)
# A transaction that stores events also raises the `version` of their drivers, with an UPDATE. MOVE is the beginning of
# this UPDATE, and its parameter at index MOVED has the ids of the drivers.
#
# The statements are recorded in groups. A group is one transaction, or a few reads outside of a transaction. If two
# groups raise the version of the same driver, the replay must send them in the recorded order.
MOVE, MOVED = "UPDATE driver SET version", 3


def parameters(detail):
    text = (detail or "").partition(": ")[2]
    return [None if null else value.replace("''", "'") for null, value in PARAMETER.findall(text)]


class Recording:
    def __init__(self):
        self.statements = {}
        self.sessions = {}
        # The groups that are not complete yet, by process.
        self.open = {}
        # The latest group that raised a driver's version, by driver. A group is identified by its PostgreSQL process
        # and its number among the groups of this process, counted from 1.
        self.moved = {}
        self.events = 0

    def read(self, path):
        csv.field_size_limit(1 << 30)
        with open(path, newline="") as log:
            for line in csv.reader(log):
                if found := EXECUTE.match(line[MESSAGE]):
                    self.add(line[PROCESS], found[1], parameters(line[DETAIL]))
        return self

    def add(self, process, sql, values):
        statement = self.statements.setdefault(sql, len(self.statements))
        self.sessions.setdefault(process, [])
        if sql == "BEGIN":
            self.end_group(process)
        group = self.open.setdefault(process, {"queries": [], "drivers": set(), "writes": False})
        group["queries"].append((statement, values))
        group["writes"] |= sql == "BEGIN"
        if MOVE in sql:
            group["drivers"] |= set(values[MOVED].strip("{}").split(","))
        if sql == "COMMIT" or not group["writes"] and len(group["queries"]) > 16:
            self.end_group(process)

    def end_group(self, process):
        group = self.open.pop(process, None)
        if group is None:
            return
        waits = {}
        for driver in group["drivers"]:
            if (last := self.moved.get(driver)) and last[0] != process:
                waits[last[0]] = max(waits.get(last[0], 0), last[1])
        self.sessions[process].append((waits, group["queries"]))
        for driver in group["drivers"]:
            self.moved[driver] = (process, len(self.sessions[process]))

    def write(self, path):
        for process in list(self.open):
            self.end_group(process)
        # Keep only the connections that stored events. The others served heartbeats, deadlines and reads.
        writers = {process for process, _ in self.moved.values()}
        writing = {process: groups for process, groups in self.sessions.items() if process in writers}
        places = {process: index for index, process in enumerate(writing)}
        out = bytearray()

        def number(value):
            out.extend(struct.pack("=i", value))

        def text(value):
            if value is None:
                return number(-1)
            encoded = value.encode()
            number(len(encoded))
            out.extend(encoded + b"\0")

        number(len(self.statements))
        for sql in self.statements:
            text(sql)
        number(len(writing))
        for groups in writing.values():
            number(len(groups))
            for waits, queries in groups:
                number(len(waits))
                for process, count in waits.items():
                    number(places[process])
                    number(count)
                number(len(queries))
                for statement, values in queries:
                    number(statement)
                    number(len(values))
                    for value in values:
                        text(value)
        path.write_bytes(out)
