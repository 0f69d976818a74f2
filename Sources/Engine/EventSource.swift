// The label `source` in the metrics of events. Clients choose the text of `source` freely, so all unknown texts share
// the value `other`.

enum EventSource: Int, CaseIterable, Sendable {
    case iosNative, androidNative, flutter, web, other

    var label: String {
        switch self {
        case .iosNative: "ios_native"
        case .androidNative: "android_native"
        case .flutter: "flutter"
        case .web: "web"
        case .other: "other"
        }
    }

    /// - Parameter text: the member `source` of an event.
    init(_ text: String) {
        switch text {
        case "ios_native": self = .iosNative
        case "android_native": self = .androidNative
        case "flutter": self = .flutter
        case "web": self = .web
        default: self = .other
        }
    }
}
