// Makes COMMITs wait, so that a test can act during a COMMIT.

import TestSupport

extension StoreFixture {
    /// Returns a database on a server of its own, for tests that change the server's settings. The caller must stop the
    /// server.
    static func databaseOnOwnServer() async throws -> Database {
        let server = try await PostgresServer()
        let database = Database(server: server, name: try await server.createDatabase())
        _ = try await database.migrate()
        return database
    }
}

extension StoreFixture.Database {
    /// Makes each COMMIT wait for the standby `name`. If `name` is empty, a COMMIT waits for no standby. If no standby
    /// has this name, a COMMIT flushes its record to disk and then waits until the setting changes.
    func setStandby(_ name: String) async throws {
        try await rows("ALTER SYSTEM SET synchronous_standby_names = '\(name)'")
        try await rows("SELECT pg_reload_conf()")
        while try await rows("SHOW synchronous_standby_names").joined() != name {
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// Makes the COMMIT of each transaction that inserts into `table` sleep for a minute before anything is committed.
    /// If a test deletes the row of the table `slow`, later COMMITs do not sleep.
    func slowCommits(of table: String) async throws {
        _ = try await rows(
            """
            CREATE TABLE slow (id int8);
            CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN IF EXISTS (SELECT 1 FROM slow) THEN PERFORM pg_sleep(60); END IF; RETURN NULL; END $$;
            CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON \(table) DEFERRABLE INITIALLY DEFERRED
                FOR EACH ROW EXECUTE FUNCTION slow();
            INSERT INTO slow VALUES (1);
            """)
    }

    /// Waits until a backend of this database waits for `event`, and returns its process id.
    ///
    /// - Parameter condition: an SQL condition that the backend's row of `pg_stat_activity` must also satisfy.
    func backend(waitingFor event: String, and condition: String = "true") async throws -> String {
        while true {
            let found = try await rows(
                """
                SELECT pid FROM pg_stat_activity
                WHERE wait_event = '\(event)' AND datname = current_database() AND \(condition) LIMIT 1
                """)
            if let pid = found.first { return pid }
            try await Task.sleep(for: .milliseconds(5))
        }
    }
}
