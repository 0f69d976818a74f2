"""An OCSP responder on loopback (RFC 6960) for the certificates of app_store.py. It says good or revoked, lies, or goes away.
Knows nothing of the server under test."""

import datetime
import http.server

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509 import ocsp

from loopback import LoopbackServer


class OCSPResponder(LoopbackServer):
    """`says`: good, revoked, forged (revoked, with a wrong signature) or nonsense."""

    def __init__(self):
        super().__init__(Handler)
        self.authority = None
        self.says = "good"
        self.requests = 0

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/ocsp"

    def response(self):
        if self.says == "nonsense":
            return b"<html>"
        now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None, microsecond=0)
        is_revoked = self.says in ("revoked", "forged")
        builder = ocsp.OCSPResponseBuilder().add_response(
            cert=self.authority.leaf, issuer=self.authority.intermediate, algorithm=hashes.SHA1(),
            cert_status=ocsp.OCSPCertStatus.REVOKED if is_revoked else ocsp.OCSPCertStatus.GOOD,
            this_update=now - datetime.timedelta(minutes=1), next_update=now + datetime.timedelta(hours=1),
            revocation_time=now - datetime.timedelta(days=1) if is_revoked else None, revocation_reason=None,
        ).responder_id(ocsp.OCSPResponderEncoding.NAME, self.authority.intermediate)
        response = builder.sign(self.authority.intermediate_key, hashes.SHA384()).public_bytes(serialization.Encoding.DER)
        return response[:-1] + bytes([response[-1] ^ 1]) if self.says == "forged" else response


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def do_POST(self):
        request = ocsp.load_der_ocsp_request(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        assert request.serial_number == self.owner.authority.leaf.serial_number, request
        self.owner.requests += 1
        body = self.owner.response()
        self.send_response(200)
        self.send_header("Content-Type", "application/ocsp-response")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
