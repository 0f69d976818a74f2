// The connections to the services that deliver push notifications.

import CoreMetrics
import Identity
import JourneyModel
import Logging
import Outbound
import Push

extension PushConfiguration {
    /// Returns an object that sends notifications through all configured services. The caller must close the object.
    func delivery(
        clock: @escaping @Sendable () -> Moment, logger: Logger, metrics: any MetricsFactory
    ) -> PushServices {
        PushServices(
            apple: apple.flatMap { services(of: $0, clock) }, google: google.map { services(of: $0, clock) },
            logger: logger, metrics: metrics)
    }

    private func services(of apple: Apple, _ clock: @escaping @Sendable () -> Moment) -> PushServices.Apple? {
        // The initializer returns nil only if the key is not a P-256 key. The configuration accepts only P-256 keys, so
        // the result is never nil here.
        guard let token = APNsProviderToken(teamID: apple.teamID, keyID: apple.keyID, key: apple.key) else {
            return nil
        }
        let production = HTTP2Channel(origin: apple.url.url, authorityFile: authorityFile)
        let sandbox = HTTP2Channel(origin: apple.sandboxURL.url, authorityFile: authorityFile)
        return PushServices.Apple(
            production: production, sandbox: sandbox,
            delivery: APNsDelivery(
                production: production, sandbox: sandbox, token: token, topic: apple.topic, clock: clock))
    }

    private func services(of google: Google, _ clock: @escaping @Sendable () -> Moment) -> PushServices.Google {
        let channel = HTTP2Channel(origin: google.url.url, authorityFile: authorityFile)
        let http = OutgoingHTTP()
        let token = GoogleAccessToken(
            http: http, account: google.account, url: google.tokenURL.url, authorityFile: authorityFile, clock: clock)
        return PushServices.Google(
            channel: channel, http: http,
            delivery: FCMDelivery(
                channel: channel, token: token, projectID: google.account.projectID, clock: clock))
    }
}
