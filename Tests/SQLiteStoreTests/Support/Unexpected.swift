/// The error of a test that gets another kind of response than it expects.
struct Unexpected: Error {
    var description: String
}
