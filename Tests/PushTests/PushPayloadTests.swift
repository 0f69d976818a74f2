// Tests of the bytes that are sent: the body for APNs and the message for FCM, and the fields beside them.

import Engine
import Identity
import JourneyModel
import TestSupport
import Testing

@testable import Push

@Suite struct PushPayloadTests {
    /// 2026-11-16T20:00:00Z
    private let now = Moment.sample

    private func notification(
        _ kind: PushKind, state: JourneyState = .inTransit, endedBy: Journey.Ending? = nil, deadlineSeconds: Int? = 170,
        sessionID: String? = "s-1", session: SessionReference = .row(3), platform: String = "ios",
        environment: String = "production",
        activity: String? = nil
    ) -> PushNotification? {
        DuePush(
            id: 1,
            entry: PushEntry(
                driver: 1, device: 2, session: session, kind: kind, state: state, endedBy: endedBy,
                deadline: deadlineSeconds.map { now.advanced(bySeconds: $0) },
                dueAt: now.advanced(bySeconds: -10), expiresAt: now.advanced(bySeconds: 170)),
            sessionID: sessionID,
            device: Device(
                pushToken: "ab12", platform: platform, environment: environment, appVersion: nil,
                push: PushSettings(locale: "en-US", liveActivityToken: activity)),
            attemptCount: 0, isDeadlineRunning: true, isInOtherSession: false
        ).notification(.standard, at: now)
    }

    private func text(_ notification: PushNotification?) -> String? {
        notification.map { String(decoding: $0.payload, as: UTF8.self) }
    }

    @Test func `an alert has text, sound, thread and what the app needs`() {
        let sent = notification(.alert(.graceEnding))
        #expect(
            text(sent) == #"{"aps":{"alert":{"title":"Your session ends soon","body":"Reach the merchant within 3 min "#
                + #"to keep it."},"sound":"default","thread-id":"s-1"},"kind":"grace_ending","state":"IN_TRANSIT","#
                + #""session_id":"s-1","deadline":"2026-11-16T20:02:50.000Z"}"#)
        #expect(sent?.kind == .alert && sent?.priority == 10 && sent?.token == "ab12")
        #expect(sent?.collapseID == "s-1" && sent?.expiresAt == now.advanced(bySeconds: 170))
        #expect(sent?.service == .apple(.production))
    }

    @Test func `a background push shows nothing, has priority 5 and replaces nothing`() {
        let sent = notification(.wake, state: .sessionEnded, endedBy: .grace, deadlineSeconds: nil)
        #expect(
            text(sent) == #"{"aps":{"content-available":1},"kind":"wake","state":"SESSION_ENDED","session_id":"s-1","#
                + #""ended_by":"grace"}"#)
        #expect(sent?.kind == .background && sent?.priority == 5 && sent?.collapseID == nil)
    }

    @Test func `a Live Activity gets its state, and is stale after the deadline`() {
        let sent = notification(.activityUpdate, environment: "development", activity: "cd34")
        #expect(
            text(sent) == #"{"aps":{"timestamp":1794859190,"event":"update","content-state":{"state":"IN_TRANSIT","#
                + #""session_id":"s-1","ended_by":null,"deadline":1794859370,"seconds_left":170},"#
                + #""stale-date":1794859370}}"#)
        #expect(sent?.kind == .liveActivity && sent?.token == "cd34" && sent?.service == .apple(.sandbox))
    }

    @Test func `a Live Activity ends, and is removed later`() {
        let sent = notification(
            .activityEnd, state: .sessionEnded, endedBy: .verified, deadlineSeconds: nil, environment: "sandbox",
            activity: "cd34")
        #expect(
            text(sent) == #"{"aps":{"timestamp":1794859190,"event":"end","content-state":{"state":"SESSION_ENDED","#
                + #""session_id":"s-1","ended_by":"verified","deadline":null,"seconds_left":null},"#
                + #""dismissal-date":1794860090}}"#)
        #expect(sent?.service == .apple(.sandbox))
    }

    @Test func `FCM gets a message whose data are strings`() {
        let sent = notification(.alert(.atMerchant), state: .atMerchant, deadlineSeconds: nil, platform: "android")
        #expect(
            text(sent)
                == #"{"notification":{"title":"You have arrived","body":"Show your visit to have it verified."},"#
                + #""android":{"notification":{"tag":"s-1"}},"#
                + #""data":{"kind":"at_merchant","state":"AT_MERCHANT","session_id":"s-1"}}"#)
        #expect(sent?.service == .google)
        #expect(
            text(notification(.wake, state: .sessionEnded, deadlineSeconds: nil, platform: "android"))
                == #"{"data":{"kind":"wake","state":"SESSION_ENDED","session_id":"s-1"}}"#)
    }

    @Test func `a platform without a service, or an activity that is over, gets nothing`() {
        #expect(notification(.alert(.atMerchant), platform: "web") == nil)
        #expect(notification(.activityUpdate) == nil)
        #expect(notification(.activityUpdate, platform: "android", activity: "cd34") == nil)
    }

    @Test(arguments: [
        (String(repeating: "a", count: 64), String(repeating: "a", count: 64)),
        (String(repeating: "a", count: 65), "session-3"), ("sé", "session-3"), ("a b", "session-3"),
        (nil, "session-3"),
    ])
    func `a session id that fits into the field is the collapse id`(id: String?, expected: String) {
        #expect(notification(.alert(.atMerchant), sessionID: id)?.collapseID == expected)
    }

    @Test func `a session without a row number has a collapse id of its own`() {
        let collapseID = { (id: String) in
            notification(.alert(.atMerchant), sessionID: id, session: .id(id))?.collapseID
        }
        #expect(collapseID("s-1") == "s-1")
        #expect(collapseID("é") == "session-ac21707b7181e01")
        #expect(collapseID("é") != collapseID("è"))
    }
}
