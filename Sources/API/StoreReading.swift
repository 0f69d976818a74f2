// Functions for handlers that read the store. If a read fails, the functions log the failure once and throw the problem
// for the response. They also prevent responses with personal data from being cached.

import Engine
import HTTP1
import HTTPServer
import Logging

extension Logger {
    /// Calls `body`, which reads the store. If the read fails, logs the details and throws the problem.
    ///
    /// - Throws: the problem for the client. It is also thrown if the read was cancelled because the client
    ///   disconnected. In that case no client receives it.
    func reading<Value>(
        for request: Request, _ body: () async throws(StoreFailure) -> Value
    ) async throws(ProblemResponse) -> Value {
        do throws(StoreFailure) {
            return try await body()
        } catch {
            storeFailed(error, request)
            throw ProblemResponse(reading: error)
        }
    }

    /// Logs a failure of the store. Does not log that a read was cancelled or that the driver was deleted, because the
    /// store did not fail then.
    func storeFailed(_ failure: StoreFailure, _ request: Request) {
        switch failure {
        case .cancelled, .driverErased: break
        case .unavailable, .unknown: error("store error", metadata: request.logged(["failure": "\(failure)"]))
        }
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
