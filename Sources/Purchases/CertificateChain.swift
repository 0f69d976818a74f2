// Checks the three certificates of an `x5c` header (RFC 7515, section 4.1.6). All three must be Apple's and must have
// been valid at a given time. Their purpose must be to sign App Store data.
//
// The library (swift-certificates) builds and validates the chain. This file checks the number and order of the
// certificates, the bytes of the root, Apple's two marker extensions, and the leaf's key.

internal import Caching
package import Crypto
import Foundation
import Identity
package import JourneyModel
import SwiftASN1
internal import Synchronization
@_spi(FixedExpiryValidationTime) import X509

package final class CertificateChain: Sendable {
    /// The leaf, the intermediate and the root.
    static let certificateCount = 3
    /// Maximum bytes of each certificate, checked before parsing. Apple's certificates have at most 1.1 KB.
    static let certificateBytesMax = 4096
    /// Maximum number of cached chains. Apple uses few leaf certificates at a time. Only valid chains are cached, so
    /// clients cannot fill the cache.
    private static let cachedChainsMax = 32

    private struct TrustedLeaf: Sendable {
        var key: P256.Signing.PublicKey
        /// The period in which all three certificates are valid, in seconds since 1970. Both ends are included.
        var validity: ClosedRange<Int64>
    }

    /// The key of a chain in the cache. Two keys are equal if all bytes of the chains are equal.
    ///
    /// The hash uses only the last 16 bytes of each certificate, which are part of its signature and differ between
    /// certificates. Hashing the whole chain (3 kB) would take a tenth of the time that a notification takes.
    private struct ChainKey: Hashable, Sendable {
        var chain: [[UInt8]]

        func hash(into hasher: inout Hasher) {
            for certificate in chain {
                certificate.withUnsafeBytes { hasher.combine(bytes: UnsafeRawBufferPointer(rebasing: $0.suffix(16))) }
            }
        }
    }

    /// The accepted root certificates, in DER.
    private let roots: [[UInt8]]
    /// The leaf certificates that Apple revoked, in DER. The set is small, because only the certificates that signed
    /// stored facts are checked for revocation.
    private let revoked = Mutex<Set<[UInt8]>>([])
    private let cache = Mutex(TwoGenerationCache<ChainKey, TrustedLeaf>(generationCountMax: cachedChainsMax / 2))

    /// - Parameter roots: the accepted root certificates, in DER. Only tests use a root other than Apple's.
    package init(roots: [[UInt8]] = [AppleRootCertificate.g3]) {
        self.roots = roots
    }

    /// Returns the public key of the leaf if the chain was valid at `time`, the time of the signature. The leaf may
    /// have expired since then. `chain` contains the certificates in DER, the leaf first.
    package func leafKey(of chain: [[UInt8]], at time: Moment) async throws(PurchaseRefusal) -> P256.Signing.PublicKey {
        guard chain.count == Self.certificateCount, chain.allSatisfy({ $0.count <= Self.certificateBytesMax }) else {
            throw .wrongChain
        }
        // This check is the cheapest one, so it is the first.
        guard roots.contains(chain[2]) else { throw .untrustedRoot }
        guard !isRevoked(chain) else { throw .revokedCertificate }
        let second = time.secondsSinceEpoch
        let leaf: TrustedLeaf
        let key = ChainKey(chain: chain)
        if let known = cache.withLock({ $0.find(key) }) {
            leaf = known
            guard leaf.validity.contains(second) else { throw .expiredCertificate }
        } else {
            leaf = try await Self.verify(chain, atSecond: second)
            cache.withLock { $0.insert(leaf, for: key) }
        }
        return leaf.key
    }

    /// Rejects all data signed by this chain's leaf, from now on.
    func revoke(_ chain: [[UInt8]]) {
        guard let leaf = chain.first else { return }
        revoked.withLock { _ = $0.insert(leaf) }
    }

    func isRevoked(_ chain: [[UInt8]]) -> Bool {
        guard let leaf = chain.first else { return false }
        return revoked.withLock { $0.contains(leaf) }
    }

    private static func verify(
        _ chain: [[UInt8]], atSecond second: Int64
    ) async throws(PurchaseRefusal) -> TrustedLeaf {
        let certificates = chain.compactMap { try? Certificate(derEncoded: $0) }
        guard certificates.count == certificateCount else { throw .wrongChain }
        let (leaf, intermediate, root) = (certificates[0], certificates[1], certificates[2])
        guard leaf.extensions[oid: AppleMarkers.leaf] != nil,
            intermediate.extensions[oid: AppleMarkers.intermediate] != nil
        else { throw .missingMarker }

        let first = certificates.map { $0.notValidBefore.secondsSinceEpoch }.max() ?? .max
        let last = certificates.map { $0.notValidAfter.secondsSinceEpoch }.min() ?? .min
        guard first <= last, (first...last).contains(second) else { throw .expiredCertificate }

        var verifier = Verifier(rootCertificates: CertificateStore([root])) {
            RFC5280Policy(fixedExpiryValidationTime: Date(timeIntervalSince1970: Double(second)))
            AppleMarkers()
        }
        guard
            case .validCertificate(let valid) = await verifier.validate(
                leaf: leaf, intermediates: CertificateStore([intermediate])),
            // The library may have found a shorter path from the leaf to the root. Only a path over all three
            // certificates is accepted.
            Array(valid) == certificates, let key = P256.Signing.PublicKey(leaf.publicKey)
        else { throw .wrongCertificate }
        return TrustedLeaf(key: key, validity: first...last)
    }
}

/// The extensions by which Apple marks the purpose of a certificate. Certificates of developers may have the same root.
/// Without a check of the extensions, data signed by a developer would be accepted.
private struct AppleMarkers: VerifierPolicy {
    /// The extension of the leaf: "Mac App Store Receipt Signing". Apple also uses it for App Store server data.
    static let leaf: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 11, 1]
    /// The extension of the intermediate: "Apple Worldwide Developer Relations".
    static let intermediate: ASN1ObjectIdentifier = [1, 2, 840, 113635, 100, 6, 2, 1]

    /// The extensions that this policy handles. Without this list, the library would reject a certificate in which
    /// Apple marked one of these extensions as critical.
    let verifyingCriticalExtensions = [leaf, intermediate]

    /// Accepts every chain, because `CertificateChain.verify` has already checked both extensions (`missingMarker`).
    func chainMeetsPolicyRequirements(chain: UnverifiedCertificateChain) -> PolicyEvaluationResult { .meetsPolicy }
}

extension Moment {
    /// The time in whole seconds since 1970, rounded down.
    fileprivate var secondsSinceEpoch: Int64 {
        millisecondsSinceEpoch / 1000 - (millisecondsSinceEpoch % 1000 < 0 ? 1 : 0)
    }
}

extension Date {
    /// The time in seconds since 1970. The conversion loses nothing, because X.509 times have whole seconds and years
    /// of four digits.
    fileprivate var secondsSinceEpoch: Int64 {
        Int64(timeIntervalSince1970.clamped(to: -1e12...1e12))
    }
}

extension Double {
    fileprivate func clamped(to range: ClosedRange<Double>) -> Double {
        isNaN ? range.lowerBound : min(max(self, range.lowerBound), range.upperBound)
    }
}
