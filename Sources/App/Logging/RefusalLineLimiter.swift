// Limits the log lines about rejected requests: per second for one client, and per second in total. Requests that
// cost nothing to send cannot fill the log; omitted lines are counted. Pure: the second is passed in.

struct RefusalLineLimiter: Sendable {
    struct Limits: Hashable, Sendable {
        /// Lines about one client per second; at least 1.
        var perClient: Int
        /// Lines per second for each kind of rejection; at least 1.
        var total: Int
    }

    /// Each kind has its own `Limits.total`, so that one cannot hide the others.
    enum Kind: Int, CaseIterable {
        /// 4xx for an unauthenticated client.
        case anonymous
        /// 4xx for a signed-in driver.
        case signedIn
        /// 5xx.
        case failure
    }

    /// The lines omitted in one second.
    struct Omitted: Hashable, Sendable {
        var count: Int
        /// The client with the most omitted lines, among those with at least one written line; nil when the total
        /// was used up before.
        var busiestClient: String?
        var busiestCount: Int
    }

    private struct Client {
        var lines = 0
        var omitted = 0
    }

    private struct Window {
        /// A client is added with its first line, so there are never more than `Limits.total`.
        var clients: [String: Client] = [:]
        var lines = 0
    }

    let limits: Limits
    /// The second that the windows count, in whole seconds.
    private var second: Int64 = .min
    private var windows = [Window](repeating: Window(), count: Kind.allCases.count)
    private var omitted = 0

    init(limits: Limits) {
        self.limits = limits
    }

    /// Whether to write the line; if so, it is counted as written. Call `end(before:)` first.
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

    /// nil when no line is left for a new client.
    private func newcomer(_ place: Int) -> Client? {
        windows[place].lines < limits.total ? Client() : nil
    }

    /// Ends the counted second if it lies before `second`, and returns the lines omitted in it; nil when there were
    /// none.
    mutating func end(before second: Int64) -> Omitted? {
        guard second > self.second else { return nil }
        let busiest = windows.flatMap(\.clients).max { ($0.value.omitted, $1.key) < ($1.value.omitted, $0.key) }
        let named = busiest.flatMap { $0.value.omitted > 0 ? $0 : nil }
        let report = Omitted(count: omitted, busiestClient: named?.key, busiestCount: named?.value.omitted ?? 0)
        for place in windows.indices { windows[place] = Window() }
        omitted = 0
        return report.count > 0 ? report : nil
    }

    /// The number of tracked clients, for the test of the bound.
    var clientCount: Int { windows.reduce(0) { $0 + $1.clients.count } }
}
