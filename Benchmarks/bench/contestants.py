"""The services that `make bench` measures. This module builds each service, starts it with a new database, stops it and
counts its stored rows."""

import os
import pathlib
import signal
import sqlite3
import subprocess
import time
import urllib.request

import recording
from postgres import Postgres, free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILT = ROOT / ".build" / "bench"
SECRET = "the-benchmarks-sign-with-this-secret"

# No event reaches these limits, but the rate limiters still count every event. At the measured rates, a driver has
# about 60 events in a window of 6 s. In production, a driver has at most 60 in a window.
LIMITS = {
    "RATE_LIMIT_SESSION_EVENTS": "100000", "RATE_LIMIT_PRESESSION_EVENTS": "100000", "RATE_LIMIT_WINDOW_SECONDS": "6",
    "RATE_LIMIT_READS": "100000",
}


class Failed(Exception):
    """A failed check, or a service that did not start. The run ends and prints the message."""


def run(command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))} ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


def compile_c(source, *libraries):
    """Compiles the program if it is missing or older than `source`. Returns its path."""
    program = BUILT / pathlib.Path(source).stem
    source = ROOT / "Benchmarks" / source
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        BUILT.mkdir(parents=True, exist_ok=True)
        run(["cc", "-O2", "-pthread", "-o", program, source, *libraries])
    return program


class Contestant:
    """A service to measure. Call `start` in a `with` statement, which ends the service even after an error."""

    key = ""
    title = ""
    stores = True
    wants_redis = False
    wants_postgres = False
    # More settings of this PostgreSQL.
    postgres_settings = {}
    fixed_answers = False
    # An SQL condition: which rows of `event` were posted by clients.
    posted = ""

    def build(self):
        """Builds or installs everything that the first start needs."""

    def command(self, folder, port):
        raise NotImplementedError

    def prepare(self, folder):
        """Prepares the folder. Called before each start."""

    def start(self, folder, token, environment=()):
        folder.mkdir(parents=True, exist_ok=True)
        self.prepare(folder)
        return Running(self, folder, token, dict(environment))

    def environment(self, folder, port):
        settings = {
            "PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "HTTP_PORT": str(port),
            "DATABASE_PATH": str(folder / "events.sqlite3"), "JWT_SECRET": SECRET, "LOG_LEVEL": "warning", **LIMITS,
        }
        if self.wants_redis:
            settings["REDIS_URL"] = f"unix://{folder}/redis.sock"
        return settings

    def rows(self, folder, postgres=None):
        if postgres:
            return int(postgres.value(f"SELECT count(*) FROM event {self.posted}"))
        with sqlite3.connect(f"file:{folder}/events.sqlite3?mode=ro", uri=True, timeout=30) as database:
            return database.execute(f"SELECT count(*) FROM event {self.posted}").fetchone()[0]


class Running:
    """A contestant that is ready for requests, with its Redis and its PostgreSQL, if it uses them."""

    def __init__(self, contestant, folder, token, extra):
        self.contestant, self.folder, self.token = contestant, folder, token
        self.redis = None
        self.postgres = None
        self.process = None
        self.port = free_port()
        try:
            if contestant.wants_redis:
                self.start_redis()
            if contestant.wants_postgres:
                self.postgres = Postgres(folder, contestant.postgres_settings)
                extra["DATABASE_URL"] = self.postgres.url
            self.log = open(folder / "log", "w")
            self.begun = time.monotonic()
            self.process = subprocess.Popen(
                [str(word) for word in contestant.command(folder, self.port)], cwd=folder, stdin=subprocess.DEVNULL,
                stdout=self.log, stderr=self.log, env={**contestant.environment(folder, self.port), **extra})
            self.wait_until_ready()
        except BaseException:
            self.kill()
            raise

    def start_redis(self):
        self.redis = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", str(self.folder / "redis.sock"), "--save", "",
             "--appendonly", "no", "--dir", str(self.folder)],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not (self.folder / "redis.sock").exists():
            if time.monotonic() > deadline:
                raise Failed("Redis does not come up")
            time.sleep(0.02)

    def get(self, path, timeout=2):
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}", headers={"Authorization": f"Bearer {self.token}"})
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return answer.status, answer.read()

    def wait_until_ready(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                if self.get("/native/config")[0] == 200:
                    self.ready_after = time.monotonic() - self.begun
                    return
            except OSError:
                pass
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"{self.contestant.title} does not come up:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.002)

    def processes(self):
        """Returns the process ids of the service and of all its descendants."""
        found, new = [], [self.process.pid]
        while new:
            pid = new.pop()
            found.append(pid)
            for task in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    new += [int(child) for child in task.read_text().split()]
                except OSError:
                    pass
        return found

    def cpu_seconds(self):
        ticks = 0
        for pid in self.processes():
            try:
                fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                ticks += int(fields[11]) + int(fields[12])
            except OSError:
                pass
        return ticks / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        total = 0
        for pid in self.processes():
            try:
                for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
                    if line.startswith("VmRSS:"):
                        total += int(line.split()[1]) * 1024
            except OSError:
                pass
        return total

    def rows(self):
        """Returns the number of posted events in the database."""
        return self.contestant.rows(self.folder, self.postgres)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            status = self.process.wait(60)
        except subprocess.TimeoutExpired:
            raise Failed(f"{self.contestant.title} does not end") from None
        if status not in (0, -signal.SIGTERM):
            raise Failed(f"{self.contestant.title} ended with {status}:\n{(self.folder / 'log').read_text()[-2000:]}")

    def kill(self):
        for process in (self.process, self.redis):
            if process and process.poll() is None:
                process.kill() if process is self.redis else process.terminate()
                try:
                    process.wait(10)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if self.postgres:
            self.postgres.end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()


class Dwell(Contestant):
    key = "dwell"
    title = "Dwell"
    # Do not count the events that the server itself stores when a session expires.
    posted = "WHERE kind NOT IN (SELECT id FROM event_kind WHERE origin = 1)"
    binary = pathlib.Path(os.environ.get("DWELL", ROOT / ".build" / "release" / "dwell"))

    def build(self):
        if not self.binary.exists():
            raise Failed(f"There is no {self.binary}; make build makes it.")

    def command(self, folder, port):
        return [self.binary, "serve"]


class DwellWithRedis(Dwell):
    key = "dwell-redis"
    title = "Dwell with Redis"
    wants_redis = True


class DwellOnPostgres(Dwell):
    key = "dwell-postgres"
    title = "Dwell on PostgreSQL"
    wants_postgres = True
    posted = "WHERE origin = 0"

    def environment(self, folder, port):
        settings = super().environment(folder, port)
        del settings["DATABASE_PATH"]
        return settings


class RecordedDwell(DwellOnPostgres):
    """Dwell on a PostgreSQL that logs every statement. Used only to make a recording."""

    key = "dwell-recorded"
    title = "Dwell on PostgreSQL, recorded"
    postgres_settings = recording.SETTINGS


class DwellOnPostgresWithRedis(DwellOnPostgres):
    key = "dwell-postgres-redis"
    title = "Dwell on PostgreSQL with Redis"
    wants_redis = True


class Hummingbird(Contestant):
    key = "hummingbird"
    title = "Hummingbird + GRDB"
    scratch = ROOT / ".build" / "peers" / "hummingbird-grdb"

    def build(self):
        run(["swift", "build", "-c", "release", "--scratch-path", self.scratch],
            cwd=ROOT / "Benchmarks" / "peers" / "hummingbird-grdb")

    def command(self, folder, port):
        return [self.scratch / "release" / "Peer"]


class FastAPI(Contestant):
    key = "fastapi"
    title = "FastAPI + Redis"
    wants_redis = True
    environment_folder = BUILT / "fastapi"

    def build(self):
        wanted = ROOT / "Benchmarks" / "peers" / "fastapi" / "requirements.txt"
        installed = self.environment_folder / "requirements.txt"
        if installed.exists() and installed.read_text() == wanted.read_text():
            return
        run(["python3", "-m", "venv", "--clear", self.environment_folder])
        run([self.environment_folder / "bin" / "pip", "install", "-q", "-r", wanted])
        installed.write_text(wanted.read_text())

    def command(self, folder, port):
        return [
            self.environment_folder / "bin" / "uvicorn", "service:app", "--app-dir",
            ROOT / "Benchmarks" / "peers" / "fastapi", "--port", port, "--workers", 2, "--loop", "uvloop",
            "--http", "httptools", "--no-access-log", "--log-level", "warning"]

    def environment(self, folder, port):
        return {**super().environment(folder, port), "PYTHONDONTWRITEBYTECODE": "1"}


class FastAPIOnPostgres(FastAPI):
    key = "fastapi-postgres"
    title = "FastAPI + Redis + asyncpg"
    wants_postgres = True


class BareEpoll(Contestant):
    key = "epoll"
    title = "bare epoll in C"
    stores = False
    fixed_answers = True

    def build(self):
        self.program = compile_c("peers/epoll.c")

    def command(self, folder, port):
        return [self.program, port, max(1, (os.cpu_count() or 2) // 2)]


ALL = {contestant.key: contestant for contestant in (
    Dwell(), DwellWithRedis(), DwellOnPostgres(), DwellOnPostgresWithRedis(), RecordedDwell(),
    Hummingbird(), FastAPI(),
    FastAPIOnPostgres(), BareEpoll())}
