// The time limit for the samples that query the database. While the database is down or slow, each query fails only
// after seconds. Without a limit, a scrape would take longer than Prometheus waits, and the metrics that need no query
// would be lost too.

import Engine

struct DatabaseSampling: Sendable {
    /// How long scrapes wait for a sample, measured from the start of the sample. A scrape also waits for the check of
    /// readiness. Together the two waits are shorter than the ten seconds that Prometheus waits by default.
    static let patience = Duration.seconds(2)

    private let queries: @Sendable () async -> Void
    private let run: SharedRun

    /// - Parameters:
    ///   - patience: how long scrapes wait for a sample, measured from the start of the sample.
    ///   - queries: queries the database and sets the metrics.
    init(patience: Duration = patience, queries: @escaping @Sendable () async -> Void) {
        self.queries = queries
        run = SharedRun(patience: patience)
    }

    /// Samples the database, or waits for a sample that is already running. Returns when the sample has ended, but at
    /// the latest `patience` after the sample began. The metrics whose queries have not ended by then keep their
    /// previous values.
    func sample() async { await run.join(queries) }
}
