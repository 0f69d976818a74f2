// The results of the checks of /readyz, as metrics.

import API
import CoreMetrics
import MetricInstruments

extension MetricFamily {
    static let ready = MetricFamily(
        "dwell_ready", "1 while /readyz returns 200, else 0.")
    static let readyChecks = MetricFamily(
        "dwell_ready_check", "1 for each check of /readyz that passes, else 0; redis never causes 503.")
}

struct ReadinessSampling: Sendable {
    private let readiness: Readiness
    private let ready: any MeterHandler
    private let database: any MeterHandler
    private let drain: any MeterHandler
    private let factory: any MetricsFactory

    init(_ readiness: Readiness, factory: any MetricsFactory) {
        self.readiness = readiness
        self.factory = factory
        ready = factory.gauge(.ready)
        database = factory.gauge(.readyChecks, [("check", "database")])
        drain = factory.gauge(.readyChecks, [("check", "drain")])
    }

    func sample() async {
        let report = await readiness.report()
        ready.set(Int64(report.isReady ? 1 : 0))
        database.set(Int64(report.database == .takesWrites ? 1 : 0))
        drain.set(Int64(report.isDraining ? 0 : 1))
        // If Redis is not configured, it is not checked.
        guard report.redis != .notConfigured else { return }
        factory.gauge(.readyChecks, [("check", "redis")]).set(Int64(report.redis == .serves ? 1 : 0))
    }
}
