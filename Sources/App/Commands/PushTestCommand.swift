// `dwell push-test`: sends one notification to one device, and prints the answer of APNs or FCM. It needs neither the
// database nor a running server.

import ArgumentParser
import CoreMetrics
import Foundation
import JourneyModel
import Logging
import Outbound
import Push

struct PushTestCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "push-test",
        abstract: "Send a notification to one device and print what the service answered.",
        discussion: """
            Uses the server's PUSH_ settings. "delivered" means that Apple or Google took the notification; whether \
            the phone shows it also depends on the app's permission and on the phone. The app prints its device token \
            when it registers; an app that Xcode installed has a token of the sandbox.

            EXAMPLES
              dwell push-test --token 740f4707bebcf74f9b7c25d48e3358945f6aa01da5ddb387462c7eaf61bb78ad
              dwell push-test --token 740f...  --environment sandbox --text "Hello"
              dwell push-test --token 740f...  --kind live-activity --payload update.json
              dwell push-test --token fGm3x... --google

            EXIT STATUS
              0 delivered; 1 not delivered, or no response; 78 invalid settings, or the service is not configured
            """)

    enum Environment: String, CaseIterable, ExpressibleByArgument {
        case production, sandbox
    }

    enum Kind: String, CaseIterable, ExpressibleByArgument {
        case alert, background
        case liveActivity = "live-activity"
    }

    @Option(help: ArgumentHelp("The device token, or with --google the registration token.", valueName: "token"))
    var token: String

    @Option(help: "The environment of APNs in which the token is valid.")
    var environment = Environment.production

    @Flag(help: "Send by Firebase Cloud Messaging, to an Android app.")
    var google = false

    @Option(help: "The text of the alert.")
    var text = "A test from dwell"

    @Option(help: "The kind of notification. A Live Activity needs --payload.")
    var kind = Kind.alert

    @Option(
        help: ArgumentHelp(
            "JSON to send instead: the whole body for APNs; for FCM the message without its token.", valueName: "file"),
        completion: .file())
    var payload: String?

    @Option(help: ArgumentHelp("Send this many at once, and print counts. For load tests.", visibility: .hidden))
    var count = 1

    @Option(help: ArgumentHelp("With --count: the most in progress.", visibility: .hidden))
    var inFlight = 1000

    @Option(help: ArgumentHelp("With --count: how many a second; 0: as many as possible.", visibility: .hidden))
    var rate = 0

    @Option(
        name: .customLong("env-file"), help: "The environment file to read instead of ENV_FILE.", completion: .file())
    var environmentFile: String?

    func validate() throws {
        if google, kind == .liveActivity { throw ValidationError("Live Activities exist on iOS only.") }
        if kind == .liveActivity, payload == nil { throw ValidationError("--kind live-activity requires --payload.") }
        guard (1...100_000_000).contains(count), (1...20_000).contains(inFlight), (0...1_000_000).contains(rate) else {
            throw ValidationError("--count, --in-flight or --rate is out of range.")
        }
    }

    func run() async throws {
        var overrides: [String: String] = [:]
        overrides[Variables.environmentFile.name] = environmentFile
        let configuration = try Configuration.report(from: ConfigurationInput(overrides: overrides)).required()
        guard let push = configuration.push, google ? push.google != nil : push.apple != nil else {
            let variable = google ? Variables.pushFCMServiceAccountFile : Variables.pushAPNsKeyFile
            writeToStandardError("\(variable.name) is not set: no notification can be sent\n")
            throw ExitCode.badConfiguration
        }
        let notification = PushNotification(
            service: google ? .google : .apple(environment == .sandbox ? .sandbox : .production),
            kind: kind == .liveActivity ? .liveActivity : kind == .background ? .background : .alert, token: token,
            payload: try body(), collapseID: "dwell-push-test", priority: kind == .background ? 5 : 10)
        // The result is printed, so nothing is logged.
        let delivery = push.delivery(
            clock: { .now }, logger: Logger(label: "push-test", factory: { _ in SwiftLogNoOpLogHandler() }),
            metrics: NOOPMetricsHandler.instance)
        defer { delivery.close() }
        if count > 1 { return try await sendMany(notification, delivery) }
        let outcome = await delivery.send(notification)
        print(Self.text(of: outcome))
        if outcome != .delivered { throw ExitCode.failure }
    }

    private func body() throws -> [UInt8] {
        if let payload {
            do throws(TextFileError) {
                return Array(try readTextFile(payload, bytesMax: 1 << 20, mayBePipe: true).utf8)
            } catch {
                writeToStandardError("\(escaped(payload)): \(error.reason)\n")
                throw ExitCode.failure
            }
        }
        return Self.payload(kind, text: text, google: google)
    }

    /// Returns the payload of a test notification.
    static func payload(_ kind: Kind, text: String, google: Bool) -> [UInt8] {
        var writer = JSONWriter()
        let isAlert = kind == .alert
        let value: JSONValue =
            switch (google, isAlert) {
            case (true, true): .object([JSONMember("notification", .object([JSONMember("body", .string(text))]))])
            case (true, false): .object([JSONMember("data", .object([JSONMember("test", .string("1"))]))])
            case (false, true):
                .object([
                    JSONMember(
                        "aps", .object([JSONMember("alert", .string(text)), JSONMember("sound", .string("default"))]))
                ])
            case (false, false):
                .object([JSONMember("aps", .object([JSONMember("content-available", .number("1"))]))])
            }
        writer.value(value)
        return writer.bytes
    }

    /// Returns the outcome as a sentence for the operator.
    static func text(of outcome: PushOutcome) -> String {
        switch outcome {
        case .delivered: return "delivered"
        case .unregistered(let since):
            let time = since.map { " since \(RFC3339.text(of: $0))" } ?? ""
            return "not delivered: the app is no longer on this device\(time)"
        case .unavailable(let reason, let seconds):
            let pause = seconds.map { "; it asks for a pause of \($0) s" } ?? ""
            return "not delivered: the service is unavailable (\(escaped(reason)))\(pause)"
        case .refused(let reason):
            return "not delivered: rejected as \(escaped(reason))" + (advice[reason].map { ". \($0)" } ?? "")
        }
    }

    /// Advice for the operator, by the reason of a rejection. Only common reasons are included.
    private static let advice = [
        "BadDeviceToken": "The token is mistyped, or is one of the other environment: try --environment sandbox.",
        "DeviceTokenNotForTopic": "The token belongs to another app than PUSH_APNS_TOPIC.",
        "TopicDisallowed": "The key may not send to the app PUSH_APNS_TOPIC.",
        "BadTopic": "PUSH_APNS_TOPIC is not an app of the team.",
        "InvalidProviderToken":
            "PUSH_APNS_TEAM_ID, PUSH_APNS_KEY_ID and PUSH_APNS_KEY_FILE do not belong together, or the key was revoked.",
        "BadEnvironmentKeyInToken": "The key is restricted to the other environment in Apple's developer account.",
        "PayloadTooLarge": "APNs takes at most 4096 bytes.",
        "SENDER_ID_MISMATCH": "The token belongs to another Firebase project than the service account.",
        "PERMISSION_DENIED": "The service account may not send messages, or the project has no Cloud Messaging.",
        "NOT_FOUND": "The service account's project does not exist.",
        "INVALID_ARGUMENT": "The token is mistyped, or FCM does not accept the payload.",
        "not_http2": "Something between this machine and the service does not pass HTTP/2 on.",
    ]

    // MARK: Load

    private func sendMany(_ notification: PushNotification, _ delivery: PushServices) async throws {
        let start = ContinuousClock.now
        let tasks = min(inFlight, count)
        let pause = rate == 0 ? Duration.zero : .seconds(1) / rate
        let counts = try await withThrowingTaskGroup(of: [String: Int].self) { group in
            for task in 0..<tasks {
                group.addTask { [count] in
                    var counts: [String: Int] = [:]
                    for number in stride(from: task, to: count, by: tasks) {
                        if pause > .zero { try await Task.sleep(until: start + pause * number, clock: .continuous) }
                        counts[Self.word(for: await delivery.send(notification)), default: 0] += 1
                    }
                    return counts
                }
            }
            return try await group.reduce(into: [:]) { $0.merge($1, uniquingKeysWith: +) }
        }
        let (whole, fraction) = start.duration(to: .now).components
        let seconds = Double(whole) + Double(fraction) / 1e18
        for (word, count) in counts.sorted(by: { $0.key < $1.key }) { print("\(word) \(count)") }
        print(String(format: "%.3f s, %.0f a second", seconds, Double(count) / seconds))
        if counts["delivered"] != count { throw ExitCode.failure }
    }

    private static func word(for outcome: PushOutcome) -> String {
        switch outcome {
        case .delivered: "delivered"
        case .unregistered: "unregistered"
        case .unavailable(let reason, _): "unavailable \(reason)"
        case .refused(let reason): "refused \(reason)"
        }
    }
}
