// What handlers that read have in common: a store that fails is logged once and told as a problem, and what was read
// about a person is kept by nobody in between.

import Engine
import HTTP1
import HTTPServer
import Logging

extension Logger {
    /// Runs the read. When the store fails, what it said goes to this log, and the client is told what it may hear.
    ///
    /// - Throws: the problem for the client; nobody is left to read it when the store was given up by its client.
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

    /// Not for a read that ended because its client went away: nothing failed.
    func storeFailed(_ failure: StoreFailure, _ request: Request) {
        if failure == .cancelled { return }
        error("the store failed", metadata: request.logged(["failure": "\(failure)"]))
    }
}

extension Response {
    /// A JSON document that no cache may keep (RFC 9111, section 5.2.2.5).
    static func unkept(_ json: [UInt8], _ status: Status = .ok) -> Response {
        Response(
            status: status, fields: Fields([("Content-Type", "application/json"), ("Cache-Control", "no-store")]),
            body: .bytes(json))
    }
}
