import sys
import time

import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel, NonNegativeInt

adaptor, job = FastAPI(), {"workers": 2}  # 100 records/s come to the job, and it keeps up with them


class Wanted(BaseModel):
    size: NonNegativeInt


@adaptor.get("/observe")
def observe():
    size, records = job["workers"], 100 * time.monotonic()
    sizes = {"planned": size, "requested": size, "ready": size}
    return {"version": 1, "instances": sizes, "sample": {"arrived": records, "done": records, "busy_s": records / 80}}


@adaptor.post("/apply")
def apply(wanted: Wanted):
    outcome = "unchanged" if wanted.size == job["workers"] else "accepted"
    job["workers"] = wanted.size
    return {"version": 1, "outcome": outcome, "requested": wanted.size}


uvicorn.run(adaptor, port=int(sys.argv[1]), log_level="warning")
