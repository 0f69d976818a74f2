// An append request, with everything that can be computed before the writer takes the request. On SQLite, all requests
// wait for the one writer, so the writer should compute as little as possible.

internal import Crypto
package import JourneyModel

/// This is a class because a struct with about ten texts would be copied about ten times on its way to the writer.
package final class PreparedAppend: Sendable {
    package let request: AppendRequest
    /// SHA-256 of the canonical form.
    package let digest: [UInt8]
    /// Whether the event is already on disk. If so, the request waits only for its response. The response is sent when
    /// the refold that the event caused is complete.
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

    /// Returns the outcome for the client when the request fails with `failure`. `unavailable` tells the client that
    /// the event is not stored. For an event that is stored, `unavailable` is therefore replaced by `unknown`.
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
    /// Returns whether this event is a repeat of a stored event although their digests differ. A client that rebuilds
    /// the body of a repeat may send another `app_state` or `schema_version` (contract, section 3). These two are
    /// therefore not compared.
    ///
    /// If the stored event has no details, the details are not compared either.
    ///
    /// - Parameters:
    ///   - appState, schemaVersion, hasDetails: values of the stored event.
    ///   - hasStoredDigest: returns whether a digest equals the digest of the stored event.
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
