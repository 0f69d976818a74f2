// Sends each notification through the service that it names, and counts the outcomes.

package import CoreMetrics
package import Logging
import MetricInstruments
package import Push

extension MetricFamily {
    static let pushNotifications = MetricFamily(
        "dwell_push_notifications_total", "Attempts to send a push notification by service and outcome.")
    static let pushSeconds = MetricFamily(
        "dwell_push_seconds", "Time from an attempt to send a push notification to the service's response.",
        bounds: MetricFamily.durations)
    static let pushStreams = MetricFamily(
        "dwell_push_streams", "Push notifications in progress on the connection to the service.")
    static let pushWaiting = MetricFamily(
        "dwell_push_waiting", "Push notifications that wait for a stream of the connection.")
    static let pushConnections = MetricFamily(
        "dwell_push_connections_total", "Connections made to the push service.")
}

package struct PushServices: PushDelivery {
    /// The names of the services in the metrics. The raw values are the indexes of the services in `counts` and
    /// `times`.
    private enum Label: Int, CaseIterable {
        case production, sandbox, google

        init(_ service: PushNotification.Service) {
            self =
                switch service {
                case .apple(.production): .production
                case .apple(.sandbox): .sandbox
                case .google: .google
                }
        }

        var text: String {
            switch self {
            case .production: "apns"
            case .sandbox: "apns_sandbox"
            case .google: "fcm"
            }
        }
    }

    /// The channels to APNs's two environments, and the delivery that uses them.
    package struct Apple: Sendable {
        var production: HTTP2Channel
        var sandbox: HTTP2Channel
        var delivery: APNsDelivery

        package init(production: HTTP2Channel, sandbox: HTTP2Channel, delivery: APNsDelivery) {
            self.production = production
            self.sandbox = sandbox
            self.delivery = delivery
        }
    }

    package struct Google: Sendable {
        var channel: HTTP2Channel
        /// The client that requests access tokens.
        var http: OutgoingHTTP
        var delivery: FCMDelivery

        package init(channel: HTTP2Channel, http: OutgoingHTTP, delivery: FCMDelivery) {
            self.channel = channel
            self.http = http
            self.delivery = delivery
        }
    }

    private static let outcomes = ["delivered", "unregistered", "unavailable", "refused"]

    private let apple: Apple?
    private let google: Google?
    private let counts: CounterTable
    private let times: TimerTable
    private let logger: Logger

    /// Creates a delivery that uses the given services. A notification for a service that is nil is refused as
    /// `not_configured`.
    package init(apple: Apple?, google: Google?, logger: Logger, metrics: any MetricsFactory) {
        self.apple = apple
        self.google = google
        self.logger = logger
        counts = CounterTable(
            .pushNotifications, count: Label.allCases.count * Self.outcomes.count, factory: metrics
        ) { index in
            [
                ("service", Label.allCases[index / Self.outcomes.count].text),
                ("outcome", Self.outcomes[index % Self.outcomes.count]),
            ]
        }
        times = TimerTable(Label.allCases.map { metrics.timer(.pushSeconds, [("service", $0.text)]) })
    }

    package var attemptSecondsMax: Int {
        max(apple?.delivery.attemptSecondsMax ?? 0, google?.delivery.attemptSecondsMax ?? 0)
    }

    package func send(_ notification: PushNotification) async -> PushOutcome {
        let delivery: (any PushDelivery)? =
            switch notification.service {
            case .apple: apple?.delivery
            case .google: google?.delivery
            }
        let label = Label(notification.service)
        let start = ContinuousClock.now
        let outcome = await delivery?.send(notification) ?? .refused(reason: "not_configured")
        let (seconds, attoseconds) = start.duration(to: .now).components
        times.record(nanoseconds: seconds * 1_000_000_000 + attoseconds / 1_000_000_000, at: label.rawValue)
        let column: Int
        switch outcome {
        case .delivered: column = 0
        case .unregistered: column = 1
        case .unavailable(let reason, _):
            column = 2
            logger.warning(
                "push service unavailable", metadata: ["service": "\(label.text)", "failure": "\(reason)"])
        case .refused(let reason):
            column = 3
            logger.warning(
                "push notification rejected", metadata: ["service": "\(label.text)", "reason": "\(reason)"])
        }
        counts.count(label.rawValue * Self.outcomes.count + column)
        return outcome
    }

    /// Ends the notifications in progress as unavailable, and closes the connections.
    package func close() {
        for (_, channel) in channels { channel.close() }
        google?.http.close()
    }

    /// Returns a function that sets the metrics to the current state of the connections.
    package func sampler(_ factory: any MetricsFactory) -> @Sendable () -> Void {
        let sampled = channels.map { label, channel in
            let dimensions = [("service", label.text)]
            return (
                channel: channel, streams: factory.gauge(.pushStreams, dimensions),
                waiting: factory.gauge(.pushWaiting, dimensions),
                connections: SampledCounter(.pushConnections, dimensions, factory: factory)
            )
        }
        return {
            for each in sampled {
                let status = each.channel.status
                each.streams.set(Int64(status.openStreams))
                each.waiting.set(Int64(status.waiting))
                each.connections.sample(status.connectionsMade)
            }
        }
    }

    private var channels: [(Label, HTTP2Channel)] {
        (apple.map { [(.production, $0.production), (.sandbox, $0.sandbox)] } ?? [])
            + (google.map { [(.google, $0.channel)] } ?? [])
    }
}
