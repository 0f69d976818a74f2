/// An answer of another kind than the test goes on with.
struct Unexpected: Error {
    var description: String
}
