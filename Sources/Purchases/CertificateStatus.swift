// Asks Apple's OCSP responder (RFC 6960) whether Apple revoked the certificates that signed stored transactions and
// renewals. A task checks each leaf and its intermediate once a day. Data signed by a revoked leaf no longer counts.
//
// A leaf counts as revoked only if a valid response says so. If no response arrives, the next pass repeats the request.
// After a response with a wrong signature, the certificate counts as checked and not revoked.

package import Foundation
package import JourneyModel
import SwiftASN1
import Synchronization
@_spi(FixedExpiryValidationTime) import X509

/// A certificate chain whose leaf signed stored transactions or renewals, and the chain's latest revocation check.
package struct PurchaseSigner: Hashable, Sendable {
    package var id: Int64
    /// The JWS header in base64url.
    package var header: String
    package var checkedAt: Moment?
    package var isRevoked: Bool

    package init(id: Int64, header: String, checkedAt: Moment?, isRevoked: Bool) {
        self.id = id
        self.header = header
        self.checkedAt = checkedAt
        self.isRevoked = isRevoked
    }
}

package struct CertificateStatus: Sendable {
    package static let intervalSeconds = 86_400
    /// Seconds between two reads of the stored signers. If one process finds a revoked leaf, the other processes on the
    /// same database begin within this time to reject data signed by this leaf.
    static let pauseSeconds = 600

    package enum Finding: Hashable, Sendable {
        /// Responses arrived for the leaf and for the intermediate. No valid response says that one of these
        /// certificates is revoked.
        case good
        case revoked
        /// The leaf or the intermediate has no successful response, or the stored header has no valid chain.
        case unknown
    }

    private let signers: @Sendable () async throws -> [PurchaseSigner]
    private let record: @Sendable (_ signer: Int64, _ isRevoked: Bool, Moment) async throws -> Void
    private let query: @Sendable (_ request: [UInt8], URL) async -> [UInt8]?
    private let chain: CertificateChain
    private let clock: @Sendable () -> Moment
    private let report: @Sendable (Finding) -> Void

    /// - Parameter query: posts a DER request to a responder. Returns nil if there is no response with status 200 in
    ///   time.
    package init(
        signers: @escaping @Sendable () async throws -> [PurchaseSigner],
        record: @escaping @Sendable (_ signer: Int64, _ isRevoked: Bool, Moment) async throws -> Void,
        query: @escaping @Sendable (_ request: [UInt8], URL) async -> [UInt8]?, chain: CertificateChain,
        clock: @escaping @Sendable () -> Moment, report: @escaping @Sendable (Finding) -> Void
    ) {
        self.signers = signers
        self.record = record
        self.query = query
        self.chain = chain
        self.clock = clock
        self.report = report
    }

    /// Runs until the task is cancelled.
    package func run() async {
        while !Task.isCancelled {
            await check()
            do { try await Task.sleep(for: .seconds(Self.pauseSeconds)) } catch { return }
        }
    }

    /// Reads all stored signers once. First makes `chain` reject the leaves with a recorded revocation, which needs no
    /// OCSP request. Then checks the signers that are due.
    func check() async {
        guard let signers = try? await signers() else { return }
        for signer in signers where signer.isRevoked {
            if let certificates = SignedPayload.certificates(inHeader: signer.header) { chain.revoke(certificates) }
        }
        for signer in signers where !signer.isRevoked {
            guard let certificates = SignedPayload.certificates(inHeader: signer.header) else { continue }
            let now = clock()
            // If the clock was set back after the last check, the stored time of this check is in the future. Such a
            // time is ignored, because otherwise the certificate would not be checked again until then.
            if let checked = signer.checkedAt, checked <= now,
                now < checked.advanced(bySeconds: Self.intervalSeconds)
            {
                continue
            }
            let finding = await finding(certificates)
            report(finding)
            guard finding != .unknown else { continue }
            if finding == .revoked { chain.revoke(certificates) }
            try? await record(signer.id, finding == .revoked, now)
        }
    }

    func finding(_ certificates: [[UInt8]]) async -> Finding {
        let parsed = certificates.compactMap { try? Certificate(derEncoded: $0) }
        guard parsed.count == CertificateChain.certificateCount else { return .unknown }
        let requester = Requester(query: query)
        // The chain is validated for the first moment at which all three certificates are valid. At the current time,
        // the leaf may have expired.
        let time = parsed.map(\.notValidBefore).max() ?? Date()
        var verifier = Verifier(rootCertificates: CertificateStore([parsed[2]])) {
            RFC5280Policy(fixedExpiryValidationTime: time)
            // This policy fails only if a valid response says that the leaf or the intermediate is revoked.
            OCSPVerifierPolicy(failureMode: .soft, requester: requester)
        }
        let result = await verifier.validate(leaf: parsed[0], intermediates: CertificateStore([parsed[1]]))
        if case .validCertificate = result { return requester.hasAllResponses ? .good : .unknown }
        return requester.hasResponse ? .revoked : .unknown
    }
}

private final class Requester: OCSPRequester {
    private struct NoResponse: Error {}

    private struct Counts {
        var requests = 0
        var responses = 0
    }

    private let query: @Sendable (_ request: [UInt8], URL) async -> [UInt8]?
    private let counts = Mutex(Counts())

    var hasResponse: Bool { counts.withLock { $0.responses > 0 } }
    /// Whether there was a request, and each request got a response.
    var hasAllResponses: Bool { counts.withLock { $0.responses > 0 && $0.responses == $0.requests } }

    init(query: @escaping @Sendable (_ request: [UInt8], URL) async -> [UInt8]?) {
        self.query = query
    }

    func query(request: [UInt8], uri: String) async -> OCSPRequesterQueryResult {
        counts.withLock { $0.requests += 1 }
        guard let url = URL(string: uri), ["http", "https"].contains(url.scheme?.lowercased()),
            let response = await query(request, url), Self.isSuccessful(response)
        else { return .nonTerminalError(NoResponse()) }
        counts.withLock { $0.responses += 1 }
        return .response(response)
    }

    /// Returns whether the bytes are an OCSPResponse with the status `successful` (RFC 6960, section 4.2.1). Other
    /// statuses, such as `tryLater`, say nothing about the certificate. A proxy's error page says nothing either.
    private static func isSuccessful(_ response: [UInt8]) -> Bool {
        guard let root = try? DER.parse(response), root.identifier == .sequence,
            case .constructed(let members) = root.content, let status = members.first(where: { _ in true }),
            status.identifier == .enumerated, case .primitive(let value) = status.content
        else { return false }
        return value.elementsEqual([0])
    }
}
