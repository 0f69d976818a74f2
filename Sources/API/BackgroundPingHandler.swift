// POST /v1/charging-sessions/background-ping, /native/background-ping and /v1/native/background-ping.
//
// A shipped app calls one of these routes when it wakes up inside a charger's zone, and uses only the status of the
// response. The app also sends an event for the zone, so the ping is only counted. The content, which includes
// coordinates, is neither decoded nor stored.

import CoreMetrics
import HTTP1
import HTTPServer
import MetricInstruments

extension MetricFamily {
    static let backgroundPings = MetricFamily(
        "dwell_background_pings_total", "Background pings of shipped apps.")
}

struct BackgroundPingHandler: Sendable {
    private let pings: any CounterHandler

    init(_ metrics: any MetricsFactory) {
        pings = metrics.counter(.backgroundPings)
    }

    var post: CallerHandler {
        { [pings] _, _ in
            pings.increment(by: 1)
            return AccountResponses.noContent
        }
    }
}
