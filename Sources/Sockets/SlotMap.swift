/// Maps the tokens of poller events to values. Slots are reused, so a token also contains the generation of its slot.
/// Each removal changes the generation.
///
/// The handler of an event may remove the value of a later event in the same batch. The token of the later event then
/// has an outdated generation, so the event finds no value.
struct SlotMap<Value> {
    private struct Slot {
        var generation: UInt32 = 0
        var value: Value?
    }
    private var slots: [Slot] = []
    private var free: [Int] = []

    subscript(token: UInt64) -> Value? {
        let index = Int(token & 0xffff_ffff)
        guard index < slots.count, slots[index].generation == UInt32(token >> 32) else { return nil }
        return slots[index].value
    }

    var all: [Value] { slots.compactMap(\.value) }

    mutating func insert(_ value: Value) -> UInt64 {
        let index = free.popLast() ?? slots.count
        if index == slots.count { slots.append(Slot()) }
        slots[index].value = value
        return UInt64(slots[index].generation) << 32 | UInt64(index)
    }

    mutating func remove(_ token: UInt64) {
        let index = Int(token & 0xffff_ffff)
        guard index < slots.count, slots[index].generation == UInt32(token >> 32) else { return }
        slots[index].value = nil
        slots[index].generation &+= 1
        free.append(index)
    }
}
