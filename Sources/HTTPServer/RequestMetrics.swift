// Metrics of answered requests. The indexes of the route, the method and the status determine the series of a request.
// Only the index of the method is found by comparing text.
//
// A client cannot create new series: all unknown methods share the label `other`, and so do all unknown statuses.

internal import CoreMetrics
internal import HTTP1
package import MetricInstruments

extension MetricFamily {
    package static let requests = MetricFamily(
        "dwell_http_requests_total", "Requests with a response. Route none: rejected before routing.")
    package static let requestSeconds = MetricFamily(
        "dwell_http_request_duration_seconds", "Time from the complete request head to the response.", bounds: durations
    )
    static let requestBytes = MetricFamily(
        "dwell_http_request_bytes_total", "Request bytes received, including heads.")
    static let responseBytes = MetricFamily(
        "dwell_http_response_bytes_total", "Response bytes sent, including heads.")
}

struct RequestMetrics: Sendable {
    private let counts: CounterTable
    /// A timer for each route, at the route's index. The last timer is for requests without a route.
    private let durations: TimerTable
    private let bytesIn: any CounterHandler
    private let bytesOut: any CounterHandler

    private static let knownMethods: [Method] = [.get, .head, .post, .put, .patch, .delete, .options]
    private static let knownStatuses = [
        200, 201, 202, 204, 304, 400, 401, 403, 404, 405, 406, 408, 409, 410, 412, 413, 414, 415, 416, 417, 422, 426,
        428, 429, 431, 500, 501, 502, 503, 504, 505,
    ]
    /// For each status from 100 to 599, its index in `knownStatuses`. An unknown status has the index
    /// `knownStatuses.count`.
    private let statusIndexes: [Int] = (100..<600).map { status in
        knownStatuses.firstIndex(of: status) ?? knownStatuses.count
    }
    private static let statusesMax = knownStatuses.count + 1
    private static let methodsMax = knownMethods.count + 1

    init(_ routes: [Route], _ factory: any MetricsFactory) {
        let templates = routes.map(\.template) + ["none"]
        counts = CounterTable(
            .requests, count: templates.count * Self.methodsMax * Self.statusesMax, factory: factory
        ) { index in
            let (rest, status) = index.quotientAndRemainder(dividingBy: Self.statusesMax)
            let (route, method) = rest.quotientAndRemainder(dividingBy: Self.methodsMax)
            return [
                ("route", templates[route]),
                ("method", method < Self.knownMethods.count ? Self.knownMethods[method].rawValue : "other"),
                ("status", status < Self.knownStatuses.count ? String(Self.knownStatuses[status]) : "other"),
            ]
        }
        durations = TimerTable(templates.map { factory.timer(.requestSeconds, [("route", $0)]) })
        bytesIn = factory.counter(.requestBytes)
        bytesOut = factory.counter(.responseBytes)
    }

    /// Counts an answered request. `route` is nil if no route was found. `method` is nil if the request was refused
    /// before its head was complete.
    func answered(
        _ route: Int?, _ method: Method?, _ status: Status, nanoseconds: UInt64, bytesIn: Int, bytesOut: Int
    ) {
        let route = route ?? durations.count - 1
        guard (0..<durations.count).contains(route) else { return }
        counts.count((route * Self.methodsMax + index(of: method)) * Self.statusesMax + index(of: status))
        durations.record(nanoseconds: Int64(clamping: nanoseconds), at: route)
        self.bytesIn.increment(by: Int64(bytesIn))
        self.bytesOut.increment(by: Int64(bytesOut))
    }

    private func index(of method: Method?) -> Int {
        method.flatMap { Self.knownMethods.firstIndex(of: $0) } ?? Self.knownMethods.count
    }

    private func index(of status: Status) -> Int {
        (100..<600).contains(status.code) ? statusIndexes[status.code - 100] : Self.knownStatuses.count
    }
}
