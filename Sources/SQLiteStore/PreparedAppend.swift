// An append with all that can be computed before it is the writer's turn, since the writer is the one thing that
// all requests wait for.

import Crypto
import Engine
import JourneyModel

/// A class, because it changes hands some ten times on its way and has as many texts.
final class PreparedAppend: Sendable {
    let request: AppendRequest
    /// SHA-256 of the canonical form.
    let digest: [UInt8]

    init(_ request: AppendRequest) {
        self.request = request
        digest = Self.digest(of: request.submission)
    }

    static func digest(of submission: EventSubmission) -> [UInt8] {
        submission.canonicalForm.withUnsafeBytes { SHA256.hash(data: $0).withUnsafeBytes(Array.init) }
    }
}
