// Checks that every metric is declared once, next to the code that counts it. Reads the declarations from the sources.

import Foundation
import Testing

@Suite struct MetricFamilyTests {
    private struct Declaration {
        var name: String
        var help: String
        var file: String
    }

    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardized

    private static func declarations() throws -> [Declaration] {
        var found: [Declaration] = []
        let sources = root.appending(path: "Sources")
        let files = try #require(FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil))
        for case let file as URL in files where file.pathExtension == "swift" {
            let text = try String(contentsOf: file, encoding: .utf8)
            for match in text.matches(of: #/MetricFamily\(\s*"(\w+)",\s*"([^"]*)"/#) {
                found.append(Declaration(name: String(match.1), help: String(match.2), file: file.lastPathComponent))
            }
        }
        return found
    }

    @Test func `each has a name of its own and a line of help`() throws {
        let declarations = try Self.declarations()
        #expect(declarations.count > 50)
        for declaration in declarations {
            #expect(declaration.name.contains(#/^(dwell|process)_[a-z_]+$/#), "\(declaration)")
            #expect(!declaration.help.isEmpty && !declaration.help.contains("\\n"), "\(declaration)")
        }
        let names = declarations.map(\.name)
        #expect(Set(names).count == names.count)
    }

    @Test func `what the exporter and the instruments are made of names no metric`() throws {
        let files = try Self.declarations().map(\.file)
        for folder in ["MetricInstruments", "PrometheusExport", "StructuredLogging"] {
            let path = Self.root.appending(path: "Sources/\(folder)").path
            let own = try FileManager.default.contentsOfDirectory(atPath: path)
            #expect(!own.isEmpty && Set(own).isDisjoint(with: files), "\(folder)")
        }
    }
}
