"""The two routes of the benchmark, written in the usual way with FastAPI, redis-py, and SQLite or PostgreSQL. uvicorn
runs two processes of this service.

The service is optimized:

- The libraries are uvloop, httptools, hiredis, asyncpg and orjson.
- Verified tokens are cached.
- One Lua script checks the rate limit and detects repeats.
- The settings are encoded once.
- There is no access log."""

import contextlib
import datetime
import os
import time

import jwt
import orjson
import redis.asyncio
from fastapi import Depends, FastAPI, Header, HTTPException, Request, Response
from pydantic import BaseModel, Field

import store_postgres
import store_sqlite

LIMIT = int(os.environ.get("RATE_LIMIT_SESSION_EVENTS", 60))
WINDOW_MS = int(os.environ.get("RATE_LIMIT_WINDOW_SECONDS", 60)) * 1000
SECRET = os.environ["JWT_SECRET"]

# Returns 0 if the event is admitted, 1 if it is already stored, 2 if the driver has reached the rate limit. The limit
# is a sliding window log.
ADMISSION = """
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
if redis.call('EXISTS', KEYS[2]) == 1 then return 1 end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 2 end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 0
"""

SETTINGS = orjson.dumps({
    "chargerIntentRadius_m": 400, "chargerAnchorRadius_m": 30, "chargerDwellSeconds": 120,
    "merchantUnlockRadius_m": 40, "gracePeriodSeconds": 900, "hardTimeoutSeconds": 3600,
    "locationAccuracyThreshold_m": 50, "speedThresholdForDwell_mps": 1.5,
})
SETTINGS_FIELDS = {"ETag": '"2dc2c112dbf76568"', "Cache-Control": "private, max-age=86400"}

class Event(BaseModel):
    event_id: str = Field(min_length=1, max_length=128)
    session_id: str | None = Field(None, min_length=1, max_length=128)
    event: str
    occurred_at: datetime.datetime
    charger_id: str | None = None
    source: str = "ios_native"
    app_state: str | None = None
    metadata: dict | None = None


@contextlib.asynccontextmanager
async def lifespan(service):
    connection = redis.asyncio.Redis.from_url(os.environ["REDIS_URL"])
    service.state.redis = connection
    service.state.admit = connection.register_script(ADMISSION)
    if url := os.environ.get("DATABASE_URL"):
        service.state.store = await store_postgres.Store.open(url)
    else:
        service.state.store = store_sqlite.Store(os.environ["DATABASE_PATH"])
    yield
    await service.state.store.close()
    await connection.aclose()


app = FastAPI(lifespan=lifespan, openapi_url=None)
verified = {}


async def driver_of(authorization: str = Header("")):
    known = verified.get(authorization)
    if known and known[1] > time.time():
        return known[0]
    try:
        claims = jwt.decode(authorization.removeprefix("Bearer "), SECRET, ["HS256"], issuer="dwell", audience="dwell")
    except jwt.InvalidTokenError:
        raise HTTPException(401) from None
    if len(verified) >= 10_000:
        verified.clear()
    verified[authorization] = (claims["sub"], claims["exp"])
    return claims["sub"]


@app.get("/native/config")
async def config(driver: str = Depends(driver_of)):
    return Response(SETTINGS, media_type="application/json", headers=SETTINGS_FIELDS)


@app.get("/healthz")
async def healthz():
    return Response(b"ok")


@app.post("/native/events")
async def post(event: Event, request: Request, driver: str = Depends(driver_of)):
    state = request.app.state
    known = f"stored:{{{driver}}}:{event.event_id}"
    if LIMIT:
        verdict = await state.admit([f"window:{{{driver}}}", known], [LIMIT, WINDOW_MS, event.event_id])
        if verdict == 2:
            raise HTTPException(429, headers={"Retry-After": "1"})
    answer = await state.store.append(event, driver)
    if answer is None:
        raise HTTPException(422)
    status, standing, transition = answer
    if status == "ok":
        await state.redis.set(known, 1, ex=86400)
    body = {"status": status, "event_id": event.event_id, "session": {"state": standing, "transition": transition}}
    return Response(orjson.dumps(body), media_type="application/json")
