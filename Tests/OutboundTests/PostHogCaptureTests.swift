// Tests the body that is sent to a capture endpoint, and the meaning of the endpoint's responses.
// Tests/Integration/analytics.py tests the delivery by a running Dwell server.

import Engine
import Foundation
import JourneyModel
import Secrets
import TestSupport
import Testing

@testable import Outbound

@Suite struct PostHogCaptureTests {
    private func event(
        eventID: String = "e", driver: String = "d", session: String? = nil, metadata: String? = nil
    ) -> FeedEvent {
        FeedEvent(
            id: 1, driver: DriverID(driver), eventID: eventID, name: .departedCharger, sessionID: session,
            sent: SentMembers(source: "ios_native", sequence: 4), occurredAt: .sample, receivedAt: .sample,
            metadata: metadata, settingsVersion: "v",
            verdict: .rejected(.noSuchTransition), state: .idle)
    }

    @Test func anEventHasItsNameItsPersonAndItsTime() throws {
        let body = PostHogCapture.body(
            [event(session: "s", metadata: #"{"a":[1.50]}"#), event()], key: Secret("k"))
        let json = try #require(try JSONSerialization.jsonObject(with: Data(body)) as? [String: Any])
        #expect(json["api_key"] as? String == "k")
        let batch = try #require(json["batch"] as? [[String: Any]])
        #expect(
            batch.map { $0["event"] as? String } == [
                "native_session_exitedChargerAnchorZone", "native_presession_exitedChargerAnchorZone",
            ])
        #expect(batch[0]["distinct_id"] as? String == "d")
        #expect(batch[0]["timestamp"] as? String == "2026-11-16T20:00:00.000Z")
        let properties = try #require(batch[0]["properties"] as? [String: Any])
        #expect(properties["session_id"] as? String == "s")
        #expect(properties["reason"] as? String == "no_such_transition")
        #expect((properties["metadata"] as? [String: [Double]]) == ["a": [1.5]])
    }

    @Test func theSameEventHasTheSameUUIDForEver() {
        let own = "0B3C6D3E-1F2A-4B5C-8D9E-0F1A2B3C4D5E"
        #expect(PostHogCapture.uuid(of: event(eventID: own)) == own.lowercased())
        let made = PostHogCapture.uuid(of: event(eventID: "not a uuid"))
        #expect(UUID(uuidString: made) != nil)
        #expect(made == PostHogCapture.uuid(of: event(eventID: "not a uuid")))
        #expect(made != PostHogCapture.uuid(of: event(eventID: "not a uuid", driver: "another")))
        #expect(
            PostHogCapture.uuid(of: event(eventID: "b", driver: "a"))
                != PostHogCapture.uuid(of: event(eventID: "ab", driver: "")))
    }

    @Test(arguments: [
        (200, "taken"), (204, "taken"), (400, "refused"), (413, "refused"), (422, "refused"), (401, "unavailable"),
        (404, "unavailable"), (408, "unavailable"), (429, "unavailable"), (500, "unavailable"), (503, "unavailable"),
    ])
    func whatAnAnswerMeans(status: Int, meaning: String) {
        let outcome = PostHogCapture.outcome(
            of: OutgoingResponse(status: status, cacheControl: nil, retryAfterSeconds: 9, body: []))
        switch outcome {
        case .taken: #expect(meaning == "taken")
        case .refused: #expect(meaning == "refused")
        case .unavailable(_, let seconds):
            #expect(meaning == "unavailable")
            #expect(seconds == 9)
        }
    }
}
