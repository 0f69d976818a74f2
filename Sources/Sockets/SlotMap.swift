/// Whom a poller's event is for: tokens with a generation, so that an event that was taken from the kernel in the
/// same batch in which its descriptor was closed does not reach the next owner of the place.
struct SlotMap {
    private struct Place {
        var generation: UInt32 = 0
        var receiver: (any ReadinessReceiver)?
    }
    private var places: [Place] = []
    private var free: [Int] = []

    subscript(token: UInt64) -> (any ReadinessReceiver)? {
        let index = Int(token & 0xffff_ffff)
        guard index < places.count, places[index].generation == UInt32(token >> 32) else { return nil }
        return places[index].receiver
    }

    var all: [any ReadinessReceiver] { places.compactMap(\.receiver) }

    mutating func insert(_ receiver: any ReadinessReceiver) -> UInt64 {
        let index = free.popLast() ?? places.count
        if index == places.count { places.append(Place()) }
        places[index].receiver = receiver
        return UInt64(places[index].generation) << 32 | UInt64(index)
    }

    mutating func remove(_ token: UInt64) {
        let index = Int(token & 0xffff_ffff)
        guard index < places.count, places[index].generation == UInt32(token >> 32) else { return }
        places[index].receiver = nil
        places[index].generation &+= 1
        free.append(index)
    }
}
