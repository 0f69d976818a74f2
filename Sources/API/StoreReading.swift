// Functions for handlers that read the store. If a read fails, the failure is logged once, and the response is a
// problem. `noStore` prevents caches from storing personal data.

import Engine
import HTTP1
import HTTPServer
import Logging

extension Logger {
    /// Calls `body`, which reads the store. If the read fails, logs the details and throws the problem.
    ///
    /// - Throws: the problem for the client, also if the read was cancelled because the client disconnected.
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

    /// Logs a failure of the store. Logs nothing if the read was cancelled or the driver was deleted, because the store
    /// did not fail in these cases.
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
