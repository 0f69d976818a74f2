// Compares docs/architecture.md with Package.swift, the directories and the code. Also compares Package.swift with the
// imports of each module.

import Foundation
import Testing

@Suite struct ArchitectureTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../..")
        .standardized

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: root.appending(path: path), encoding: .utf8)
    }

    /// For each module, the modules that it imports.
    private typealias Arrows = [String: Set<String>]

    /// Returns the targets that each target in Package.swift may import.
    private static func declared() throws -> Arrows {
        var arrows: Arrows = [:]
        let targets = try text("Package.swift").split(
            separator: #/\.(?:target|executableTarget|systemLibrary|testTarget)\(/#)
        for target in targets.dropFirst() {
            guard let name = target.firstMatch(of: #/name: "(\w+)"/#)?.1 else { continue }
            var below: Set<String> = []
            if let list = target.replacing(#/\.product\([^)]*\)/#, with: "")
                .firstMatch(of: #/dependencies: \[([^\]]*)\]/#)?.1
            {
                below = Set(list.matches(of: #/"(\w+)"/#).map { String($0.1) })
            }
            arrows[String(name)] = below
        }
        return arrows
    }

    /// Returns the arrows of the diagram, for example `A & B --> C & D`. Arrows may be dotted.
    private static func drawn() throws -> Arrows {
        let picture = try #require(try text("docs/architecture.md").split(separator: "```mermaid").dropFirst().first)
        var arrows: Arrows = [:]
        for line in picture.prefix(while: { $0 != "`" }).split(separator: "\n") {
            guard let arrow = line.firstRange(of: #/-->|-\.->/#) else { continue }
            let names = { (part: Substring) in
                part.split(separator: "&").map { $0.trimmingCharacters(in: .whitespaces) }
            }
            for from in names(line[..<arrow.lowerBound]) {
                arrows[from, default: []].formUnion(names(line[arrow.upperBound...]))
            }
        }
        return arrows
    }

    private static func reachable(from module: String, _ arrows: Arrows) -> Set<String> {
        var found: Set<String> = []
        var waiting = [module]
        while let next = waiting.popLast() {
            for below in arrows[next] ?? [] where found.insert(below).inserted { waiting.append(below) }
        }
        return found
    }

    private static func imported(_ module: String, of modules: Set<String>) throws -> Set<String> {
        var found: Set<String> = []
        let folder = root.appending(path: "Sources/\(module)")
        let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
        for case let file as URL in files where file.pathExtension == "swift" {
            let text = try String(contentsOf: file, encoding: .utf8)
            for match in text.matches(
                of: #/(?m)^(?:package |internal |public |private )?import (?:struct |func )?(\w+)/#)
            {
                found.insert(String(match.1))
            }
        }
        return found.intersection(modules)
    }

    /// Returns the folders of Sources that are targets of Package.swift.
    private static func modules(_ declared: Arrows) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: root.appending(path: "Sources").path)
            .filter { declared[$0] != nil }.sorted()
    }

    @Test func `every arrow of the picture is one of Package.swift`() throws {
        let declared = try Self.declared()
        let drawn = try Self.drawn()
        #expect(drawn.count > 10)
        for (module, below) in drawn {
            let missing = below.subtracting(declared[module] ?? [])
            #expect(missing.isEmpty, "\(module) does not depend on \(missing.sorted())")
        }
    }

    @Test func `the picture leads from each module to all that it imports`() throws {
        let declared = try Self.declared()
        let drawn = try Self.drawn()
        // The diagram leaves out module maps and C modules.
        let isSwift = { (name: String) in name.first != "C" || name.dropFirst().first?.isUppercase == false }
        for module in try Self.modules(declared) where isSwift(module) {
            let below = (declared[module] ?? []).filter(isSwift)
            let missing = below.subtracting(Self.reachable(from: module, drawn))
            #expect(missing.isEmpty, "no arrow leads from \(module) to \(missing.sorted())")
        }
    }

    @Test func `each module imports what Package.swift lists, and all of it`() throws {
        let declared = try Self.declared()
        let names = Set(declared.keys)
        let modules = try Self.modules(declared)
        #expect(modules.count > 15)
        for module in modules where !(declared[module] ?? []).isEmpty {
            let imported = try Self.imported(module, of: names).subtracting([module])
            let listed = declared[module] ?? []
            #expect(imported == listed, "\(module): \(imported.symmetricDifference(listed).sorted())")
        }
    }

    /// Returns the packages that each target in Package.swift uses.
    private static func packages() throws -> [String: Set<String>] {
        var packages: [String: Set<String>] = [:]
        for target in try text("Package.swift").split(separator: #/\.(?:target|executableTarget)\(/#).dropFirst() {
            let own = target.prefix(upTo: target.firstRange(of: ".testTarget(")?.lowerBound ?? target.endIndex)
            guard let name = own.firstMatch(of: #/name: "(\w+)"/#)?.1 else { continue }
            packages[String(name)] = Set(own.matches(of: #/package: "([^"]+)"/#).map { String($0.1) })
        }
        return packages
    }

    @Test func `the table of modules names the packages of each`() throws {
        // The page calls two packages by the names of their modules.
        let names = ["jwt-kit": "JWTKit", "GRDB.swift": "GRDB"]
        let page = try Self.text("docs/architecture.md")
        let packages = try Self.packages()
        let all = Set(packages.values.joined()).map { names[$0] ?? $0 }
        let rows = page.matches(of: #/(?m)^\| `(\w+)` \|[^|]*\|[^|]*\|([^|]*)\|$/#)
        #expect(rows.count > 15)
        for row in rows {
            let used = Set((packages[String(row.1)] ?? []).map { names[$0] ?? $0 })
            let listed = Set(all.filter { row.2.contains($0) })
            #expect(listed == used, "\(row.1): \(listed.symmetricDifference(used).sorted())")
        }
    }

    @Test func `no module reaches back`() throws {
        let declared = try Self.declared()
        for module in declared.keys {
            #expect(!Self.reachable(from: module, declared).contains(module), "\(module) imports itself in the end")
        }
    }

    /// Returns the list in the section "Every file": for each folder, the names of its files. One line of this list is
    /// "- `Sources/Sockets/`: Connection, EventLoop".
    private static func listedFiles() throws -> [String: String] {
        var listed: [String: String] = [:]
        for match in try text("docs/architecture.md").matches(of: #/(?m)^- `([\w\/]+)\/`: (.+)$/#) {
            listed[String(match.1)] = String(match.2)
        }
        return listed
    }

    /// Returns the existing files in the form that `listedFiles` returns. Leaves out hidden files, fixtures, Python's
    /// caches, and the symlinks to migrations/.
    private static func files() throws -> [String: String] {
        let isListed = { (path: String) in
            !path.contains(#/(^|\/)\.|Store/Migrations|/Fixtures|__pycache__/#)
        }
        var names: [String: [String]] = [:]
        for folder in ["Sources", "Tests", "config", "docker", "scripts"] {
            let paths = try #require(FileManager.default.enumerator(atPath: root.appending(path: folder).path))
            for case let path as String in paths where isListed("\(folder)/\(path)") {
                let file = root.appending(path: folder).appending(path: path)
                guard try file.resourceValues(forKeys: [.isRegularFileKey]).isRegularFile == true else { continue }
                let parent = ([folder] + path.split(separator: "/").dropLast().map(String.init)).joined(separator: "/")
                let name = file.lastPathComponent
                names[parent, default: []].append(file.pathExtension == "swift" ? String(name.dropLast(6)) : name)
            }
        }
        return names.mapValues { $0.sorted().joined(separator: ", ") }
    }

    @Test func `the page lists every file`() throws {
        let listed = try Self.listedFiles()
        let found = try Self.files()
        #expect(found.count > 40)
        for folder in Set(listed.keys).union(found.keys).sorted() {
            #expect(listed[folder] == found[folder], "expected: - `\(folder)/`: \(found[folder] ?? "no such line")")
        }
    }

    @Test func `every Swift file that the pages for contributors name exists`() throws {
        let folders = try Self.files().flatMap { folder, names in
            names.split(separator: ", ").map { "/\(folder)/\($0).swift" }
        }
        for page in ["CONTRIBUTING.md", "docs/architecture.md"] {
            let named = Set(try Self.text(page).matches(of: #/`([\w\/+]+\.swift)`/#).map { String($0.1) })
            #expect(named.count > 20)
            let missing = named.subtracting(["Package.swift"]).filter { name in
                !folders.contains { $0.hasSuffix("/\(name)") }
            }
            #expect(missing.isEmpty, "\(page): \(missing.sorted())")
        }
    }

    @Test func `the page lists the middleware in its order`() throws {
        let listed = try Self.text("docs/architecture.md").matches(of: #/(?m)^\d+\. `(\w+)`: /#).map { String($0.1) }
        let declared = try Self.text("Sources/HTTPServer/Middleware.swift")
            .matches(of: #/(?m)^struct (\w+): \w+Middleware\b/#).map { String($0.1) }
        #expect(listed.count == 9)
        #expect(listed == declared)
    }

    @Test func `every function of the road is in its file`() throws {
        let text = try Self.text("docs/architecture.md")
        let road = try #require(text.split(separator: "## The road of one event").last)
        let steps = road.matches(of: #/(?m)^\d+\. `([\w\/+.]+)` `(\w+)`/#)
        #expect(steps.count > 20)
        for step in steps {
            let source = try Self.text("Sources/\(step.1)")
            #expect(source.contains(try Regex("\\bfunc \(step.2)\\b")), "\(step.1): \(step.2)")
        }
    }
}
