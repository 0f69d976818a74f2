// Limits the log lines about rejected requests, per second for each client and per second in total. Otherwise a client
// could fill the log, because rejected requests cost nothing to send. The number of omitted lines is counted. The
// functions are pure: callers pass the current second.

struct RefusalLineLimiter: Sendable {
    struct Limits: Hashable, Sendable {
        /// The maximum number of lines about one client per second; at least 1.
        var perClient: Int
        /// The maximum number of lines per second for each kind of rejection; at least 1.
        var total: Int
    }

    /// The kinds of rejection. Each kind has its own `Limits.total`, so that lines of one kind cannot displace those of
    /// another.
    enum Kind: Int, CaseIterable {
        /// A 4xx for a client without a valid token.
        case anonymous
        /// A 4xx for a signed-in driver.
        case signedIn
        /// A 5xx.
        case failure
    }

    /// The lines that were omitted in one second.
    struct Omitted: Hashable, Sendable {
        var count: Int
        /// The client with the most omitted lines. Only clients with at least one written line are considered. Nil when
        /// none of them has omitted lines.
        var busiestClient: String?
        var busiestCount: Int
    }

    private struct Client {
        var lines = 0
        var omitted = 0
    }

    private struct Window {
        /// The clients with at least one written line. There are at most `Limits.total` of them.
        var clients: [String: Client] = [:]
        var lines = 0
    }

    let limits: Limits
    /// The second that `windows` counts, in whole seconds.
    private var second: Int64 = .min
    private var windows = [Window](repeating: Window(), count: Kind.allCases.count)
    private var omitted = 0

    init(limits: Limits) {
        self.limits = limits
    }

    /// Returns whether to write the line, and counts the line as written or omitted. Call `end(before:)` first.
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

    /// Returns empty counts for a new client, or nil when no more lines of this kind may be written in this second.
    private func newClient(_ index: Int) -> Client? {
        windows[index].lines < limits.total ? Client() : nil
    }

    /// Ends the counted second if `second` is later. Returns the lines omitted in the ended second, or nil when there
    /// were none.
    mutating func end(before second: Int64) -> Omitted? {
        guard second > self.second else { return nil }
        let busiest = windows.flatMap(\.clients).max { ($0.value.omitted, $1.key) < ($1.value.omitted, $0.key) }
        let named = busiest.flatMap { $0.value.omitted > 0 ? $0 : nil }
        let report = Omitted(count: omitted, busiestClient: named?.key, busiestCount: named?.value.omitted ?? 0)
        for index in windows.indices { windows[index] = Window() }
        omitted = 0
        return report.count > 0 ? report : nil
    }

    /// The number of clients that are counted. A test checks that it is bounded.
    var clientCount: Int { windows.reduce(0) { $0 + $1.clients.count } }
}
