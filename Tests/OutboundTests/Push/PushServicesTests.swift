// Tests that the outcomes of notifications are counted for each push service.

import Crypto
import Foundation
import Identity
import Logging
import PrometheusExport
import Push
import Secrets
import TestSupport
import Testing

@testable import Outbound

@Suite struct PushServicesTests {
    private func notification(_ service: PushNotification.Service) -> PushNotification {
        PushNotification(service: service, kind: .alert, token: "ab12cd34", payload: [], priority: 10)
    }

    @Test func outcomesAreCountedByService() async throws {
        let metrics = PrometheusMetrics()
        let key = try SigningKey(privateKeyPEM: Secret(P256.Signing.PrivateKey().pemRepresentation))
        let token = try #require(APNsProviderToken(teamID: "T", keyID: "K", key: key))
        let channel = try #require(URL(string: "https://127.0.0.1:1"))
        let script = ScriptedPushService([.success(response(200)), .success(response(410)), .failure(.timedOut)])
        let services = PushServices(
            apple: PushServices.Apple(
                production: HTTP2Channel(origin: channel, authorityFile: nil),
                sandbox: HTTP2Channel(origin: channel, authorityFile: nil),
                delivery: APNsDelivery(
                    channels: [.production: script], token: token, topic: "t", clock: { .sample })),
            google: nil, logger: Logger(label: "test", factory: { _ in SwiftLogNoOpLogHandler() }), metrics: metrics)
        #expect(services.attemptSecondsMax == 20)
        for _ in 0..<3 { _ = await services.send(notification(.apple(.production))) }
        _ = await services.send(notification(.google))
        services.sampler(metrics)()
        let text = metrics.text()
        let prefix = "dwell_push_notifications_total{"
        for line in [
            #"service="apns",outcome="delivered"} 1"#, #"service="apns",outcome="unregistered"} 1"#,
            #"service="apns",outcome="unavailable"} 1"#, #"service="fcm",outcome="refused"} 1"#,
        ] {
            #expect(text.contains(prefix + line), "\(text)")
        }
        #expect(text.contains(#"dwell_push_seconds_count{service="apns"} 3"#))
        #expect(text.contains(#"dwell_push_streams{service="apns_sandbox"} 0"#))
        services.close()
    }
}
