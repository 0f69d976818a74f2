"""Signs data as Apple documents it for the App Store (App Store Server Notifications V2). This module is independent of
the server under test."""

import base64
import datetime
import itertools
import time
import uuid

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, utils

from apple_server import base64url, compact

BUNDLE_ID = "com.example.dwell"
APPLE_ID = 123456789
LEAF_OID = "1.2.840.113635.100.6.11.1"
INTERMEDIATE_OID = "1.2.840.113635.100.6.2.1"
MONTHLY, YEARLY, LIFETIME, COINS = (f"{BUNDLE_ID}.{name}" for name in ("monthly", "yearly", "lifetime", "coins"))
GROUP = "21000001"
DAY = 86_400_000
NUMBERS = itertools.count(int(time.time()) * 1000)


def now_ms():
    return int(time.time() * 1000)


def number():
    """Returns an id that no other transaction of this run has."""
    return str(next(NUMBERS))


class Authority:
    """A root, an intermediate and a leaf certificate, which are valid by default. Every argument except `ocsp_url` can
    make one property of a certificate wrong."""

    def __init__(self, leaf_oid=LEAF_OID, intermediate_oid=INTERMEDIATE_OID, leaf_days=(-400, 100),
                 intermediate_days=(-1000, 1000), forges_leaf=False, forges_intermediate=False,
                 intermediate_is_authority=True, ocsp_url=None):
        self.leaf_oid, self.intermediate_oid, self.ocsp_url = leaf_oid, intermediate_oid, ocsp_url
        self.root_key, stranger = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
        self.root = certificate("Test Root", self.root_key, "Test Root", self.root_key, (-3650, 3650), True)
        # Every leaf certificate with its issuer, for the OCSP responder.
        self.issued = []
        self.new_intermediate(stranger if forges_intermediate else self.root_key, intermediate_days, intermediate_is_authority)
        self.new_leaf(stranger if forges_leaf else self.intermediate_key, leaf_days)

    def new_intermediate(self, issuer_key=None, days=(-1000, 1000), is_authority=True):
        self.intermediate_key = ec.generate_private_key(ec.SECP384R1())
        self.intermediate = certificate(
            "Test Developer Relations", self.intermediate_key, "Test Root", issuer_key or self.root_key, days, is_authority,
            self.intermediate_oid)

    def new_leaf(self, issuer_key=None, days=(-400, 100)):
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.leaf = certificate("Test Receipt Signing", self.key, "Test Developer Relations",
                                issuer_key or self.intermediate_key, days, False, self.leaf_oid, self.ocsp_url)
        self.issued.append((self.leaf, self.intermediate, self.intermediate_key))

    @property
    def chain(self):
        return [self.leaf, self.intermediate, self.root]

    def root_pem(self):
        return self.root.public_bytes(serialization.Encoding.PEM)

    def sign(self, claims, chain=None, header=None, key=None):
        """Returns a compact JWS with ES256."""
        chain = [base64.b64encode(one.public_bytes(serialization.Encoding.DER)).decode() for one in chain or self.chain]
        head = {"alg": "ES256", "x5c": chain, **(header or {})}
        signed = base64url(compact(head)) + "." + base64url(compact(claims))
        der = (key or self.key).sign(signed.encode(), ec.ECDSA(hashes.SHA256()))
        r, s = utils.decode_dss_signature(der)
        return signed + "." + base64url(r.to_bytes(32, "big") + s.to_bytes(32, "big"))


def certificate(subject, key, issuer, issuer_key, days, is_authority, oid=None, ocsp_url=None):
    now = datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)

    def name(text):
        return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])

    builder = (
        x509.CertificateBuilder().subject_name(name(subject)).issuer_name(name(issuer)).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + datetime.timedelta(days=days[0])).not_valid_after(now + datetime.timedelta(days=days[1]))
        .add_extension(x509.BasicConstraints(is_authority, None), True)
        .add_extension(x509.KeyUsage(
            digital_signature=not is_authority, content_commitment=False, key_encipherment=False,
            data_encipherment=False, key_agreement=False, key_cert_sign=is_authority, crl_sign=is_authority,
            encipher_only=False, decipher_only=False), True))
    if oid:
        builder = builder.add_extension(x509.UnrecognizedExtension(x509.ObjectIdentifier(oid), b"\x05\x00"), False)
    if ocsp_url:
        builder = builder.add_extension(x509.AuthorityInformationAccess([x509.AccessDescription(
            x509.AuthorityInformationAccessOID.OCSP, x509.UniformResourceIdentifier(ocsp_url))]), False)
    return builder.sign(issuer_key, hashes.SHA384())


class AppStore:
    """A signer of transactions, renewals and notifications. `changes` replaces claims; None removes a claim."""

    def __init__(self, **authority):
        self.authority = Authority(**authority)

    def environment(self, folder):
        path = folder / "store-root.pem"
        path.write_bytes(self.authority.root_pem())
        return {"PURCHASE_APPS": f"{BUNDLE_ID}:{APPLE_ID}", "PURCHASE_ROOT_CERTIFICATE_FILE": str(path)}

    def transaction_claims(self, **changes):
        """Returns the claims of the first month of a subscription that began an hour ago."""
        begin = changes.get("purchaseDate") or now_ms() - 3_600_000
        id = changes.get("transactionId") or number()
        claims = {
            "transactionId": id, "originalTransactionId": id, "webOrderLineItemId": number(),
            "bundleId": BUNDLE_ID, "productId": MONTHLY, "subscriptionGroupIdentifier": GROUP,
            "purchaseDate": begin, "originalPurchaseDate": begin, "expiresDate": begin + 30 * DAY, "quantity": 1,
            "type": "Auto-Renewable Subscription", "inAppOwnershipType": "PURCHASED", "signedDate": now_ms(),
            "environment": "Production", "transactionReason": "PURCHASE", "storefront": "DEU",
            "storefrontId": "143443", "price": 4990, "currency": "EUR", "appTransactionId": number(), **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def transaction(self, **changes):
        return self.authority.sign(self.transaction_claims(**changes))

    def product(self, product, kind="Non-Consumable", **changes):
        """Returns a signed purchase that does not renew."""
        return self.transaction(**{"productId": product, "type": kind, "subscriptionGroupIdentifier": None,
                                   "expiresDate": None, **changes})

    def renewal(self, original, **changes):
        claims = {
            "originalTransactionId": original, "autoRenewProductId": MONTHLY, "productId": MONTHLY,
            "autoRenewStatus": 1, "renewalPrice": 4990, "currency": "EUR", "signedDate": now_ms(),
            "environment": "Production", "recentSubscriptionStartDate": now_ms() - 30 * DAY,
            "renewalDate": now_ms() + 30 * DAY, **changes}
        return self.authority.sign({name: value for name, value in claims.items() if value is not None})

    def notification(self, kind, subtype=None, transaction=None, renewal=None, data=None, **changes):
        """Returns a signed notification. `transaction` and `renewal` are already signed."""
        data = {"appAppleId": APPLE_ID, "bundleId": BUNDLE_ID, "bundleVersion": "7", "environment": "Production",
                "signedTransactionInfo": transaction, "signedRenewalInfo": renewal, "status": 1, **(data or {})}
        claims = {"notificationType": kind, "subtype": subtype, "notificationUUID": str(uuid.uuid4()),
                  "data": {name: value for name, value in data.items() if value is not None}, "version": "2.0",
                  "signedDate": now_ms(), **changes}
        return self.authority.sign({name: value for name, value in claims.items() if value is not None})
