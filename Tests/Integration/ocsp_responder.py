"""An OCSP responder (RFC 6960) on loopback for the certificates of app_store.py. It returns the status good or revoked,
returns a wrong response, or stops. This module is independent of the server under test."""

import datetime
import http.server

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509 import ocsp

from loopback import LoopbackServer


class OCSPResponder(LoopbackServer):
    """`says` selects the response: good, revoked, forged (revoked, with a wrong signature) or nonsense. A leaf
    certificate with its serial number in `revoked` is revoked even if `says` is good.

    The responder signs with the issuer's key. After `new_key`, it signs with its own key, and has a certificate of the
    issuer for this purpose (RFC 6960, section 4.2.2.2)."""

    def __init__(self):
        super().__init__(Handler)
        self.authority = None
        self.says = "good"
        self.requests = 0
        self.revoked = set()
        self.key = None

    def new_key(self):
        self.key = ec.generate_private_key(ec.SECP256R1())

    def certificate(self, issuer, issuer_key):
        now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)
        name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Test Responder {self.requests}")])
        return (
            x509.CertificateBuilder().subject_name(name).issuer_name(issuer.subject).public_key(self.key.public_key())
            .serial_number(x509.random_serial_number()).not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=30))
            .add_extension(x509.BasicConstraints(False, None), True)
            .add_extension(x509.ExtendedKeyUsage([x509.ExtendedKeyUsageOID.OCSP_SIGNING]), False)
            .sign(issuer_key, hashes.SHA384()))

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}/ocsp"

    def response(self, serial):
        if self.says == "nonsense":
            return b"<html>"
        leaf, issuer, issuer_key = next(one for one in self.authority.issued if one[0].serial_number == serial)
        now = datetime.datetime.now(datetime.timezone.utc).replace(tzinfo=None, microsecond=0)
        is_revoked = self.says in ("revoked", "forged") or serial in self.revoked
        builder = ocsp.OCSPResponseBuilder().add_response(
            cert=leaf, issuer=issuer, algorithm=hashes.SHA1(),
            cert_status=ocsp.OCSPCertStatus.REVOKED if is_revoked else ocsp.OCSPCertStatus.GOOD,
            this_update=now - datetime.timedelta(minutes=1), next_update=now + datetime.timedelta(hours=1),
            revocation_time=now - datetime.timedelta(days=1) if is_revoked else None, revocation_reason=None)
        signer = self.certificate(issuer, issuer_key) if self.key else issuer
        if self.key:
            builder = builder.certificates([signer])
        builder = builder.responder_id(ocsp.OCSPResponderEncoding.NAME, signer)
        response = builder.sign(self.key or issuer_key, hashes.SHA384()).public_bytes(serialization.Encoding.DER)
        return response[:-1] + bytes([response[-1] ^ 1]) if self.says == "forged" else response


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    owner = None

    def do_POST(self):
        request = ocsp.load_der_ocsp_request(self.rfile.read(int(self.headers.get("Content-Length", "0"))))
        self.owner.requests += 1
        body = self.owner.response(request.serial_number)
        self.send_response(200)
        self.send_header("Content-Type", "application/ocsp-response")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass
