"""Starts a PostgreSQL whose processes a test can kill, alone or with a standby that replaces it. This module is
independent of what the database stores."""

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

from processes import psql, wait_until

PROGRAMS = max(pathlib.Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
# PostgreSQL refuses to run as root.
AS_USER = ["runuser", "-u", "postgres", "--"] if os.getuid() == 0 else []
STANDBY = "standby"


class Postgres:
    """A PostgreSQL with a Unix socket only, in a folder of its own. A context manager."""

    def __init__(self, settings=(), is_durable=False):
        """`is_durable`: whether each COMMIT waits for the disk, as in production. Tests that measure time need True.
        Tests that only kill processes may use False, because killed processes lose nothing from the page cache."""
        self.settings = [*settings, *([] if is_durable else ["fsync = off", "full_page_writes = off"])]

    def __enter__(self):
        self.make_folder()
        self.initialize()
        self.start()
        return self

    def __exit__(self, *_):
        self.run("pg_ctl", "stop", "-m", "immediate", "-D", self.data, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def make_folder(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="dwell-postgres.", dir="/tmp"))
        if AS_USER:
            shutil.chown(self.folder, "postgres")
        self.folder.chmod(0o711)
        self.data = self.folder / "data"
        # The host as it is written in a URL.
        self.host = f"{str(self.folder).replace('/', '%2F')}:5432"
        self.url = f"postgresql://dwell@{self.host}"

    def initialize(self):
        self.run("initdb", "-D", self.data, "-U", "dwell", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync")
        with open(self.data / "postgresql.conf", "a", encoding="utf-8") as file:
            file.write("\n".join(["listen_addresses = ''", *self.settings, ""]))

    def run(self, program, *arguments, check=True):
        # The output goes to a file. The PostgreSQL that `pg_ctl` starts would keep a pipe open, and this call would not
        # return.
        with open(self.folder / "output", "w+b") as output:
            result = subprocess.run(
                [*AS_USER, PROGRAMS / program, *arguments], cwd="/", stdin=subprocess.DEVNULL, check=False,
                stdout=output, stderr=output)
            output.seek(0)
            text = output.read().decode(errors="replace")
        if check and result.returncode != 0:
            raise AssertionError(f"{program} ended with {result.returncode}: {text}")

    def start(self):
        # The configuration file must not name the folder of the socket. The standby starts with a copy of the primary's
        # file, but needs a folder of its own.
        self.run(
            "pg_ctl", "start", "-w", "-D", self.data, "-l", self.folder / "log",
            "-o", f"-c unix_socket_directories={self.folder}")

    def create_database(self, name):
        """Returns the URL of a new database."""
        psql(f"{self.url}/postgres", f"CREATE DATABASE {name}")
        return f"{self.url}/{name}"

    # --- processes

    def processes(self):
        """Returns the numbers of the postmaster and of its children."""
        postmaster = int((self.data / "postmaster.pid").read_text(encoding="utf-8").split()[0])
        children = pathlib.Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text(encoding="utf-8")
        return postmaster, [int(number) for number in children.split()]

    def kill(self):
        """Kills the postmaster with SIGKILL. Then waits until its child processes have ended by themselves."""
        postmaster, children = self.processes()
        os.kill(postmaster, signal.SIGKILL)
        self.wait_for_end(children)

    def kill_all(self):
        """Kills all processes with SIGKILL, as if the machine were lost."""
        self.wait_for_end(self.send_to_all(signal.SIGKILL))

    @contextlib.contextmanager
    def suspended(self):
        """Pauses all processes with SIGSTOP, as if the machine hung. Open connections stay open, and new ones get no
        answer."""
        self.send_to_all(signal.SIGSTOP)
        try:
            yield
        finally:
            self.send_to_all(signal.SIGCONT)

    def send_to_all(self, kind):
        """Sends the signal to the postmaster and to its children. Returns the numbers of the children."""
        postmaster, children = self.processes()
        # The postmaster gets the signal before its children. If it saw that SIGKILL had ended a child, it would begin a
        # recovery.
        for number in [postmaster, *children]:
            try:
                os.kill(number, kind)
            except ProcessLookupError:
                pass
        return children

    @staticmethod
    def wait_for_end(processes):
        for number in processes:
            wait_until(lambda: not pathlib.Path(f"/proc/{number}").exists(), 20, f"the end of process {number}")


class Pair:
    """A primary and a synchronous standby. A commit waits until the standby has also written it to disk. After
    `promote`, the new primary has no standby until `copy` or `rewind` provides one."""

    def __init__(self, settings=()):
        # pg_rewind needs wal_log_hints. It also needs the WAL since the last common checkpoint of the two servers, so
        # wal_keep_size is large.
        settings = ["wal_log_hints = on", "wal_keep_size = 512MB", "wal_retrieve_retry_interval = 200ms", *settings]
        self.primary, self.standby = (Postgres(settings, is_durable=True) for _ in range(2))

    def __enter__(self):
        self.primary.__enter__()
        self.standby.make_folder()
        self.copy()
        return self

    def __exit__(self, *exception):
        self.primary.__exit__(*exception)
        self.standby.__exit__(*exception)

    def url(self, database):
        """Returns the URL with both hosts. A client connects to the host that accepts writes."""
        return f"postgresql://dwell@{self.primary.host},{self.standby.host}/{database}?target_session_attrs=read-write"

    def kill_primary(self):
        self.primary.kill_all()

    def promote(self):
        """Makes the standby the primary, which accepts writes. The old primary becomes `self.standby`, but follows the
        new primary only after `copy` or `rewind`."""
        self.standby.run("pg_ctl", "promote", "-w", "-D", self.standby.data)
        self.primary, self.standby = self.standby, self.primary

    def copy(self):
        """Makes the standby a new copy of the primary."""
        shutil.rmtree(self.standby.data, ignore_errors=True)
        self.standby.run(
            "pg_basebackup", "-D", self.standby.data, "--write-recovery-conf", "--checkpoint=fast", "--no-sync",
            "-d", self.source())
        self.follow()

    def rewind(self):
        """Makes the killed old primary the standby of the new primary. Unlike `copy`, this copies only the
        differences."""
        # pg_rewind reads the new primary's timeline from a control file. A checkpoint writes the new timeline into this
        # file.
        psql(f"{self.primary.url}/postgres", "CHECKPOINT")
        self.standby.run(
            "pg_rewind", "-D", self.standby.data, f"--source-server={self.source()} dbname=postgres",
            "--write-recovery-conf", "--no-sync")
        self.follow()

    def source(self):
        return f"host={self.primary.folder} port=5432 user=dwell application_name={STANDBY}"

    def follow(self):
        self.standby.start()
        psql(f"{self.primary.url}/postgres", f"ALTER SYSTEM SET synchronous_standby_names = '{STANDBY}'")
        psql(f"{self.primary.url}/postgres", "SELECT pg_reload_conf()")
        wait_until(lambda: self.standbys() == [("streaming", "sync")], 30, "the synchronous standby")

    def standbys(self):
        return psql(f"{self.primary.url}/postgres", "SELECT state, sync_state FROM pg_stat_replication")
