// The Citus cluster that DWELL_TEST_CITUS_URL names. If this variable is set, StoreFixture and TestDatabase use the
// cluster instead of the shared PostgreSQL. Each test has its own schema in the database that the URL names.

import Foundation

package struct CitusCluster: Sendable {
    /// The URL of a database on the coordinator. All servers of the cluster have the extension `citus`. The URL's user
    /// may create schemas and end connections.
    private let url: String

    /// Nil if the environment names no cluster.
    package static let named: CitusCluster? = ProcessInfo.processInfo.environment["DWELL_TEST_CITUS_URL"]
        .map { CitusCluster(url: $0) }

    /// Returns the cluster's URL, with `schema` as the search path of the sessions that use the URL.
    package func url(schema: String) -> String {
        url + (url.contains("?") ? "&" : "?") + "options=-csearch_path%3D" + schema
    }

    /// Creates an empty schema and returns its name.
    package func createSchema() async throws -> String {
        let name = "test_\(UInt64.random(in: .min ... .max))"
        try await PostgresServer.run("CREATE SCHEMA \(name)", at: url)
        return name
    }
}
