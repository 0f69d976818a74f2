// An append request and its digest, which is computed before the writer takes the request. On SQLite, all requests wait
// for the one writer, so the writer should compute as little as possible.

internal import Crypto
package import JourneyModel

/// An append request and its digest. This is a class, because a struct with about ten texts would be copied about ten
/// times before it reaches the writer.
package final class PreparedAppend: Sendable {
    package let request: AppendRequest
    /// SHA-256 of the canonical form.
    package let digest: [UInt8]
    /// Whether the event is already on disk. If so, the response is sent as soon as the refold that the event caused is
    /// complete.
    package let isStored: Bool

    package init(_ request: consuming AppendRequest) {
        digest = Self.digest(of: request.submission)
        self.request = request
        isStored = false
    }

    private init(stored append: PreparedAppend) {
        request = append.request
        digest = append.digest
        isStored = true
    }

    package func stored() -> PreparedAppend { PreparedAppend(stored: self) }

    /// Returns the outcome that the client gets for `failure`. If the event is already stored, `unavailable` becomes
    /// `unknown`, because `unavailable` tells the client that the event is not stored.
    package func outcome(of failure: StoreFailure) -> EventOutcome {
        if isStored, case .unavailable(let reason) = failure { return .failed(.unknown(reason)) }
        return .failed(failure)
    }

    package static func digest(of submission: EventSubmission) -> [UInt8] {
        digest(of: submission.canonicalForm)
    }

    fileprivate static func digest(of canonicalForm: [UInt8]) -> [UInt8] {
        canonicalForm.withUnsafeBytes { SHA256.hash(data: $0).withUnsafeBytes(Array.init) }
    }
}

extension EventSubmission {
    /// Returns whether this event repeats a stored event that has another digest. A client may rebuild the body with
    /// another `app_state` or `schema_version` (contract, section 3), so this method does not compare these two
    /// members.
    ///
    /// The details are compared only if the stored event has details.
    ///
    /// - Parameters:
    ///   - appState, schemaVersion, hasDetails: values of the stored event.
    ///   - hasStoredDigest: returns whether a digest equals the stored event's digest.
    package func isRepeat(
        withStoredAppState appState: String?, schemaVersion: String, hasDetails: Bool,
        hasStoredDigest: ([UInt8]) -> Bool
    ) -> Bool {
        guard
            self.appState != appState || self.schemaVersion != schemaVersion || !hasDetails && details != nil,
            let form = canonicalForm(appState: appState, schemaVersion: schemaVersion, hasDetails: hasDetails)
        else { return false }
        return hasStoredDigest(PreparedAppend.digest(of: form))
    }
}
