// Runs every input of Fuzz/Corpus through its fuzz target. The target throws if the code breaks a promise for the
// input.

import Foundation
import FuzzTargets
import Testing

@Suite struct CorpusTests {
    private static let folder = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .appending(path: "Fuzz/Corpus")

    static let names = FuzzTarget.all.map(\.name)

    @Test(arguments: names) func everyInputKeepsThePromises(_ name: String) async throws {
        let target = try #require(FuzzTarget.all.first { $0.name == name })
        let inputs = try Self.inputs(of: name)
        #expect(inputs.count >= 10, "The corpus of \(name) is missing.")
        for input in inputs {
            let bytes = try Array(Data(contentsOf: input))
            do throws(Finding) {
                try await target.replay(bytes)
            } catch {
                Issue.record("\(name)/\(input.lastPathComponent): \(error)")
            }
        }
    }

    @Test func everyFolderHasItsTarget() throws {
        let folders = try FileManager.default.contentsOfDirectory(atPath: Self.folder.path)
        #expect(Set(folders) == Set(Self.names))
    }

    private static func inputs(of name: String) throws -> [URL] {
        try FileManager.default.contentsOfDirectory(
            at: folder.appending(path: name), includingPropertiesForKeys: nil
        ).sorted { $0.lastPathComponent < $1.lastPathComponent }
    }
}
