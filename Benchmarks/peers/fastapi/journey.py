"""The transitions of a journey, as both stores apply them."""

# (state, event, has a session) -> the next state. Unlike Dwell, this service does not sort late events by their time.
MOVES = {
    ("IDLE", "enteredChargerIntentZone", False): "NEAR_CHARGER",
    ("SESSION_ENDED", "enteredChargerIntentZone", False): "NEAR_CHARGER",
    ("NEAR_CHARGER", "exitedChargerIntentZone", False): "IDLE",
    ("NEAR_CHARGER", "anchorDwellComplete", False): "ANCHORED",
    ("ANCHORED", "exitedChargerAnchorZone", False): "NEAR_CHARGER",
    ("ANCHORED", "exclusiveActivatedByWeb", True): "SESSION_ACTIVE",
    ("SESSION_ACTIVE", "exitedChargerAnchorZone", True): "IN_TRANSIT",
    ("IN_TRANSIT", "enteredMerchantZone", True): "AT_MERCHANT",
    ("IN_TRANSIT", "gracePeriodExpired", True): "SESSION_ENDED",
    ("AT_MERCHANT", "visitVerifiedByWeb", True): "SESSION_ENDED",
    ("SESSION_ENDED", "reset", True): "IDLE",
}
MOVING = {event for _, event, _ in MOVES}


def applied(state, event):
    """Returns the next state and the `transition` of the response. If the state does not change, the next state is
    None."""
    after = MOVES.get((state, event.event, event.session_id is not None))
    return after, "applied" if after else "rejected" if event.event in MOVING else "none"
