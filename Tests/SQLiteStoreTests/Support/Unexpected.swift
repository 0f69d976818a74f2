/// A response of another kind than the test expects.
struct Unexpected: Error {
    var description: String
}
