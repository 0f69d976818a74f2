// Tests that the systemd units name each secret's file after the secret's variable. `config/settings.sh` computes the
// variable's name from the file's name. If the names differed, commands that are run by hand would lack the secret.

import Foundation
import Testing

@testable import App

struct ServiceSecretTests {
    private static let config = URL(filePath: #filePath).deletingLastPathComponent().appending(path: "../../config")

    @Test(arguments: ["dwell.service", "signin.conf"])
    func `the file of each secret is named after its variable`(unit: String) throws {
        let text = try String(contentsOf: Self.config.appending(path: unit), encoding: .utf8)
        // The line of an optional secret is commented out.
        let lines = text.split(separator: "\n").map { $0.drop { $0 == "#" } }
        let known = Set(Variables.all.map(\.name) + Variables.all.filter(\.isSecret).map(\.fileVariableName))
        var count = 0
        for line in lines where line.hasPrefix("LoadCredential=") {
            let name = line.dropFirst("LoadCredential=".count).prefix { $0 != ":" }
            let variable = name.uppercased() + "_FILE"
            #expect(line == "LoadCredential=\(name):/etc/dwell/secrets/\(name)")
            #expect(lines.contains { $0 == "Environment=\(variable)=%d/\(name)" }, "\(variable)")
            #expect(known.contains(variable), "\(variable)")
            count += 1
        }
        #expect(count > 0)
    }
}
