// Replaces the connection to a push service and returns prepared answers, for tests with a manual clock. The
// integration tests send over HTTP/2 and TLS.

import Synchronization

@testable import Outbound

final class ScriptedPushService: HTTP2Sending, Sendable {
    typealias Answer = Result<OutgoingResponse, OutgoingFailure>

    let timeoutMilliseconds = 10_000
    private let answers: Mutex<[Answer]>
    private let received = Mutex<[HTTP2Request]>([])

    /// After these answers, every request is answered with status 200.
    init(_ answers: [Answer] = []) {
        self.answers = Mutex(answers)
    }

    var requests: [HTTP2Request] { received.withLock { $0 } }

    func send(_ request: HTTP2Request) async throws(OutgoingFailure) -> OutgoingResponse {
        received.withLock { $0.append(request) }
        return try answers.withLock { $0.isEmpty ? nil : $0.removeFirst() }?.get() ?? response(200)
    }
}

func response(_ status: Int, _ body: String = "", retryAfter: Int? = nil) -> OutgoingResponse {
    OutgoingResponse(status: status, retryAfterSeconds: retryAfter, body: Array(body.utf8))
}

extension HTTP2Request {
    func field(_ name: String) -> String? { fields.first { $0.name == name }?.value }
}
