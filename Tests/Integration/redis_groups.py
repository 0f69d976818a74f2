"""Groups of Redis servers: a cluster, and a primary with a replica and sentinels. This module starts them on free ports
of 127.0.0.1."""

import binascii
import datetime
import ipaddress
import os
import subprocess

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from ports import free_port
from processes import Redis, wait_until

# The password of each Redis in this module. The sentinels have SENTINEL_PASSWORD.
PASSWORD = "redis-p4ss,w/rd"
ESCAPED_PASSWORD = "redis-p4ss,w%2Frd"
SENTINEL_PASSWORD = "sentinel-p4ss"

SLOTS = 16384


def slot(driver):
    """Returns the slot of a driver's keys. The driver's id may have only letters, digits and hyphens."""
    return binascii.crc_hqx(driver.encode(), 0) % SLOTS


class GroupedRedis(Redis):
    def __init__(self, folder, name, arguments, password=PASSWORD):
        super().__init__(folder)
        self.name = name
        self.arguments = arguments
        self.password = password

    def start(self):
        with open(self.folder / f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", *self.arguments, "--bind", "127.0.0.1", "--port", str(self.port)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        wait_until(self.answers, 20, f"the start of {self.name}")

    def answers(self):
        return self.ask("PING") == "PONG"

    def ask(self, *words):
        """Returns the reply as text without a line end, or the text of the error."""
        environment = {**os.environ, "REDISCLI_AUTH": self.password}
        done = subprocess.run(
            ["redis-cli", "--no-auth-warning", *self.address_options(), *words], env=environment, timeout=20,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        return done.stdout.strip()

    def address_options(self):
        return ["-p", str(self.port)]

    def fields(self, *words):
        """Returns the lines `name:value` of a reply as a dictionary."""
        return dict(line.split(":", 1) for line in self.ask(*words).splitlines() if ":" in line)


class Cluster:
    """Three primaries with one replica each. A context manager."""

    # Redis declares a node failed after a silence of this length.
    NODE_TIMEOUT_MILLISECONDS = 1500

    def __init__(self, folder):
        self.nodes = []
        for index in range(6):
            name = f"node-{index}"
            (folder / name).mkdir()
            self.nodes.append(GroupedRedis(folder / name, name, [
                "--requirepass", PASSWORD, "--masterauth", PASSWORD, "--save", "", "--appendonly", "no",
                "--cluster-enabled", "yes", "--cluster-port", str(free_port()),
                "--cluster-node-timeout", str(self.NODE_TIMEOUT_MILLISECONDS),
                "--cluster-require-full-coverage", "no", "--cluster-replica-validity-factor", "0"]))

    def __enter__(self):
        for node in self.nodes:
            node.start()
        hosts = [f"127.0.0.1:{node.port}@{node.arguments[node.arguments.index('--cluster-port') + 1]}"
                 for node in self.nodes]
        first = self.nodes[0]
        for index, node in enumerate(self.nodes[:3]):
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", str(index + 1))
            node.ask("CLUSTER", "ADDSLOTSRANGE", str(index * SLOTS // 3), str((index + 1) * SLOTS // 3 - 1))
        for host in hosts[1:]:
            address, bus_port = host.split("@")
            first.ask("CLUSTER", "MEET", *address.split(":"), bus_port)
        wait_until(lambda: all(node.fields("CLUSTER", "INFO").get("cluster_known_nodes") == "6"
                               for node in self.nodes), 20, "the meeting of the nodes")
        for primary, replica in zip(self.nodes[:3], self.nodes[3:]):
            identity = primary.ask("CLUSTER", "MYID")
            wait_until(lambda: replica.ask("CLUSTER", "REPLICATE", identity) == "OK", 10, "a replica")
        self.wait_until_complete()
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            node.kill()

    def url(self, *nodes):
        """Returns the URL that names these nodes, or all."""
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in nodes or self.nodes)
        return f"redis://:{ESCAPED_PASSWORD}@{hosts}"

    def wait_until_complete(self):
        """Waits until every node sees all slots served, and every replica has its primary's data."""

        def is_complete():
            for node in self.nodes:
                info = node.fields("CLUSTER", "INFO")
                if info.get("cluster_state") != "ok" or info.get("cluster_slots_ok") != str(SLOTS):
                    return False
                replication = node.fields("INFO", "replication")
                if replication.get("role") == "slave" and replication.get("master_link_status") != "up":
                    return False
            return True

        wait_until(is_complete, 30, "the cluster's start")

    def primary(self, of_slot):
        """Returns the running primary that has the slot, or None."""
        for node in self.nodes:
            if node.process.poll() is None and node.fields("INFO", "replication").get("role") == "master":
                myself = next(line for line in node.ask("CLUSTER", "NODES").splitlines() if "myself" in line)
                for part in myself.split()[8:]:
                    first, _, last = part.partition("-")
                    if not part.startswith("[") and int(first) <= of_slot <= int(last or first):
                        return node
        return None


class Sentinels:
    """A primary, a replica and three sentinels that promote the replica. A context manager."""

    NAME = "dwell-primary"

    def __init__(self, folder):
        self.folder = folder
        self.sentinels = []
        common = ["--requirepass", PASSWORD, "--masterauth", PASSWORD, "--save", "", "--appendonly", "no"]
        self.servers = []
        for name in ("first", "second"):
            (folder / name).mkdir()
            self.servers.append(GroupedRedis(folder / name, name, common))

    def __enter__(self):
        first, second = self.servers
        first.start()
        second.arguments = [*second.arguments, "--replicaof", "127.0.0.1", str(first.port)]
        second.start()
        wait_until(lambda: second.fields("INFO", "replication").get("master_link_status") == "up", 20, "the replica")
        for index in range(3):
            name = f"sentinel-{index}"
            (self.folder / name).mkdir()
            # A sentinel writes what it learns into this file.
            (self.folder / name / "sentinel.conf").write_text(f"""\
requirepass {SENTINEL_PASSWORD}
sentinel sentinel-pass {SENTINEL_PASSWORD}
sentinel monitor {self.NAME} 127.0.0.1 {first.port} 2
sentinel auth-pass {self.NAME} {PASSWORD}
sentinel down-after-milliseconds {self.NAME} 600
sentinel failover-timeout {self.NAME} 3000
""")
            sentinel = GroupedRedis(
                self.folder / name, name, ["sentinel.conf", "--sentinel"], password=SENTINEL_PASSWORD)
            sentinel.start()
            self.sentinels.append(sentinel)
        wait_until(lambda: all(self.knows_all(sentinel) for sentinel in self.sentinels), 30, "the sentinels")
        return self

    def knows_all(self, sentinel):
        lines = sentinel.ask("SENTINEL", "MASTER", self.NAME).splitlines()
        known = dict(zip(lines[::2], lines[1::2]))
        return known.get("num-other-sentinels") == "2" and known.get("num-slaves") == "1"

    def __exit__(self, *_):
        for server in [*self.sentinels, *self.servers]:
            server.kill()

    @property
    def url(self):
        hosts = ",".join(f"127.0.0.1:{sentinel.port}" for sentinel in self.sentinels)
        return (f"redis+sentinel://:{ESCAPED_PASSWORD}@{hosts}/{self.NAME}"
                f"?sentinel_password={SENTINEL_PASSWORD}")

    def primary(self):
        """Returns the server that the first sentinel names as the primary, or None if it names neither server of the
        group."""
        lines = self.sentinels[0].ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", self.NAME).splitlines()
        return next((server for server in self.servers if [str(server.port)] == lines[1:]), None)


class Authority:
    """A certificate authority that writes PEM files into a folder."""

    def __init__(self, folder):
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Dwell's test authority")])
        self.certificate = self.sign(self.name, self.key.public_key(), x509.BasicConstraints(True, None), [])
        self.path = folder / "ca.pem"
        self.path.write_bytes(self.certificate.public_bytes(serialization.Encoding.PEM))

    def sign(self, subject, key, constraints, names):
        now = datetime.datetime.now(datetime.timezone.utc)
        day = datetime.timedelta(days=1)
        builder = x509.CertificateBuilder(
            issuer_name=self.name, subject_name=subject, public_key=key, serial_number=x509.random_serial_number(),
            not_valid_before=now - day, not_valid_after=now + day)
        builder = builder.add_extension(constraints, critical=True)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def issue(self, host):
        """Issues a certificate for `host`, which is an IP address or a name. Returns the paths of the certificate and
        its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        try:
            name = x509.IPAddress(ipaddress.ip_address(host))
        except ValueError:
            name = x509.DNSName(host)
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Redis")])
        certificate = self.sign(subject, key.public_key(), x509.BasicConstraints(False, None), [name])
        paths = self.folder / f"{host}.pem", self.folder / f"{host}.key"
        paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        paths[1].write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return paths


class TLSRedis(GroupedRedis):
    """A Redis that accepts only TLS connections. The client must have a certificate that `authority` has signed. A
    context manager."""

    def __init__(self, folder, authority, host, arguments=()):
        (folder / host).mkdir()
        self.authority = authority
        self.certificate, self.private_key = authority.issue(host)
        super().__init__(folder / host, host, [
            "--requirepass", PASSWORD, "--save", "", "--appendonly", "no", "--tls-ca-cert-file", str(authority.path),
            "--tls-cert-file", str(self.certificate), "--tls-key-file", str(self.private_key), *arguments])

    def start(self):
        with open(self.folder / f"{self.name}.log", "ab") as log:
            self.process = subprocess.Popen(
                ["redis-server", *self.arguments, "--bind", "127.0.0.1", "--port", "0", "--tls-port", str(self.port)],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        wait_until(self.answers, 20, f"the start of {self.name}")

    def address_options(self):
        return ["-p", str(self.port), "--tls", "--insecure", "--cert", str(self.certificate),
                "--key", str(self.private_key)]

    def url_over_tls(self, host="127.0.0.1", authority=None):
        path = (authority or self.authority).path
        return (f"rediss://:{ESCAPED_PASSWORD}@{host}:{self.port}?ca={path}&cert={self.certificate}"
                f"&key={self.private_key}")
