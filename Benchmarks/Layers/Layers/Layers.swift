// Measures the time and the allocations of one operation of each layer. `make test` compares the allocations with the
// limits in allocations.txt, because their number is the same on every machine. `make bench-layers` also counts system
// calls.
//
//   Layers [--only parse,fold] [--rounds 5]          prints a line for each layer
//   Layers --check allocations.txt                   exits with 1 if a layer allocates more than its limit
//   Layers --only append --operations 1000           runs the operations without measuring them, for strace

import Allocations
import Foundation

@main
struct Layers {
    static func main() async throws {
        let options = try Options(CommandLine.arguments.dropFirst())
        let layers = try await Layer.all().filter { options.only.isEmpty || options.only.contains($0.name) }
        if let operations = options.operations {
            for layer in layers {
                defer { layer.cleanUp() }
                try await layer.run(0, operations)
            }
            return
        }
        let limits = try options.limits()
        var failed = false
        for layer in layers {
            let cost = try await measured(layer, rounds: options.rounds)
            let name = layer.name.padding(toLength: 10, withPad: " ", startingAt: 0)
            var line = name + String(format: "%10.0f ns %8.2f allocations", cost.nanoseconds, cost.allocations)
            if let limits {
                let limit = limits[layer.name]
                // The limit may be exceeded by 0.02, because the loop around the operations also allocates. Its share
                // is less than 0.02 allocations per operation.
                let holds = limit.map { cost.allocations <= $0 + 0.02 } ?? false
                failed = failed || !holds
                line += "  " + (limit.map { "at most \($0)" } ?? "no limit in the file") + (holds ? "" : "  TOO MANY")
            }
            print(line)
        }
        if failed { exit(1) }
    }

    struct Cost {
        var nanoseconds = Double.infinity
        var allocations = Double.infinity
    }

    /// Returns the minimum over all rounds except the first, which is a warm-up. Other work on the machine makes some
    /// rounds slower, so the minimum is the most reliable time.
    static func measured(_ layer: Layer, rounds: Int) async throws -> Cost {
        defer { layer.cleanUp() }
        var best = Cost()
        let clock = ContinuousClock()
        for round in 0...rounds {
            let before = allocations_so_far()
            let start = clock.now
            try await layer.run(round, layer.operations)
            let took = clock.now - start
            let allocated = allocations_so_far() - before
            if round == 0 { continue }
            best.nanoseconds = min(best.nanoseconds, took / .nanoseconds(layer.operations))
            best.allocations = min(best.allocations, Double(allocated) / Double(layer.operations))
        }
        return best
    }
}

struct Options {
    var only: Set<String> = []
    var rounds = 5
    var operations: Int?
    var checked: String?

    init(_ words: ArraySlice<String>) throws {
        var words = words
        while let name = words.popFirst() {
            guard let value = words.popFirst() else { throw Unusable(what: "\(name) wants a value") }
            switch name {
            case "--only": only = Set(value.split(separator: ",").map(String.init))
            case "--rounds": rounds = Int(value) ?? rounds
            case "--operations": operations = Int(value)
            case "--check": checked = value
            default: throw Unusable(what: "\(name) is no option")
            }
        }
    }

    /// A line has the name of a layer, and its maximum allocations per operation. # begins a comment.
    func limits() throws -> [String: Double]? {
        guard let checked else { return nil }
        var limits: [String: Double] = [:]
        for line in try String(contentsOfFile: checked, encoding: .utf8).split(separator: "\n") {
            let words = line.prefix { $0 != "#" }.split(separator: " ")
            if words.isEmpty { continue }
            guard words.count == 2, let limit = Double(words[1]) else { throw Unusable(what: "\(checked): \(line)") }
            limits[String(words[0])] = limit
        }
        return limits
    }
}

struct Unusable: Error {
    var what: String
}
