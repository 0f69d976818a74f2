// A certificate authority like Apple's, generated for one test: a root, and an intermediate and a leaf with their
// marker extensions. A test may break some properties of these certificates (`Flaws`). The leaf's key signs the JWS.

import Crypto
import Foundation
import Identity
import JourneyModel
import SwiftASN1
import X509

@testable import Purchases

/// 2026-11-01T00:00:00Z.
let start = Moment(millisecondsSinceEpoch: 1_793_491_200_000)

struct TestAuthority: Sendable {
    static let leafMarker: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 11, 1]
    static let intermediateMarker: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 2, 1]
    static let appleBundleID = "com.example.dwell"
    static let appleID: Int64 = 123_456_789

    /// Properties that a test may break. With the defaults, the chain is valid.
    struct Flaws: Sendable {
        var leafMarker: ASN1ObjectIdentifier? = TestAuthority.leafMarker
        var intermediateMarker: ASN1ObjectIdentifier? = TestAuthority.intermediateMarker
        /// The validity of each certificate, in days from `start`.
        var rootDays = -3650...3650
        var intermediateDays = -1000...1000
        var leafDays = -100...100
        var intermediateIsAuthority = true
        /// Whether the certificate is signed with another key than that of its issuer.
        var forgesLeaf = false
        var forgesIntermediate = false
        var hasP384Leaf = false
        var leafHasUnknownCriticalExtension = false
    }

    let root: [UInt8]
    let intermediate: [UInt8]
    let leaf: [UInt8]
    let leafKey = P256.Signing.PrivateKey()

    var chain: [[UInt8]] { [leaf, intermediate, root] }

    init(_ flaws: Flaws = Flaws(), name: String = "Test Root") throws {
        // Apple's root and intermediate have P-384 keys.
        let (rootKey, intermediateKey, stranger) = (
            P384.Signing.PrivateKey(), P384.Signing.PrivateKey(), P384.Signing.PrivateKey()
        )
        let rootName = try DistinguishedName { CommonName(name) }
        let intermediateName = try DistinguishedName { CommonName("Test Worldwide Developer Relations") }
        let leafName = try DistinguishedName { CommonName("Test App Store Receipt Signing") }
        let authority = try Certificate.Extensions {
            Critical(BasicConstraints.isCertificateAuthority(maxPathLength: nil))
            Critical(KeyUsage(keyCertSign: true, cRLSign: true))
        }
        var intermediateExtensions = try Certificate.Extensions {
            if flaws.intermediateIsAuthority {
                Critical(BasicConstraints.isCertificateAuthority(maxPathLength: 0))
            } else {
                Critical(BasicConstraints.notCertificateAuthority)
            }
            Critical(KeyUsage(keyCertSign: true, cRLSign: true))
        }
        if let marker = flaws.intermediateMarker { try intermediateExtensions.append(Self.marker(marker)) }
        var leafExtensions = try Certificate.Extensions {
            Critical(BasicConstraints.notCertificateAuthority)
            Critical(KeyUsage(digitalSignature: true))
        }
        if let marker = flaws.leafMarker { try leafExtensions.append(Self.marker(marker)) }
        if flaws.leafHasUnknownCriticalExtension {
            try leafExtensions.append(Certificate.Extension(oid: [1, 2, 3, 4], critical: true, value: [5, 0]))
        }
        let leafPublicKey =
            flaws.hasP384Leaf ? Certificate.PublicKey(stranger.publicKey) : Certificate.PublicKey(leafKey.publicKey)

        root = try Self.certificate(
            rootName, Certificate.PublicKey(rootKey.publicKey), flaws.rootDays, authority, by: rootName, rootKey)
        intermediate = try Self.certificate(
            intermediateName, Certificate.PublicKey(intermediateKey.publicKey), flaws.intermediateDays,
            intermediateExtensions, by: rootName, flaws.forgesIntermediate ? stranger : rootKey)
        leaf = try Self.certificate(
            leafName, leafPublicKey, flaws.leafDays, leafExtensions, by: intermediateName,
            flaws.forgesLeaf ? stranger : intermediateKey)
    }

    private static func marker(_ oid: ASN1ObjectIdentifier) -> Certificate.Extension {
        Certificate.Extension(oid: oid, critical: false, value: [5, 0])
    }

    private static func certificate(
        _ subject: DistinguishedName, _ key: Certificate.PublicKey, _ days: ClosedRange<Int>,
        _ extensions: Certificate.Extensions, by issuer: DistinguishedName, _ issuerKey: P384.Signing.PrivateKey
    ) throws -> [UInt8] {
        func date(_ day: Int) -> Date {
            Date(timeIntervalSince1970: Double(start.millisecondsSinceEpoch / 1000) + Double(day) * 86_400)
        }
        let certificate = try Certificate(
            version: .v3, serialNumber: Certificate.SerialNumber(), publicKey: key,
            notValidBefore: date(days.lowerBound), notValidAfter: date(days.upperBound), issuer: issuer,
            subject: subject, extensions: extensions, issuerPrivateKey: Certificate.PrivateKey(issuerKey))
        var serializer = DER.Serializer()
        try serializer.serialize(certificate)
        return serializer.serializedBytes
    }

    // MARK: Signed data

    /// Returns a JWS of `claims` with Apple's header. If `chain` or `key` is nil, uses this authority's chain or the
    /// leaf's key.
    func token(
        _ claims: [String: any Sendable], algorithm: String = "ES256", chain: [[UInt8]]? = nil,
        key: P256.Signing.PrivateKey? = nil
    ) throws -> String {
        let chain = (chain ?? self.chain).map { Data($0).base64EncodedString() }
        return try token(claims, header: ["alg": algorithm, "x5c": chain], key: key)
    }

    func token(
        _ claims: [String: any Sendable], header: [String: any Sendable], key: P256.Signing.PrivateKey? = nil
    ) throws -> String {
        func part(_ json: [String: any Sendable]) throws -> String {
            Base64URL.text(of: try JSONSerialization.data(withJSONObject: json, options: .sortedKeys))
        }
        let input = try part(header) + "." + part(claims)
        let signature = try (key ?? leafKey).signature(for: Data(input.utf8)).rawRepresentation
        return input + "." + Base64URL.text(of: signature)
    }

    func verifier(
        apps: [AppStoreApp] = [AppStoreApp(bundleID: appleBundleID, appleID: appleID)], acceptsXcode: Bool = false
    ) -> AppStoreVerifier {
        AppStoreVerifier(
            apps: apps, environments: acceptsXcode ? Set(AppStoreEnvironment.allCases) : [.production, .sandbox],
            chain: CertificateChain(roots: [root]))
    }

    /// Signs and verifies a notification. Returns the reason of the rejection, or nil if the notification is accepted.
    func notificationRefusal(
        _ claims: [String: any Sendable], _ verifier: AppStoreVerifier? = nil
    ) async throws -> PurchaseRefusal? {
        let token = try token(claims)
        do throws(PurchaseRefusal) {
            _ = try await (verifier ?? self.verifier()).notification(token, now: start)
            return nil
        } catch { return error }
    }
}

/// Returns the claims of a production transaction. `changes` replaces members; nil removes a member.
func transactionClaims(_ changes: [String: (any Sendable)?] = [:]) -> [String: any Sendable] {
    changed(
        [
            "transactionId": "2000000000000001", "originalTransactionId": "2000000000000001",
            "webOrderLineItemId": "2000000000000002", "bundleId": TestAuthority.appleBundleID,
            "productId": "com.example.dwell.monthly", "subscriptionGroupIdentifier": "20000001",
            "purchaseDate": start.millisecondsSinceEpoch, "originalPurchaseDate": start.millisecondsSinceEpoch,
            "expiresDate": start.advanced(bySeconds: 30 * 86_400).millisecondsSinceEpoch, "quantity": 1,
            "type": "Auto-Renewable Subscription", "inAppOwnershipType": "PURCHASED",
            "appAccountToken": "A1B2C3D4-0000-4000-8000-00000000000F",
            "signedDate": start.millisecondsSinceEpoch, "environment": "Production", "transactionReason": "PURCHASE",
            "storefront": "USA", "storefrontId": "143441", "price": 9990, "currency": "USD",
            "appTransactionId": "70000000000000001",
        ], changes)
}

func renewalClaims(_ changes: [String: (any Sendable)?] = [:]) -> [String: any Sendable] {
    changed(
        [
            "originalTransactionId": "2000000000000001", "productId": "com.example.dwell.monthly",
            "autoRenewProductId": "com.example.dwell.monthly", "autoRenewStatus": 1,
            "signedDate": start.millisecondsSinceEpoch, "environment": "Production",
            "recentSubscriptionStartDate": start.millisecondsSinceEpoch,
            "renewalDate": start.advanced(bySeconds: 30 * 86_400).millisecondsSinceEpoch,
        ], changes)
}

func notificationClaims(
    _ changes: [String: (any Sendable)?] = [:], data: [String: (any Sendable)?] = [:]
) -> [String: any Sendable] {
    let data = changed(
        [
            "appAppleId": TestAuthority.appleID, "bundleId": TestAuthority.appleBundleID, "bundleVersion": "1",
            "environment": "Production", "status": 1,
        ], data)
    return changed(
        [
            "notificationType": "SUBSCRIBED", "subtype": "INITIAL_BUY", "version": "2.0",
            "notificationUUID": "002E14D5-51F5-4503-B5A8-C3A1AF68EB20",
            "signedDate": start.millisecondsSinceEpoch, "data": data,
        ], changes)
}

private func changed(
    _ claims: [String: any Sendable], _ changes: [String: (any Sendable)?]
) -> [String: any Sendable] {
    var claims = claims
    for (name, value) in changes { claims[name] = value }
    return claims
}
