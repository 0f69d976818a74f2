"""A PostgreSQL server for one measurement, with an empty database. It is durable, because fsync and synchronous_commit
keep their defaults."""

import os
import pathlib
import pwd
import signal
import socket
import subprocess
import time


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def program(name):
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(found[-1]) if found else name


class Postgres:
    def __init__(self, folder, settings=None):
        """`settings`: more settings of PostgreSQL, by name."""
        self.data = folder / "postgres"
        self.data.mkdir()
        # PostgreSQL refuses to run as root.
        self.identity = {}
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.data, user.pw_uid, user.pw_gid)
            self.identity = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        port = free_port()
        self.url = f"postgres://postgres@127.0.0.1:{port}/postgres?sslmode=disable"
        subprocess.run(
            [program("initdb"), "-D", self.data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"],
            check=True, stdout=subprocess.DEVNULL, cwd="/", **self.identity)
        options = {
            "listen_addresses": "127.0.0.1", "unix_socket_directories": "", "shared_buffers": "512MB",
            "max_wal_size": "4GB", **(settings or {})}
        self.log = open(folder / "postgres.log", "w")
        self.process = subprocess.Popen(
            [program("postgres"), "-D", self.data, "-p", str(port)]
            + [f"--{name.replace('_', '-')}={value}" for name, value in options.items()],
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd="/", **self.identity)
        self.wait_until_ready()

    def wait_until_ready(self):
        deadline = time.monotonic() + 30
        while subprocess.run([program("pg_isready"), "-q", "-d", self.url], check=False).returncode != 0:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL does not start; see {self.log.name}")
            time.sleep(0.05)

    def value(self, sql):
        return subprocess.run(
            [program("psql"), self.url, "-X", "-A", "-t", "-c", sql], check=True, capture_output=True, text=True
        ).stdout.strip()

    def processes(self):
        """Returns the process ids of the server and of its children, which serve connections or work in background."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return [self.process.pid, *map(int, children)]

    def end(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.log.close()
