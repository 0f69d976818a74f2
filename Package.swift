// swift-tools-version: 6.2
// The modules of Dwell. docs/architecture.md shows how they depend on each other.

import PackageDescription

let commonSettings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
]

// For `make test`, scripts/build sets the variable DWELL_TESTED and uses the debug configuration. In this build, most
// modules are optimized nevertheless, because without optimization the property tests would take hours. The unit tests
// and the integration tests share this build.
//
// The dependencies and App are not optimized, because the build would take twice as long. Of the test targets, only
// JourneyModelTests and TestSupport are optimized, because the property tests have 100,000 random journeys.
//
// Assertions are on, including the assertions of Swift's library that check the bounds of unsafe buffers. The unsafe
// flags are set only for this build, because SwiftPM rejects a dependency that has unsafe flags.
let isTested = Context.environment["DWELL_TESTED"] != nil
let settings =
    commonSettings + (isTested ? [.unsafeFlags(["-O", "-assert-config", "Debug"])] : [])

let package = Package(
    name: "dwell",
    platforms: [.macOS(.v15)],
    products: [
        .library(name: "JourneyModel", targets: ["JourneyModel"]),
        .library(name: "JourneyClient", targets: ["JourneyClient"]),
        .executable(name: "dwell", targets: ["App"]),
    ],
    // Each dependency has an exact version, so that a clean clone builds what was tested. A release also fixes the
    // versions of the indirect dependencies (docs/deploy.md).
    dependencies: [
        .package(url: "https://github.com/groue/GRDB.swift", exact: "7.10.0"),
        .package(url: "https://github.com/vapor/jwt-kit", exact: "5.7.1"),
        .package(url: "https://github.com/apple/swift-crypto", exact: "4.5.2"),
        .package(url: "https://github.com/apple/swift-certificates", exact: "1.21.1"),
        .package(url: "https://github.com/apple/swift-asn1", exact: "1.7.4"),
        .package(url: "https://github.com/apple/swift-argument-parser", exact: "1.8.2"),
        .package(url: "https://github.com/apple/swift-configuration", exact: "1.4.0"),
        .package(url: "https://github.com/apple/swift-log", exact: "1.16.2"),
        .package(url: "https://github.com/apple/swift-metrics", exact: "2.13.0"),
        .package(url: "https://github.com/swift-server/swift-service-lifecycle", exact: "2.13.0"),
    ],
    targets: [
        // Converts days to dates and back, for times in JSON, HTTP fields and log lines.
        .target(name: "GregorianCalendar", swiftSettings: settings),
        // A cache that limits the number and the age of its values. It is used for tokens, sign-in sessions,
        // certificates and rate limit windows.
        .target(name: "Caching", swiftSettings: settings),

        // The domain: no I/O, no clock. It imports only Foundation and GregorianCalendar.
        .target(name: "JourneyModel", dependencies: ["GregorianCalendar"], swiftSettings: settings),

        // The phone's part of the domain, for use in Swift apps. This target does not depend on the server.
        .target(name: "JourneyClient", dependencies: ["JourneyModel"], swiftSettings: settings),

        // The socket server.
        .target(name: "CEpoll"),
        .target(name: "CSignals"),
        .target(name: "HTTP1", swiftSettings: settings),
        .target(name: "Sockets", dependencies: ["CEpoll"], swiftSettings: settings),
        // Log lines.
        .target(
            name: "StructuredLogging",
            dependencies: ["GregorianCalendar", .product(name: "Logging", package: "swift-log")],
            swiftSettings: settings
        ),
        // Secret values, which no text or log line shows.
        .target(name: "Secrets", swiftSettings: settings),
        // The instruments with which each module counts, and the exporter of all metrics. The exporter knows no metric
        // by name.
        .target(
            name: "MetricInstruments",
            dependencies: [.product(name: "CoreMetrics", package: "swift-metrics")], swiftSettings: settings),
        .target(
            name: "PrometheusExport",
            dependencies: ["MetricInstruments", .product(name: "CoreMetrics", package: "swift-metrics")],
            swiftSettings: settings
        ),
        // The decoder of gzip for request bodies.
        .target(name: "GzipCoding", dependencies: ["CZlib"], swiftSettings: settings),
        .target(
            name: "HTTPServer",
            dependencies: [
                "GregorianCalendar", "HTTP1", "Sockets", "MetricInstruments",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings
        ),

        // The rate limits and their sliding windows, in the process and in Redis.
        .systemLibrary(name: "CHiredis", providers: [.apt(["libhiredis-dev"])]),
        .target(name: "CTLS", linkerSettings: [.linkedLibrary("ssl"), .linkedLibrary("crypto")]),
        .target(
            name: "RateLimiting",
            dependencies: [
                "Caching", "JourneyModel", "MetricInstruments", "Sockets", "CHiredis", "CTLS",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings
        ),

        // The application logic, and the ports that adapters implement.
        .target(
            name: "Engine",
            dependencies: [
                "JourneyModel", "RateLimiting", "MetricInstruments", "StructuredLogging",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings
        ),
        .target(
            name: "Identity",
            dependencies: [
                "Caching", "JourneyModel", "Secrets",
                .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ],
            swiftSettings: settings
        ),

        // Apple's signed data about in-app purchases, and the entitlements that result from this data.
        .target(
            name: "Purchases",
            dependencies: [
                "Caching", "Identity", "JourneyModel",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            swiftSettings: settings
        ),

        // Notifications to phones, and the port to the services that deliver them.
        .target(
            name: "Push",
            dependencies: [
                "Engine", "Identity", "JourneyModel", "MetricInstruments", "StructuredLogging",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: settings
        ),

        // The adapters that implement the ports.
        .target(name: "CSQLiteVFS"),
        .target(
            name: "SQLiteStore",
            dependencies: [
                "Engine", "Identity", "JourneyModel", "Push", "RateLimiting", "SharedTables", "MetricInstruments",
                "CSQLiteVFS",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "Crypto", package: "swift-crypto"),
            ],
            exclude: ["Migrations/postgresql"],
            // A symlink to migrations/. The files are embedded in the binary, which can therefore run in any directory.
            resources: [.embedInCode("Migrations")],
            swiftSettings: settings
        ),
        // The client of PostgreSQL: libpq on our event loops. It knows nothing of Dwell.
        .systemLibrary(name: "CPostgres", pkgConfig: "libpq", providers: [.apt(["libpq-dev"])]),
        .target(
            name: "Postgres",
            dependencies: ["CPostgres", "Secrets", "Sockets", .product(name: "Logging", package: "swift-log")],
            swiftSettings: settings
        ),
        // The tables that SQLiteStore and PostgresStore have in common, and the statements on them.
        .target(
            name: "SharedTables",
            dependencies: ["Engine", "Identity", "JourneyModel", "Purchases", "Push"],
            swiftSettings: settings
        ),
        .target(
            name: "PostgresStore",
            dependencies: [
                "Engine", "Identity", "JourneyModel", "MetricInstruments", "Postgres", "Push", "RateLimiting",
                "SharedTables", "Sockets",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ],
            // A symlink to migrations/postgresql/.
            resources: [.embedInCode("Migrations")],
            swiftSettings: settings
        ),
        .systemLibrary(name: "CCurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CZlib", providers: [.apt(["zlib1g-dev"])]),
        // Requests of the server to other services.
        .target(
            name: "Outbound",
            dependencies: [
                "Engine", "Identity", "JourneyModel", "MetricInstruments", "Purchases", "Push", "Secrets",
                "StructuredLogging", "CCurl", "CZlib",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Crypto", package: "swift-crypto"),
            ],
            swiftSettings: settings
        ),

        // The pages for browsers.
        .target(name: "CPages"),
        // Routes and handlers: translates between HTTP and the domain.
        .target(
            name: "API",
            dependencies: [
                "CPages", "HTTPServer", "HTTP1", "Engine", "Identity", "JourneyModel", "Purchases", "RateLimiting",
                "MetricInstruments", "Secrets", "StructuredLogging",
                "GzipCoding",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ],
            // CPages contains these files in the binary.
            exclude: ["Pages"],
            swiftSettings: settings
        ),
        // Scripted drivers against a running server, for `dwell simulate`.
        .target(name: "Simulation", dependencies: ["JourneyClient", "JourneyModel"], swiftSettings: settings),
        .executableTarget(
            name: "App",
            dependencies: [
                "API", "HTTPServer", "HTTP1", "Sockets", "Engine", "Identity", "Postgres", "PostgresStore", "Purchases",
                "Push", "SharedTables",
                "SQLiteStore", "RateLimiting", "Outbound", "JourneyModel", "Simulation", "MetricInstruments",
                "PrometheusExport",
                "Secrets", "StructuredLogging", "CSignals",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
                .product(name: "Configuration", package: "swift-configuration"),
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ServiceLifecycle", package: "swift-service-lifecycle"),
            ],
            // App is not optimized in the build for the tests. It is compiled last and alone, so optimizing it would
            // delay the build. Little of its code runs for each request.
            swiftSettings: commonSettings,
            // docs/decisions/jemalloc.md
            linkerSettings: [
                .linkedLibrary("jemalloc", .when(platforms: [.linux], configuration: isTested ? .debug : .release))
            ]
        ),

        // The fuzz targets. libFuzzer runs them on generated input, and `swift test` runs them on the stored corpora.
        .target(
            name: "FuzzTargets",
            dependencies: [
                "CZlib", "GzipCoding", "HTTP1", "HTTPServer", "Identity", "JourneyModel", "Purchases",
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            path: "Fuzz/Targets",
            swiftSettings: settings),

        // Tests. Most modules have a directory of tests. EndToEndTests and FuzzCorpusTests test several modules.
        .target(
            name: "TestSupport",
            dependencies: [
                "JourneyModel", "Engine", "Identity", "Purchases", "Push", "Secrets", "SharedTables", "Sockets",
                .product(name: "Logging", package: "swift-log"),
            ],
            path: "Tests/TestSupport",
            swiftSettings: settings
        ),
        .testTarget(
            name: "JourneyModelTests", dependencies: ["JourneyModel", "TestSupport"], swiftSettings: settings),
        .testTarget(name: "CachingTests", dependencies: ["Caching"], swiftSettings: commonSettings),
        .testTarget(name: "FuzzCorpusTests", dependencies: ["FuzzTargets"], swiftSettings: commonSettings),
        .testTarget(
            name: "JourneyClientTests", dependencies: ["JourneyClient", "JourneyModel", "TestSupport"],
            swiftSettings: commonSettings),
        .testTarget(name: "HTTP1Tests", dependencies: ["HTTP1", "TestSupport"], swiftSettings: commonSettings),
        .testTarget(name: "SocketsTests", dependencies: ["Sockets", "TestSupport"], swiftSettings: commonSettings),
        .testTarget(
            name: "StructuredLoggingTests",
            dependencies: ["Secrets", "StructuredLogging", .product(name: "Logging", package: "swift-log")],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "PrometheusExportTests",
            dependencies: [
                "MetricInstruments", "PrometheusExport", .product(name: "CoreMetrics", package: "swift-metrics"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "HTTPServerTests",
            dependencies: [
                "HTTPServer", "HTTP1", "Sockets", "PrometheusExport",
                .product(name: "CoreMetrics", package: "swift-metrics"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "EngineTests",
            dependencies: [
                "Engine", "JourneyModel", "RateLimiting", "PrometheusExport", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "IdentityTests",
            dependencies: [
                "Identity", "JourneyModel", "Secrets", "TestSupport",
                .product(name: "JWTKit", package: "jwt-kit"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "PurchasesTests",
            dependencies: [
                "Purchases", "Identity", "JourneyModel", "TestSupport",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "SwiftASN1", package: "swift-asn1"),
                .product(name: "X509", package: "swift-certificates"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "PushTests",
            dependencies: [
                "Push", "Engine", "Identity", "JourneyModel", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "SQLiteStoreTests",
            dependencies: [
                "SQLiteStore", "CSQLiteVFS", "Engine", "Identity", "JourneyModel", "Purchases", "Push", "RateLimiting",
                "Secrets", "SharedTables", "TestSupport",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "GRDBSQLite", package: "GRDB.swift"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "PostgresTests",
            dependencies: [
                "Postgres", "Secrets", "Sockets", "TestSupport", .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "SharedTablesTests",
            dependencies: [
                "SharedTables", "SQLiteStore", "PostgresStore", "Postgres", "Engine", "Identity", "JourneyModel",
                "Purchases", "Push", "Secrets", "Sockets", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "PostgresStoreTests",
            dependencies: [
                "PostgresStore", "Postgres", "Engine", "Identity", "JourneyModel", "Push", "RateLimiting",
                "SharedTables", "Sockets", "TestSupport",
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "RateLimitingTests",
            dependencies: [
                "RateLimiting", "Sockets", "JourneyModel", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "OutboundTests",
            dependencies: [
                "Outbound", "Engine", "Identity", "JourneyModel", "PrometheusExport", "Push", "Sockets", "Secrets",
                "StructuredLogging", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "Crypto", package: "swift-crypto"),
                .product(name: "CryptoExtras", package: "swift-crypto"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "APITests",
            dependencies: [
                "API", "GzipCoding", "HTTPServer", "HTTP1", "Engine", "Identity", "JourneyModel", "Purchases",
                "RateLimiting", "PrometheusExport", "Secrets", "StructuredLogging", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "SimulationTests", dependencies: ["Simulation", "JourneyClient", "JourneyModel"],
            swiftSettings: commonSettings),
        .testTarget(
            name: "EndToEndTests",
            dependencies: [
                "API", "Engine", "HTTPServer", "Identity", "JourneyClient", "JourneyModel", "RateLimiting",
                "SharedTables", "SQLiteStore",
                "Simulation", "Sockets", "Secrets", "TestSupport",
                .product(name: "Logging", package: "swift-log"),
            ],
            swiftSettings: commonSettings
        ),
        .testTarget(
            name: "AppTests",
            dependencies: [
                "API", "App", "Engine", "Identity", "Outbound", "Push", "RateLimiting", "SQLiteStore", "Sockets",
                "PrometheusExport", "Secrets",
                "StructuredLogging", "JourneyModel",
                "TestSupport",
                .product(name: "Logging", package: "swift-log"),
                .product(name: "ArgumentParser", package: "swift-argument-parser"),
            ],
            swiftSettings: commonSettings
        ),
    ]
)

// `make test-one` builds only the test modules that contain the test.
if let modules = Context.environment["DWELL_TEST_MODULES"]?.split(separator: " ").map(String.init) {
    package.targets.removeAll { $0.type == .test && !modules.contains($0.name) }
}

// The fuzz executable, which links libFuzzer. It is built only for `make fuzz`.
if Context.environment["DWELL_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "Fuzz", dependencies: ["FuzzTargets"], path: "Fuzz/Entry",
            swiftSettings: settings + [.unsafeFlags(["-parse-as-library"])]))
}

// The program of `make bench-layers`, with which `make test` checks the allocations. The program contains a malloc that
// counts calls.
if Context.environment["DWELL_LAYERS"] != nil {
    package.targets.append(.target(name: "Allocations", path: "Benchmarks/Layers/Allocations"))
    package.targets.append(
        .executableTarget(
            name: "Layers",
            dependencies: [
                "Allocations", "HTTP1", "HTTPServer", "Identity", "Engine", "JourneyModel", "RateLimiting",
                "SQLiteStore",
                "Secrets",
            ],
            path: "Benchmarks/Layers/Layers",
            swiftSettings: settings
        ))
}

// The program of `scripts/parser-work`, a step of `make test`. It measures the work of each parser on adversarial
// bytes.
if Context.environment["DWELL_LAYERS"] != nil {
    package.targets.append(.target(name: "Marks", path: "Benchmarks/ParserWork/Marks"))
    package.targets.append(
        .executableTarget(
            name: "ParserWork",
            dependencies: [
                "Marks", "API", "GzipCoding", "HTTP1", "HTTPServer", "Identity", "JourneyModel",
            ],
            path: "Benchmarks/ParserWork/ParserWork",
            swiftSettings: settings
        ))
}

// The programs of `make bench-fields` and `make bench-journeys`. `make bench-fields` compares Dwell's header fields
// with those of swift-http-types. Only these commands build the programs, so that Dwell does not depend on
// swift-http-types.
if Context.environment["DWELL_BENCHMARKS"] != nil {
    package.dependencies.append(.package(url: "https://github.com/apple/swift-http-types", from: "1.8.0"))
    package.targets.append(
        .executableTarget(
            name: "HeaderFields",
            dependencies: ["HTTP1", .product(name: "HTTPTypes", package: "swift-http-types")],
            path: "Benchmarks/HeaderFields",
            swiftSettings: settings
        ))
    package.targets.append(
        .executableTarget(
            name: "JourneyLength",
            dependencies: ["SQLiteStore", "Engine", "JourneyModel"],
            path: "Benchmarks/JourneyLength",
            swiftSettings: settings
        ))
}
