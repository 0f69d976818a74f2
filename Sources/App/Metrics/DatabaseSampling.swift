// The time limit for samples that query the database. While the database is down or slow, a query may take seconds to
// fail. Without a limit, Prometheus would then give up on the whole scrape, including the metrics that need no query.

import Engine

struct DatabaseSampling: Sendable {
    /// How long a scrape waits for a sample, measured from the start of the sample. A scrape also waits for the
    /// readiness check. Both waits together are shorter than ten seconds, the default timeout of Prometheus.
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
