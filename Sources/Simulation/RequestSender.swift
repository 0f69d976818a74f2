// Sends a request until there is a final response. Like a phone's queue, the sender obeys `Retry-After`, and repeats a
// request that may not have arrived (contract, section 5).

import JourneyClient
import JourneyModel

/// A response, and what else the comparison needs to know about it.
struct SendOutcome {
    var response: HTTPExchange.Response
    /// The server made the response within this span of time on its own clock.
    var span: ClosedRange<Moment>
    /// Whether the server may have stored the event at an earlier attempt. The status may then be `already_processed`.
    var mayBeRepeat: Bool
}

struct RequestSender {
    let transport: any Transport
    let pace: Pace
    let clock: ServerClock
    let tally: Tally
    /// A function that waits. It is `Task.sleep` except in tests.
    let sleep: @Sendable (Duration) async throws -> Void

    /// The maximum number of failed attempts; status 429 is not a failure. The pauses between them are 1, 2, 4, 8, 16,
    /// 16 and 16 s. In this time, about a minute, a server can restart.
    static let attemptsMax = 8
    /// The maximum number of responses with status 429 to one request. Each of them defers the request by at most an
    /// hour (contract, section 5). If there are more, one of the server's rate limits is too low for the run.
    static let limitedMax = 20
    /// The tolerance of the clock, in milliseconds. It extends `SendOutcome.span` at both ends. The clock is corrected
    /// by the server's `Date`, which has only whole seconds.
    private static let clockToleranceMilliseconds: Int64 = 2_000

    /// - Parameters:
    ///   - takesRefusals: whether a response with status 401 or 403 is returned. If false, these statuses cause a
    ///     `SimulationFailure`.
    ///   - request: builds the request of each attempt. `sentAt` is the time of sending on the server's clock.
    /// - Throws: `SimulationFailure` when no response can be obtained.
    func send(
        events count: Int, takesRefusals: Bool = false, _ request: (_ sentAt: Moment) -> HTTPExchange.Request
    ) async throws -> SendOutcome {
        var (failures, limited, mayBeRepeat) = (0, 0, false)
        while true {
            try await pace.wait(forEvents: count)
            let (outcome, span) = await attempt(request)
            guard case .response(let response) = outcome else {
                (failures, mayBeRepeat) = (failures + 1, true)
                try await pause(after: failures, "does not respond")
                continue
            }
            switch response.status {
            case 429:
                limited += 1
                guard limited <= Self.limitedMax else {
                    throw SimulationFailure("the server keeps rate limiting this driver; try a lower --rate")
                }
                tally.change { $0.limited += 1 }
                try await sleep(.seconds(response.retryAfterSeconds ?? 1))
            case 500...:
                failures += 1
                mayBeRepeat = mayBeRepeat || response.status != 503
                try await pause(
                    after: failures, "returns \(response.status)", atLeastSeconds: response.retryAfterSeconds ?? 0)
            case 401 where !takesRefusals, 403 where !takesRefusals:
                throw SimulationFailure("the server rejects the token with \(response.status)")
            default: return SendOutcome(response: response, span: span, mayBeRepeat: mayBeRepeat)
            }
        }
    }

    private func attempt(
        _ request: (Moment) -> HTTPExchange.Request
    ) async -> (HTTPExchange.Outcome, ClosedRange<Moment>) {
        let (sentAt, start) = (clock.now, ContinuousClock.now)
        let outcome = await transport.send(request(sentAt))
        let microseconds = (ContinuousClock.now - start) / .microseconds(1)
        tally.change { summary in
            summary.requests += 1
            if case .response = outcome { summary.latencies.add(microseconds: Int(microseconds)) }
        }
        let earliest = sentAt.advanced(byMilliseconds: -Self.clockToleranceMilliseconds)
        let latest = max(clock.now, sentAt).advanced(byMilliseconds: Self.clockToleranceMilliseconds)
        return (outcome, earliest...latest)
    }

    private func pause(after failures: Int, _ what: String, atLeastSeconds: Int = 0) async throws {
        guard failures < Self.attemptsMax else {
            throw SimulationFailure("the server \(what), \(failures) times in a row")
        }
        tally.change { $0.repeatedRequests += 1 }
        try await sleep(.seconds(max(1 << min(failures - 1, 4), atLeastSeconds)))
    }
}

extension HTTPExchange.Response {
    /// The value of `Retry-After`, limited to 1...3600. A batch response with status 200 has no such field, so the
    /// value comes from `RateLimit`: the longest `t` of the limits with `r=0`.
    var retryAfterSeconds: Int? {
        let asked = field("Retry-After").flatMap { Int($0) } ?? field("RateLimit").flatMap(Self.exhaustedSeconds)
        return asked.map { min(max($0, 1), 3600) }
    }

    private static func exhaustedSeconds(_ value: String) -> Int? {
        value.split(separator: ",").compactMap { limit in
            let parameters = limit.split(separator: ";").map { $0.filter { $0 != " " } }
            guard parameters.contains("r=0") else { return nil }
            return parameters.first { $0.hasPrefix("t=") }.flatMap { Int($0.dropFirst(2)) }
        }.max()
    }

    var json: JSONValue? { try? JSONValue.parse(body) }
}
