// A queue in an array. Removing the first element usually does not move the other elements.

struct FirstInFirstOut<Element> {
    private var elements: [Element?] = []
    private var head = 0

    var isEmpty: Bool { head == elements.count }
    var count: Int { elements.count - head }
    var first: Element? { head < elements.count ? elements[head] : nil }
    var all: [Element] { elements[head...].compactMap { $0 } }

    mutating func append(_ element: Element) {
        elements.append(element)
    }

    mutating func popFirst() -> Element? {
        guard head < elements.count else { return nil }
        // Takes the element out of the array, so that the queue keeps no reference to it.
        let element = elements[head].take()
        head += 1
        if head == elements.count {
            elements.removeAll(keepingCapacity: true)
            head = 0
        } else if head >= 4096 {
            elements.removeFirst(head)
            head = 0
        }
        return element
    }

    mutating func updateFirst(_ body: (inout Element) -> Void) {
        guard head < elements.count, var element = elements[head].take() else { return }
        body(&element)
        elements[head] = element
    }

    mutating func prepend(_ more: [Element]) {
        elements.replaceSubrange(..<head, with: more.map { Optional($0) })
        head = 0
    }
}
