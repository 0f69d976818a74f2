// Reads arbitrary bytes as an OCSP response (RFC 6960) about the leaf of a chain. No response may revoke the leaf,
// because the keys that could sign a response are deleted.
//
// The chain is verified only once for all inputs, so that most of the time is spent on checking the responses.

import Foundation
import SwiftASN1
import Synchronization
import X509

func fuzzStoreCertificateStatus(_ input: [UInt8]) async throws(Finding) {
    guard let chain = await VerifiedChain.shared.chain() else { throw Finding("The genuine chain is rejected.") }
    // The policy is configured as in the server. It rejects the chain only if a valid response says that the leaf is
    // revoked.
    var policy = OCSPVerifierPolicy(failureMode: .soft, requester: FixedResponse(bytes: input))
    guard case .meetsPolicy = await policy.chainMeetsPolicyRequirements(chain: chain) else {
        throw Finding("A response that nobody signed revokes the certificate.")
    }
}

private struct FixedResponse: OCSPRequester {
    var bytes: [UInt8]

    func query(request: [UInt8], uri: String) async -> OCSPRequesterQueryResult { .response(bytes) }
}

/// Holds the genuine chain in the type that policies take (`UnverifiedCertificateChain`). Only a verifier can create a
/// value of that type.
private final class VerifiedChain: Sendable {
    static let shared = VerifiedChain()
    private let known = Mutex<UnverifiedCertificateChain?>(nil)

    func chain() async -> UnverifiedCertificateChain? {
        if let known = known.withLock({ $0 }) { return known }
        let certificates = FuzzAuthority.chain.compactMap { try? Certificate(derEncoded: $0) }
        guard certificates.count == 3 else { return nil }
        var verifier = Verifier(rootCertificates: CertificateStore([certificates[2]])) {
            RFC5280Policy()
            Capture(into: self)
        }
        _ = await verifier.validate(leaf: certificates[0], intermediates: CertificateStore([certificates[1]]))
        return known.withLock { $0 }
    }

    private struct Capture: VerifierPolicy {
        let verifyingCriticalExtensions: [ASN1ObjectIdentifier] = []
        let owner: VerifiedChain

        init(into owner: VerifiedChain) {
            self.owner = owner
        }

        func chainMeetsPolicyRequirements(chain: UnverifiedCertificateChain) async -> PolicyEvaluationResult {
            owner.known.withLock { $0 = chain }
            return .meetsPolicy
        }
    }
}
