// Limits the time of samples that query the database. While the database is down or slow, a query may take seconds.
// Without the limit, Prometheus would give up on the whole scrape, including the metrics that need no query.

import Engine

struct DatabaseSampling: Sendable {
    /// How long scrapes wait for a sample, counted from the start of the sample. A scrape also waits for the readiness
    /// check. Both waits together are shorter than ten seconds, the default timeout of Prometheus.
    static let patience = Duration.seconds(2)

    private let queries: @Sendable () async -> Void
    private let run: SharedRun

    /// - Parameters:
    ///   - patience: how long scrapes wait for a sample, counted from the start of the sample.
    ///   - queries: queries the database and sets the metrics.
    init(patience: Duration = patience, queries: @escaping @Sendable () async -> Void) {
        self.queries = queries
        run = SharedRun(patience: patience)
    }

    /// Starts a sample, or joins the running sample. Returns when the sample has ended, or `patience` after its start.
    /// Metrics whose queries have not ended keep their previous values.
    func sample() async { await run.join(queries) }
}
