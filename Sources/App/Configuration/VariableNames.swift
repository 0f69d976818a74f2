// Distinguishes mistyped names in an environment file from names that belong to other programs. The functions are pure.

enum VariableNames {
    /// An undeclared name that resembles a declared name.
    struct Finding: Hashable, Sendable {
        /// The declared name that the operator probably meant; nil if no declared name is similar.
        var nearest: String?
    }

    /// Returns a finding for an undeclared name that is probably mistyped; nil for any other name. A mistyped name has
    /// the first word of a declared name, or differs from a declared name in at most two letters.
    static func finding(for name: String) -> Finding? {
        let known = Variables.all.flatMap { $0.isSecret ? [$0.name, $0.fileVariableName] : [$0.name] }
        guard !known.contains(name), name.utf8.count <= nameBytesMax else { return nil }
        let kin = known.filter { firstWord($0) == firstWord(name) }
        let candidates = kin.isEmpty ? known : kin
        let nearest = candidates.map { (name: $0, distance: distance(name, $0)) }.min { $0.distance < $1.distance }
        let distanceMax = kin.isEmpty ? 2 : name.utf8.count / 2
        if let nearest, nearest.distance <= distanceMax { return Finding(nearest: nearest.name) }
        return kin.isEmpty ? nil : Finding(nearest: nil)
    }

    private static func firstWord(_ name: String) -> Substring {
        name.prefix { $0 != "_" }
    }

    private static let nameBytesMax = 128

    /// Returns the Levenshtein distance of two names: the number of characters to insert, delete or replace to turn one
    /// name into the other.
    static func distance(_ one: String, _ other: String) -> Int {
        let other = Array(other.utf8)
        var row = Array(0...other.count)
        for (index, byte) in one.utf8.enumerated() {
            var diagonal = row[0]
            row[0] = index + 1
            for column in other.indices {
                let changed = diagonal + (byte == other[column] ? 0 : 1)
                diagonal = row[column + 1]
                row[column + 1] = min(changed, row[column] + 1, diagonal + 1)
            }
        }
        return row[other.count]
    }
}

/// A name in the environment file that is probably a mistyped variable name.
struct UnknownVariable: Hashable, Sendable, CustomStringConvertible {
    var name: String
    var nearest: String?
    /// The path of the file and the number of the line.
    var location: String

    var description: String {
        "\(location): \(name) is not a variable of this version" + (nearest.map { "; did you mean \($0)?" } ?? "")
    }
}
