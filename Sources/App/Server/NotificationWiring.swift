// The parts that queue and send notifications about journeys. They exist only if APNs or FCM is configured.

import CoreMetrics
import Engine
import JourneyModel
import Logging
import Outbound
import Push
import ServiceLifecycle

struct NotificationWiring {
    let texts: CurrentPushTexts
    let services: PushServices
    /// The last notification that could not be delivered.
    let failure = DeliveryFailure()
    /// The background loops. The connections to the push services are closed after the loops have ended.
    let loops: [any Service]

    /// Returns nil when the server sends no notifications.
    init?(
        _ configuration: Configuration, store: any PushStore, clock: @escaping @Sendable () -> Moment,
        logger: Logger, metrics: any MetricsFactory
    ) {
        guard let push = configuration.push else { return nil }
        texts = CurrentPushTexts(push.texts)
        let services = push.delivery(clock: clock, logger: logger, metrics: metrics)
        self.services = services
        let sender = PushSender(
            store: store, delivery: services, texts: texts, clock: clock, logger: logger, failure: failure,
            metrics: metrics)
        let consumer = PushConsumer(
            store: store, platforms: push.platforms, clock: clock, logger: logger, metrics: metrics)
        loops = [
            ClosingService { services.close() }, LoopService { await sender.run() }, LoopService(loop: consumer.run),
        ]
    }
}

extension PushConfiguration {
    /// The device platforms for which a push service is configured.
    fileprivate var platforms: Set<String> {
        Set((apple == nil ? [] : ["ios"]) + (google == nil ? [] : ["android"]))
    }
}
