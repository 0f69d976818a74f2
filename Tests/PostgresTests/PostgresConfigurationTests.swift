// Tests of the database URLs that an operator sets. No error and no description contains a password.

import Secrets
import Testing

@testable import Postgres

@Suite struct PostgresConfigurationTests {
    @Test func `a URL is described by its hosts and its database`() throws {
        let configuration = try PostgresConfiguration(
            url: "postgresql://dwell:pass%40word@db1.example:5432,db2.example:5433/dwell?connect_timeout=3")
        #expect(configuration.description == "db1.example,db2.example/dwell")
        #expect(!String(reflecting: configuration).contains("pass"))
        var text = ""
        dump(configuration, to: &text)
        #expect(!text.contains("pass"))
        let parameters = configuration.connectParameters(milliseconds: 60_000)
        #expect(parameters["password"] == "pass@word")
        #expect(parameters["connect_timeout"] == "3")
        #expect(parameters["target_session_attrs"] == "read-write")
        #expect(parameters["sslmode"] == "verify-full")
        #expect(parameters["client_encoding"] == "UTF8")
    }

    @Test func `the time to connect is divided among the hosts`() throws {
        let configuration = try PostgresConfiguration(url: "postgres://a,b,c/dwell")
        #expect(configuration.connectParameters(milliseconds: 9_000)["connect_timeout"] == "3")
        #expect(configuration.connectParameters(milliseconds: 100)["connect_timeout"] == "2")
    }

    @Test func `a second address of a host has time left`() throws {
        let configuration = try PostgresConfiguration(url: "postgres://a/dwell")
        #expect(configuration.connectParameters(milliseconds: 10_000)["connect_timeout"] == "5")
    }

    @Test func `the password beside the URL replaces that of the URL`() throws {
        let configuration = try PostgresConfiguration(url: "postgres://u:first@h/d", password: Secret("second"))
        #expect(configuration.connectParameters(milliseconds: 1)["password"] == "second")
        #expect(configuration.redacting("user second failed") == "user <redacted> failed")
    }

    @Test(arguments: [
        ("mysql://u:sesame@h/d", PostgresConfigurationError.scheme),
        ("host=h password=sesame", .scheme),
        // The passwords in the next three URLs contain characters that must be percent-encoded. Without Dwell's own
        // check, libpq would take a part of the password for the host, the port or the database.
        ("postgres://u:ses@ame@h/d", .credentials),
        ("postgres://u:12/sesame@h/d", .credentials),
        ("postgres://u:ses?ame@h/d", .credentials),
        ("postgres://u:sesame%zz@h/d", .malformed),
        ("postgres://u:sesame%00@h/d", .malformed),
        ("postgres://h/d?sesame=1", .malformed),
        ("postgres://u:sesame@h:port/d", .port),
        ("postgres://u:sesame@h:99999/d", .port),
        ("postgres://u:sesame@h%20x/d", .host),
        ("postgres://u:sesame@h/d?sslmode=sesame", .sslMode),
        ("postgres://u@h/d?target_session_attrs=any&application_name=sesame", .readOnly),
    ])
    func `a bad URL is refused without quoting it`(url: String, expected: PostgresConfigurationError) {
        let error = #expect(throws: PostgresConfigurationError.self) { try PostgresConfiguration(url: url) }
        #expect(error == expected)
        #expect(error.map { "\($0)".contains("sesame") } == false)
    }
}
