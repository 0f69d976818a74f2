// Limits how many log lines about rejected requests are written per second, both for each client and in total. Without
// limits, a client could fill the log, because rejected requests cost the client nothing.
//
// The limiter counts the omitted lines. It has no clock, so callers pass the current second.

struct RefusalLineLimiter: Sendable {
    struct Limits: Hashable, Sendable {
        /// The maximum number of lines about one client per second for each kind of rejection; at least 1.
        var perClient: Int
        /// The maximum number of lines per second for each kind of rejection; at least 1.
        var total: Int
    }

    /// The kinds of rejection. Each kind has its own limits, so that lines of one kind cannot displace lines of another
    /// kind.
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
        /// The client with the most omitted lines; nil if there is none. The comparison includes only clients about
        /// which at least one line was written in that second.
        var busiestClient: String?
        var busiestCount: Int
    }

    private struct Client {
        var lines = 0
        var omitted = 0
    }

    private struct Window {
        /// The clients about which a line was written in this second. There are at most `Limits.total` of them.
        var clients: [String: Client] = [:]
        var lines = 0
    }

    let limits: Limits
    /// The second whose lines `windows` counts, as whole seconds since 1970.
    private var second: Int64 = .min
    private var windows = [Window](repeating: Window(), count: Kind.allCases.count)
    private var omitted = 0

    init(limits: Limits) {
        self.limits = limits
    }

    /// Returns whether the caller may write the line, and counts the line as written or omitted. The caller must call
    /// `end(before:)` first, because only `end(before:)` resets the counts of an earlier second.
    mutating func admits(_ client: String, _ kind: Kind, at second: Int64) -> Bool {
        if isOver(at: second) { self.second = second }
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

    private func newClient(_ index: Int) -> Client? {
        windows[index].lines < limits.total ? Client() : nil
    }

    /// If the counted second is over (`isOver(at:)`), resets the counts and returns the omitted lines. Returns nil if
    /// the counted second is not over, or if no lines were omitted in it.
    mutating func end(before second: Int64) -> Omitted? {
        guard isOver(at: second) else { return nil }
        let busiest = windows.flatMap(\.clients).max { ($0.value.omitted, $1.key) < ($1.value.omitted, $0.key) }
        let named = busiest.flatMap { $0.value.omitted > 0 ? $0 : nil }
        let report = Omitted(count: omitted, busiestClient: named?.key, busiestCount: named?.value.omitted ?? 0)
        for index in windows.indices { windows[index] = Window() }
        omitted = 0
        return report.count > 0 ? report : nil
    }

    /// Returns whether the counted second (`self.second`) is over at `second`.
    ///
    /// The counted second is over if `second` is higher. It is also over if `second` is lower by more than one, because
    /// this means that the clock was set back. If `second` is lower by one, another caller may have read the clock
    /// later and called first.
    private func isOver(at second: Int64) -> Bool {
        second > self.second || self.second - second > 1
    }

    /// The number of clients for which the limiter keeps counts. A test checks that this number is bounded.
    var clientCount: Int { windows.reduce(0) { $0 + $1.clients.count } }
}
