// How many lines about refused requests are written: so many a second for one client, and so many in all. Nobody can
// fill the log with requests that cost nothing to send; what is left out is counted. Pure: the second comes with the call.

struct RefusalLineLimiter: Sendable {
    struct Limits: Hashable, Sendable {
        /// Lines about one client in a second; at least 1.
        var perClient: Int
        /// Lines in a second of each kind of refusal; at least 1.
        var total: Int
    }

    /// Each has `Limits.total` for itself, so that one cannot hide the others.
    enum Kind: Int, CaseIterable {
        /// 4xx for a client that nobody recognised.
        case anonymous
        /// 4xx for a signed-in driver.
        case signedIn
        /// 5xx.
        case failure
    }

    /// What was left out in one second.
    struct Omitted: Hashable, Sendable {
        var count: Int
        /// The client with the most of them, among those that had a line at all; nil when the total was spent before.
        var busiestClient: String?
        var busiestCount: Int
    }

    private struct Client {
        var lines = 0
        var omitted = 0
    }

    private struct Window {
        /// A client comes in with its first line, so there are never more than `Limits.total`.
        var clients: [String: Client] = [:]
        var lines = 0
    }

    let limits: Limits
    /// Whole seconds; of the windows.
    private var second: Int64 = .min
    private var windows = [Window](repeating: Window(), count: Kind.allCases.count)
    private var omitted = 0

    init(limits: Limits) {
        self.limits = limits
    }

    /// Whether the line is to be written. It counts as written then. Call `end(before:)` first.
    mutating func admits(_ client: String, _ kind: Kind, at second: Int64) -> Bool {
        if second > self.second { self.second = second }
        let place = kind.rawValue
        guard var entry = windows[place].clients[client] ?? newcomer(place) else {
            omitted += 1
            return false
        }
        defer { windows[place].clients[client] = entry }
        guard entry.lines < limits.perClient, windows[place].lines < limits.total else {
            omitted += 1
            entry.omitted += 1
            return false
        }
        entry.lines += 1
        windows[place].lines += 1
        return true
    }

    /// nil when there is no line left for one.
    private func newcomer(_ place: Int) -> Client? {
        windows[place].lines < limits.total ? Client() : nil
    }

    /// Ends the second that was counted, if it lies before that one: what was left out in it, nil when nothing was.
    mutating func end(before second: Int64) -> Omitted? {
        guard second > self.second else { return nil }
        let busiest = windows.flatMap(\.clients).max { ($0.value.omitted, $1.key) < ($1.value.omitted, $0.key) }
        let named = busiest.flatMap { $0.value.omitted > 0 ? $0 : nil }
        let report = Omitted(count: omitted, busiestClient: named?.key, busiestCount: named?.value.omitted ?? 0)
        for place in windows.indices { windows[place] = Window() }
        omitted = 0
        return report.count > 0 ? report : nil
    }

    /// Clients that are remembered now, for the test of the bound.
    var clientCount: Int { windows.reduce(0) { $0 + $1.clients.count } }
}
