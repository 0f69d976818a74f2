// POST /v1/charging-sessions/background-ping, /native/background-ping and /v1/native/background-ping. Shipped apps call
// one of these when they wake up inside a charger's zone, and use only the status. They also post the zone as an event,
// so the ping is only counted. Its content, above all the coordinates, is neither read nor stored.

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
            return AccountAnswers.noContent
        }
    }
}
