// The values that this module sends and reads, and their types in PostgreSQL. Other types are converted in SQL, for
// example with `::text`.

/// A parameter, or a value of a column. The elements of an array may be NULL.
package enum PostgresValue: Hashable, Sendable {
    /// NULL. The server infers the type of this parameter from the statement. If the server cannot infer the type, add
    /// a cast in the SQL, for example `$1::int8`.
    case null
    case bool(Bool)
    case int2(Int16)
    case int4(Int32)
    case int8(Int64)
    /// Must not contain U+0000, which PostgreSQL cannot store.
    case text(String)
    case bytea([UInt8])
    case bools([Bool?])
    case int2s([Int16?])
    case int8s([Int64?])
    case texts([String?])
    case byteas([[UInt8]?])
}

/// A type of PostgreSQL, identified by its OID (pg_type.dat). These OIDs are the same in all versions.
struct PostgresType: RawRepresentable, Hashable, Sendable {
    let rawValue: UInt32

    /// The type of a parameter that the server infers.
    static let inferred = PostgresType(rawValue: 0)
    static let bool = PostgresType(rawValue: 16)
    static let bytea = PostgresType(rawValue: 17)
    static let int8 = PostgresType(rawValue: 20)
    static let int2 = PostgresType(rawValue: 21)
    static let int4 = PostgresType(rawValue: 23)
    static let text = PostgresType(rawValue: 25)
    static let bools = PostgresType(rawValue: 1000)
    static let byteas = PostgresType(rawValue: 1001)
    static let int2s = PostgresType(rawValue: 1005)
    static let texts = PostgresType(rawValue: 1009)
    static let int8s = PostgresType(rawValue: 1016)

    /// text itself, and the types with the same binary form: name, bpchar, varchar.
    private static let textLike: Set<UInt32> = [19, 25, 1042, 1043]

    func isReadable(as wanted: PostgresType) -> Bool {
        self == wanted || wanted == .text && Self.textLike.contains(rawValue)
    }
}

extension PostgresValue {
    /// The type that a parameter with this value declares.
    var type: PostgresType {
        switch self {
        case .null: .inferred
        case .bool: .bool
        case .int2: .int2
        case .int4: .int4
        case .int8: .int8
        case .text: .text
        case .bytea: .bytea
        case .bools: .bools
        case .int2s: .int2s
        case .int8s: .int8s
        case .texts: .texts
        case .byteas: .byteas
        }
    }
}
