// Limits the log lines about rejected requests: per second for one client, and per second in total. Otherwise requests,
// which cost nothing to send, could fill the log. Omitted lines are counted. Pure: the current second is passed in.

struct RefusalLineLimiter: Sendable {
    struct Limits: Hashable, Sendable {
        /// Lines about one client per second; at least 1.
        var perClient: Int
        /// Lines per second for each kind of rejection; at least 1.
        var total: Int
    }

    /// Each kind has its own `Limits.total`, so that lines of one kind cannot displace those of another.
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
        /// The client with the most omitted lines among the clients with a written line; nil when none of them has
        /// omitted lines.
        var busiestClient: String?
        var busiestCount: Int
    }

    private struct Client {
        var lines = 0
        var omitted = 0
    }

    private struct Window {
        /// The clients with a written line, so at most `Limits.total` of them.
        var clients: [String: Client] = [:]
        var lines = 0
    }

    let limits: Limits
    /// The second for which the windows hold counts, in whole seconds.
    private var second: Int64 = .min
    private var windows = [Window](repeating: Window(), count: Kind.allCases.count)
    private var omitted = 0

    init(limits: Limits) {
        self.limits = limits
    }

    /// Returns whether to write the line, and counts it as written or omitted. Call `end(before:)` first.
    mutating func admits(_ client: String, _ kind: Kind, at second: Int64) -> Bool {
        if second > self.second { self.second = second }
        let index = kind.rawValue
        guard var entry = windows[index].clients[client] ?? newClient(index) else {
            omitted += 1
            return false
        }
        defer { windows[index].clients[client] = entry }
        guard entry.lines < limits.perClient, windows[index].lines < limits.total else {
            omitted += 1
            entry.omitted += 1
            return false
        }
        entry.lines += 1
        windows[index].lines += 1
        return true
    }

    /// Returns empty counts for a new client; nil when the kind has no line left in this second.
    private func newClient(_ index: Int) -> Client? {
        windows[index].lines < limits.total ? Client() : nil
    }

    /// Ends the counted second if it lies before `second`. Returns the lines omitted in the ended second; nil when
    /// there were none.
    mutating func end(before second: Int64) -> Omitted? {
        guard second > self.second else { return nil }
        let busiest = windows.flatMap(\.clients).max { ($0.value.omitted, $1.key) < ($1.value.omitted, $0.key) }
        let named = busiest.flatMap { $0.value.omitted > 0 ? $0 : nil }
        let report = Omitted(count: omitted, busiestClient: named?.key, busiestCount: named?.value.omitted ?? 0)
        for index in windows.indices { windows[index] = Window() }
        omitted = 0
        return report.count > 0 ? report : nil
    }

    /// The number of tracked clients, for the test of the bound.
    var clientCount: Int { windows.reduce(0) { $0 + $1.clients.count } }
}
