// Shared by handlers that read the store: a failure is logged once and returned as a problem, and responses with data
// about a person are not cached.

import Engine
import HTTP1
import HTTPServer
import Logging

extension Logger {
    /// Runs the read. If the store fails, logs the details and throws the problem.
    ///
    /// - Throws: the problem for the client, also if the read was cancelled because the client disconnected. That
    ///   client never receives the problem.
    func reading<Value>(
        for request: Request, _ body: () async throws(StoreFailure) -> Value
    ) async throws(ProblemAnswer) -> Value {
        do throws(StoreFailure) {
            return try await body()
        } catch {
            storeFailed(error, request)
            throw ProblemAnswer(reading: error)
        }
    }

    /// Logs a failure, but not the end of a read whose client disconnected.
    func storeFailed(_ failure: StoreFailure, _ request: Request) {
        if failure == .cancelled { return }
        error("store error", metadata: request.logged(["failure": "\(failure)"]))
    }
}

extension Response {
    /// Returns a JSON document that no cache may store (RFC 9111, section 5.2.2.5).
    static func noStore(_ json: [UInt8], _ status: Status = .ok) -> Response {
        Response(
            status: status, fields: Fields([("Content-Type", "application/json"), ("Cache-Control", "no-store")]),
            body: .bytes(json))
    }
}
