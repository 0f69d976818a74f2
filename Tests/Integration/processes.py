"""A server and a Redis as processes that can be killed, paused and restarted, each with its own directory. This module
depends on the columns that store events."""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import tempfile
import time

from client import SECRET, Client
from ports import free_port

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
# The URL of a PostgreSQL for the servers, without a database name. It is None if the servers use SQLite.
POSTGRES = os.environ.get("INTEGRATION_POSTGRES_URL")
# Turns off the limits on events and requests of drivers and operators. RATE_LIMIT_AUTH and RATE_LIMIT_SERVICE_EVENTS
# keep their defaults.
UNLIMITED = {f"RATE_LIMIT_{name}": "0" for name in (
    "SESSION_EVENTS", "PRESESSION_EVENTS", "REGISTRATIONS", "DEVICES", "ACCOUNT", "READS", "PINGS",
    "PURCHASES", "NOTIFICATIONS", "OPERATOR")}


def arguments(description):
    """Returns a parser with the options that all checks share."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument(
        "--dwell", default=os.environ.get("DWELL", REPOSITORY / ".build/release/dwell"), type=pathlib.Path,
        help="the binary (default: $DWELL, else the release build)")
    parser.add_argument(
        "--redis-url", default=os.environ.get("INTEGRATION_REDIS_URL") or None,
        help="a Redis for the server (default: $INTEGRATION_REDIS_URL, else none)")
    parser.add_argument(
        "--scale", default=float(os.environ.get("DWELL_TEST_SCALE", "1")), type=float,
        help="multiplies durations and repetitions (default: $DWELL_TEST_SCALE, else 1)")
    return parser


def psql(url, sql):
    """Runs SQL with psql. Returns the rows of a SELECT as tuples. A value of type bytea is a text that begins with
    \\x."""
    is_query = sql.lstrip().upper().startswith("SELECT")
    if is_query:
        sql = f"SELECT coalesce(json_agg(to_json(found)), '[]') FROM ({sql}) AS found"
    output = subprocess.run(
        ["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", url, "-c", sql], check=True, text=True,
        stdout=subprocess.PIPE).stdout
    if not is_query:
        return []
    # Reads each row as a list of pairs. A dict would keep only one of several columns with the same name.
    return [tuple(value for _, value in row) for row in json.loads(output, object_pairs_hook=list)]


def as_bytes(value):
    """Returns the value of a binary column as bytes. SQLite returns bytes, but `psql` returns them as a hexadecimal
    text."""
    return bytes.fromhex(value.removeprefix("\\x")) if isinstance(value, str) else value


def literal(value):
    """Returns the value as SQL."""
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"


def wait_until(holds, seconds, what):
    """Polls until `holds` returns true. If this takes longer than `seconds`, raises an AssertionError that contains
    `what`."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} took more than {seconds} s")
        time.sleep(0.01)


class Folder:
    """A context manager for a temporary directory. Its parent is `below`, or the system's directory for temporary
    files."""

    def __init__(self, below=None):
        self.below = below

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="dwell-check.", dir=self.below))
        return self.path

    def __exit__(self, *_):
        shutil.rmtree(self.path, ignore_errors=True)


class Server:
    """A server with its own directory. It keeps its port and database across restarts. A context manager."""

    def __init__(self, options, folder, environment, database_folder=None):
        """`database_folder`: the directory of the database, if it is not `folder`."""
        self.binary = options.dwell.resolve()
        self.folder = folder
        self.port = free_port()
        self.database_path = (database_folder or folder) / "dwell.sqlite3"
        # The PostgreSQL database; None with SQLite.
        self.database_url = environment.get("DATABASE_URL")
        self.environment = {
            "PATH": os.environ.get("PATH", ""),
            "HOME": os.environ.get("HOME", "/"),
            "HTTP_PORT": str(self.port),
            **({} if "DATABASE_PATH" in environment else self.database_settings()),
            "JWT_SECRET": SECRET,
            "LOG_FORMAT": "json",
            "LOG_LEVEL": "warning",
            # On a slow machine, Redis sometimes needs longer than the default timeout of 50 ms.
            **({"REDIS_URL": options.redis_url, "REDIS_TIMEOUT_MS": "2000"} if options.redis_url else {}),
            **environment,
        }
        self.process = None

    def database_settings(self):
        """Returns the setting for the database. With INTEGRATION_POSTGRES_URL, the first call creates a database."""
        if self.database_url:
            return {"DATABASE_URL": self.database_url}
        if not POSTGRES:
            return {"DATABASE_PATH": str(self.database_path)}
        name = "test_" + hashlib.md5(str(self.database_path.parent).encode()).hexdigest()[:20]
        self.database_url = f"{POSTGRES}/{name}"
        exists = psql(f"{POSTGRES}/postgres", f"SELECT 1 FROM pg_database WHERE datname = '{name}'")
        if not exists:
            psql(f"{POSTGRES}/postgres", f"CREATE DATABASE {name} TEMPLATE dwell_template")
        return {"DATABASE_URL": self.database_url}

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def launch(self, log):
        return subprocess.Popen(
            [self.binary, "serve"], env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL,
            stdout=log, stderr=log)

    def start(self):
        with open(self.log_path, "ab") as log:
            self.process = self.launch(log)
        self.keep_log()
        try:
            wait_until(self.is_alive, 20, "the start of the server")
        except AssertionError as error:
            raise AssertionError(f"{error}; its log:\n{self.log()}") from None

    def keep_log(self):
        """Makes a second link to the log file for log_secrets.py, which reads the logs of the whole run."""
        if folder := os.environ.get("DWELL_LOGS"):
            name = pathlib.Path(folder, f"server-{self.log_path.stat().st_ino}")
            if not name.exists():
                os.link(self.log_path, name)

    def is_alive(self):
        if self.process.poll() is not None:
            raise AssertionError(f"the server ended with {self.process.returncode}; its log:\n{self.log()}")
        try:
            with Client(self.port, None, timeout=2) as client:
                return client.request("GET", "/healthz").status == 200
        except OSError:
            return False

    def is_ready(self):
        with Client(self.port, None) as client:
            return client.request("GET", "/readyz").status == 200

    def command(self, *words):
        """Runs a subcommand with the server's settings. Returns the completed process."""
        return subprocess.run(
            [self.binary, *words], env=self.environment, cwd=self.folder, stdin=subprocess.DEVNULL, capture_output=True,
            text=True, check=False)

    def stop(self, seconds=30):
        """Sends SIGTERM. Returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(seconds)

    def kill(self):
        """Sends SIGKILL if the server is running."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    @property
    def log_path(self):
        return self.folder / "log"

    def log(self):
        return self.log_path.read_text(errors="replace")[-4000:]

    def stored_keys(self):
        """Returns every stored event as (driver, idempotency_key). A duplicate event would be in the list twice."""
        return self.rows(
            "SELECT driver.driver_id, event.idempotency_key FROM event JOIN driver ON driver.id = event.driver")

    def rows(self, sql, *values):
        """Runs a statement, in which `values` replace the question marks. Returns the rows."""
        if self.database_url:
            for value in values:
                sql = sql.replace("?", literal(value), 1)
            return psql(self.database_url, sql)
        database = sqlite3.connect(self.database_path, timeout=10)
        try:
            rows = database.execute(sql, values).fetchall()
            database.commit()
            return rows
        finally:
            database.close()

    def integrity(self):
        """Returns the result of SQLite's integrity check, which is "ok" without damage. PostgreSQL cannot check a whole
        database, so the result is always "ok" there."""
        if self.database_url:
            return "ok"
        database = sqlite3.connect(f"file:{self.database_path}?mode=ro", uri=True, timeout=10)
        try:
            return database.execute("PRAGMA integrity_check").fetchone()[0]
        finally:
            database.close()


class Redis:
    """A Redis without persistence, on its own port. A context manager."""

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        with open(self.folder / "redis.log", "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", "--bind", "127.0.0.1", "--port", str(self.port), "--save", "",
                 "--appendonly", "no", "--dir", str(self.folder)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self.answers, 10, "the start of Redis")

    def answers(self):
        try:
            return self.command("PING") == "+PONG"
        except OSError:
            return False

    def command(self, *words):
        """Returns the first line of the reply."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
            request = f"*{len(words)}\r\n" + "".join(f"${len(word.encode())}\r\n{word}\r\n" for word in words)
            connection.sendall(request.encode())
            return connection.makefile("rb").readline().decode().strip()

    def signal(self, number):
        self.process.send_signal(number)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()


def compare_with_disk(report, server, acknowledged, sent, what):
    """Checks that every acknowledged event is stored, that no event is stored twice, and that every stored event was
    sent."""
    rows = server.stored_keys()
    stored = set(rows)
    missing = acknowledged - stored
    report.check(not missing, f"{what}: each of {len(acknowledged)} acknowledged events is on disk", *sorted(missing))
    twice = [row for row, count in collections.Counter(rows).items() if count > 1]
    report.check(not twice, f"{what}: none of {len(rows)} rows is there twice", *twice)
    strangers = stored - sent
    report.check(not strangers, f"{what}: nothing is there that was not sent", *sorted(strangers))
