// The Citus cluster that DWELL_TEST_CITUS_URL names. If the variable is set, StoreFixture and TestDatabase use this
// cluster, not the shared PostgreSQL. Each test has its own schema in the URL's database.

import Foundation

package struct CitusCluster: Sendable {
    /// The URL of a database on the coordinator. All servers of the cluster need the extension `citus`. The URL's user
    /// needs the rights to create schemas and to end connections.
    private let url: String

    /// Nil if the environment names no cluster.
    package static let named: CitusCluster? = ProcessInfo.processInfo.environment["DWELL_TEST_CITUS_URL"]
        .map { CitusCluster(url: $0) }

    /// Returns the cluster's URL, and adds `schema` as the search path.
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
