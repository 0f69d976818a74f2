/// Thrown when a test gets a kind of response that it does not expect.
struct Unexpected: Error {
    var description: String
}
