/// Maps the tokens of poller events to values. Each token contains a generation, so that an old event does not reach
/// the next value in a slot: a batch may contain events of a descriptor that was closed while the batch was handled.
struct SlotMap<Value> {
    private struct Place {
        var generation: UInt32 = 0
        var value: Value?
    }
    private var places: [Place] = []
    private var free: [Int] = []

    subscript(token: UInt64) -> Value? {
        let index = Int(token & 0xffff_ffff)
        guard index < places.count, places[index].generation == UInt32(token >> 32) else { return nil }
        return places[index].value
    }

    var all: [Value] { places.compactMap(\.value) }

    mutating func insert(_ value: Value) -> UInt64 {
        let index = free.popLast() ?? places.count
        if index == places.count { places.append(Place()) }
        places[index].value = value
        return UInt64(places[index].generation) << 32 | UInt64(index)
    }

    mutating func remove(_ token: UInt64) {
        let index = Int(token & 0xffff_ffff)
        guard index < places.count, places[index].generation == UInt32(token >> 32) else { return }
        places[index].value = nil
        places[index].generation &+= 1
        free.append(index)
    }
}
