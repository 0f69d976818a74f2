// Shared by handlers that read: a failing store is logged once and returned as a problem, and data about a person
// is not cached.

import Engine
import HTTP1
import HTTPServer
import Logging

extension Logger {
    /// Runs the read. If the store fails, this log gets the details, and the client gets the problem.
    ///
    /// - Throws: the problem for the client. A client that disconnected, which cancels the read, never receives it.
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

    /// Does nothing for a read that ended because its client disconnected: nothing failed.
    func storeFailed(_ failure: StoreFailure, _ request: Request) {
        if failure == .cancelled { return }
        error("store error", metadata: request.logged(["failure": "\(failure)"]))
    }
}

extension Response {
    /// A JSON document that no cache may store (RFC 9111, section 5.2.2.5).
    static func unkept(_ json: [UInt8], _ status: Status = .ok) -> Response {
        Response(
            status: status, fields: Fields([("Content-Type", "application/json"), ("Cache-Control", "no-store")]),
            body: .bytes(json))
    }
}
