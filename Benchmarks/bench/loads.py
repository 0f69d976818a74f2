"""The loads, and the contestants that each load measures. A measurement starts a service with new data, puts a load on
it, stops it and counts its rows."""

import base64
import dataclasses
import hashlib
import hmac
import json
import os
import pathlib
import re
import shutil
import subprocess
import time

import machine
import recording
from contestants import ALL, BUILT, ROOT, SECRET, Failed, compile_c, run

DRIVERS = 2000
# The warm-up of a load with one connection. It must send a request of every driver, because a driver's first request
# verifies the token and creates the driver's row. The default of 1 s is too short for this.
ALONE_WARMUP_SECONDS = 3


@dataclasses.dataclass
class Options:
    seconds: float
    rounds: int
    connections: int
    table_rows: int
    memory_events: int
    data: pathlib.Path


@dataclasses.dataclass
class Step:
    """One measurement of a load. Each round calls `measure()`, which returns a dictionary of figures. The result is the
    median of the rounds."""

    load: str
    series: str
    measure: object
    rounds: int = 0  # 0: the number of rounds of the run


class Bench:
    def __init__(self, options):
        self.options = options
        self.salt = int(time.time()) & 0xFFFFFF
        self.loader = compile_c("load/load.c")
        self.sqlite = compile_c("sqlite/sqlite_alone.c", "-lsqlite3", "-lcrypto")
        self.replay = compile_c("postgres/replay.c", f"-I{run(['pg_config', '--includedir']).strip()}", "-lpq")
        self.tokens = options.data / "tokens"
        options.data.mkdir(parents=True, exist_ok=True)
        self.tokens.write_text("".join(token(f"driver-{number:05}") + "\n" for number in range(DRIVERS)))
        self.token = self.tokens.read_text().split("\n", 1)[0]
        # The measured rate of single events, by contestant.
        self.maximum = {}

    # --- a load on a service ----------------------------------------------------------------------------------------

    def put_load(self, running, load, connections=None, **extra):
        self.salt += 1
        if connections == 1:
            extra.setdefault("warmup", ALONE_WARMUP_SECONDS)
        command = [
            self.loader, "--port", running.port, "--tokens", self.tokens, "--salt", f"{self.salt:x}", "--load", load,
            "--connections", connections or self.options.connections, "--seconds", self.options.seconds,
            "--threads", max(1, (os.cpu_count() or 2) // 2)]
        for name, value in extra.items():
            command += [f"--{name}"] if value is True else [f"--{name}", value]
        if running.contestant.fixed_answers:
            command += ["--fixed-answers"]
        before = running.cpu_seconds()
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failed(
                f"{load} on {running.contestant.title}: {done.stderr.strip()}\n{done.stdout}"
                f"{(running.folder / 'log').read_text()[-2000:]}")
        figures = json.loads(done.stdout)
        if figures["requests"]:
            figures["cpu_us"] = (running.cpu_seconds() - before) / figures["requests"] * 1e6
        figures["resident_mb"] = running.resident_bytes() / 1e6
        return figures

    def on(self, key, load, connections=None, **extra):
        """Returns a function that measures the contestant `key` under the load `load`, on an empty database."""
        def measure():
            contestant = ALL[key]
            folder = self.fresh_folder(key)
            with contestant.start(folder, self.token) as running:
                figures = self.put_load(running, load, connections, **extra)
                running.stop()
                if contestant.stores:
                    expect_rows(running, figures["stored"])
            return figures
        return measure

    def at_half_rate(self, key):
        def measure():
            if not self.maximum.get(key):
                self.maximum[key] = self.on(key, "events")()["rate"]
            rate = self.maximum[key] / 2
            return {**self.on(key, "events", rate=rate)(), "due_rate": rate}
        return measure

    def disk_alone(self):
        return lambda: machine.paced_flushes(self.options.data, self.options.seconds)

    def fresh_folder(self, name):
        folder = self.options.data / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    # --- SQLite alone -----------------------------------------------------------------------------------------------

    def sqlite_alone(self, batch):
        def measure():
            folder = self.fresh_folder("sqlite")
            self.migrate(folder / "events.sqlite3")
            figures = json.loads(run(
                [self.sqlite, "rate", folder / "events.sqlite3", batch, self.options.seconds]))
            expect(ALL["dwell"].title, ALL["dwell"].rows(folder), figures["rows"])
            figures["event_rate"] = figures["rate"]
            return figures
        return measure

    def migrate(self, path):
        run([ALL["dwell"].binary, "migrate"], env={"DATABASE_PATH": str(path), "PATH": "/usr/bin:/bin"})

    def filled(self, rows):
        """Returns the path of a database with at least `rows` events. The build directory keeps the database for later
        runs with the same migrations and fold rules."""
        schema = hashlib.sha256(b"".join(path.read_bytes() for path in sorted((ROOT / "migrations").glob("0*.sql"))))
        fold = (ROOT / "Sources/JourneyModel/Fold.swift").read_text()
        rules = re.search(r"rulesVersion: Int64 = (\d+)", fold)[1]
        path = BUILT / "filled" / f"{rows}-{schema.hexdigest()[:12]}-{rules}.sqlite3"
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            making = path.with_suffix(".making")
            making.unlink(missing_ok=True)
            self.migrate(making)
            run([self.sqlite, "fill", making, rows, rules])
            making.rename(path)
        return path

    def folder_with(self, name, rows):
        folder = self.fresh_folder(name)
        path = folder / "events.sqlite3"
        shutil.copyfile(self.filled(rows), path)
        # Flush the copy now, so that the operating system does not flush it during the measured load.
        with open(path, "rb+") as copy:
            os.fsync(copy.fileno())
        return folder

    # --- PostgreSQL alone -------------------------------------------------------------------------------------------

    def postgres_alone(self):
        """Returns a function that records Dwell's statements under the load of single events. The function then empties
        the tables, and measures how fast PostgreSQL executes the recorded statements again."""
        def measure():
            contestant = ALL["dwell-recorded"]
            folder = self.fresh_folder("dwell-recorded")
            with contestant.start(folder, self.token) as running:
                self.put_load(running, "events")
                running.stop()
                postgres = running.postgres
                rows = running.rows()
                recorded = recording.Recording().read(postgres.data / "log" / "statements.csv")
                recorded.write(folder / "recording")
                postgres.value("ALTER SYSTEM SET log_statement = 'none'")
                postgres.value("SELECT pg_reload_conf()")
                postgres.value("TRUNCATE driver, event, session, session_owner, settings_version CASCADE")
                figures = json.loads(run([self.replay, postgres.url, folder / "recording"]))
                expect_rows(running, rows)
            return {"rate": rows / figures["seconds"]}
        return measure

    # --- loads with a preparation of their own ------------------------------------------------------------------------

    def into_table(self, rows):
        def measure():
            contestant = ALL["dwell"]
            folder = self.folder_with("table", rows) if rows else self.fresh_folder("table")
            with contestant.start(folder, self.token) as running:
                before = contestant.rows(folder)
                figures = self.put_load(running, "events")
                running.stop()
                expect_rows(running, before + figures["stored"])
            return {**figures, "rows_before": before}
        return measure

    def cold_start(self, gigabytes=1.0, rows=5_700_000):
        def measure():
            folder = self.folder_with("start", rows)
            size = (folder / "events.sqlite3").stat().st_size
            if size < 0.95 * gigabytes * 1e9:
                raise Failed(f"the database is {size / 1e9:.2f} GB, not {gigabytes} GB")
            drop_from_cache(folder / "events.sqlite3")
            with ALL["dwell"].start(folder, self.token) as running:
                took = running.ready_after
                running.stop()
            return {"start_ms": took * 1000, "size_gb": size / 1e9}
        return measure

    def memory(self, events):
        """Returns a function that posts `events` events to one server process. After each tenth of the events, the
        function reads the resident memory of the process."""
        def measure():
            contestant = ALL["dwell"]
            folder = self.fresh_folder("memory")
            stored, points = 0, []
            with contestant.start(folder, self.token) as running:
                for tenth in range(10):
                    # The load ends after `share` requests, long before the 3600 seconds.
                    share = events // 10
                    figures = self.put_load(running, "events", requests=share, warmup=0, seconds=3600)
                    stored += figures["stored"]
                    points.append([stored, running.resident_bytes() / 1e6])
                running.stop()
                expect_rows(running, stored)
            # The caches are full after the first tenth of the events. Memory that grows later would grow without bound.
            return {"points": points, "growth_mb": points[-1][1] - points[0][1], "resident_mb": max(p[1] for p in points)}
        return measure


def expect_rows(running, expected):
    expect(running.contestant.title, running.rows(), expected)


def expect(title, found, expected):
    if found != expected:
        raise Failed(f"{title} acknowledged {expected} events and has {found} on disk")


def drop_from_cache(path):
    """Makes the server read the file from the disk. An unprivileged process can only ask for this."""
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def token(driver):
    def encode(part):
        return base64.urlsafe_b64encode(part).rstrip(b"=")

    now = int(time.time())
    claims = {"sub": driver, "iss": "dwell", "aud": "dwell", "iat": now - 1, "exp": now + 86400, "jti": driver}
    signed = encode(b'{"alg":"HS256","typ":"JWT"}') + b"." + encode(json.dumps(claims).encode())
    return (signed + b"." + encode(hmac.new(SECRET.encode(), signed, hashlib.sha256).digest())).decode()


SERVICES = ["dwell", "dwell-redis", "hummingbird", "fastapi"]
BATCHES = [1, 16, 64, 256]
CONNECTIONS = [1, 64, 256, 2000]

# The loads run in this order. `table`, `start` and `memory` need gigabytes of disk or an hour.
NAMES = [
    "config", "events", "batch", "mix", "connections", "fresh", "half", "latency", "postgres", "table", "start", "memory"]
HEADLINE = NAMES[:9]


def steps(bench, name):
    """Returns the measurements of one round of the load `name`."""
    options = bench.options
    if name in ("config", "events"):
        return [Step(name, key, bench.on(key, name)) for key in [*SERVICES, "epoll"]]
    if name == "mix":
        return [Step(name, key, bench.on(key, name)) for key in SERVICES]
    if name == "fresh":
        return [Step(name, key, bench.on(key, "events", fresh=True)) for key in [*SERVICES, "epoll"]]
    if name == "batch":
        return [Step(name, key, bench.on(key, "batch")) for key in ("dwell", "dwell-redis")] + [
            Step(name, f"sqlite-{batch}", bench.sqlite_alone(batch)) for batch in BATCHES]
    if name == "connections":
        return [
            Step(name, f"{key}-{count}", bench.on(key, "events", count))
            for count in CONNECTIONS for key in ("dwell", "dwell-redis")]
    if name == "latency":
        return [
            Step(name, "dwell", bench.on("dwell", "events", 1)), Step(name, "sqlite-1", bench.sqlite_alone(1)),
            Step(name, "dwell-redis", bench.on("dwell-redis", "events", 1))]
    if name == "postgres":
        return [
            Step(name, key, bench.on(key, "events"))
            for key in ("dwell-postgres", "dwell-postgres-redis", "fastapi-postgres")] + [
            Step(name, "postgres-alone", bench.postgres_alone())]
    if name == "half":
        return [Step(name, key, bench.at_half_rate(key)) for key in ("dwell", "dwell-redis")] + [
            Step(name, "disk", bench.disk_alone())]
    if name == "table":
        return [Step(name, "empty", bench.into_table(0)), Step(name, "filled", bench.into_table(options.table_rows))]
    if name == "start":
        return [Step(name, "dwell", bench.cold_start())]
    if name == "memory":
        return [Step(name, "dwell", bench.memory(options.memory_events), rounds=1)]
    raise Failed(f"{name} is no load; there are {', '.join(NAMES)}")
