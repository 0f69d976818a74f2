// The limit for the samples that query the database. While the database is down or slow, each query fails only after
// seconds. Without a limit, a scrape would take longer than Prometheus waits, and the metrics that need no query would
// be lost too.

actor DatabaseSampling {
    /// How long scrapes wait for a sample, measured from its start. Together with the wait for the check of readiness,
    /// this is less than the ten seconds that Prometheus waits by default.
    static let patience = Duration.seconds(2)

    private let queries: @Sendable () async -> Void
    private let patience: Duration
    private var isSampling = false
    /// Whether the sample under way has taken longer than `patience`.
    private var isSlow = false
    private var waiting: [CheckedContinuation<Void, Never>] = []

    /// - Parameters:
    ///   - patience: how long scrapes wait for a sample, measured from its start.
    ///   - queries: queries the database and sets the metrics.
    init(patience: Duration = patience, queries: @escaping @Sendable () async -> Void) {
        self.patience = patience
        self.queries = queries
    }

    /// Samples the database, or joins the sample under way. Returns after `patience` at the latest. The metrics whose
    /// queries have not ended by then still have their previous values.
    func sample() async {
        if !isSampling { begin() }
        if !isSlow { await withCheckedContinuation { waiting.append($0) } }
    }

    private func begin() {
        isSampling = true
        let timer = Task { [patience] in
            try? await Task.sleep(for: patience)
            // This task is cancelled when the sample has ended.
            if !Task.isCancelled { noteSlow() }
        }
        Task {
            await queries()
            timer.cancel()
            (isSampling, isSlow) = (false, false)
            wakeAll()
        }
    }

    private func noteSlow() {
        isSlow = true
        wakeAll()
    }

    private func wakeAll() {
        for continuation in waiting { continuation.resume() }
        waiting = []
    }
}
