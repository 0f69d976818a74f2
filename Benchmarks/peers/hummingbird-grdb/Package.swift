// swift-tools-version: 6.2
// A service with which `make bench` compares Dwell. It is a separate package, so that Dwell does not depend on the
// packages that this service uses.

import PackageDescription

let package = Package(
    name: "peer",
    platforms: [.macOS(.v15)],
    dependencies: [
        .package(url: "https://github.com/hummingbird-project/hummingbird", from: "2.28.1"),
        .package(url: "https://github.com/groue/GRDB.swift", from: "7.10.0"),
        .package(url: "https://github.com/vapor/jwt-kit", from: "5.7.1"),
    ],
    targets: [
        .executableTarget(
            name: "Peer",
            dependencies: [
                .product(name: "Hummingbird", package: "hummingbird"),
                .product(name: "GRDB", package: "GRDB.swift"),
                .product(name: "JWTKit", package: "jwt-kit"),
            ],
            swiftSettings: [.swiftLanguageMode(.v6)]
        )
    ]
)
