"""Chat: a word when a job of a service has ended: its state, how near to the optimum it is, and its model."""

# %%
# `python follow_to_chat.py JOB URL` takes the id of a job that waits, runs, or has ended, and the address of a webhook:
# Slack, Mattermost, Google Chat and others give out such addresses, each for a channel. STREAMSVM_URL is the service.

import json
import os
import sys
import time
from urllib.request import Request, urlopen

from streamsvm import Client

job_id, webhook = sys.argv[1:]
job = Client(os.environ.get("STREAMSVM_URL", "http://localhost:8000")).job(job_id)

# %%
# `watch` tells what happens until the job ends. After a lost connection it goes on where it was.

for kind, what in job.watch():
    if kind == "pass":
        print(f"pass {what['pass']}", flush=True)

# %%
# The word, of the job as it is at its end.

certificate = (job.view["result"] or {}).get("certificate") or {}
gap, failure = certificate.get("relative_duality_gap"), job.view["failure"]
word = f"Job {job.id} on {job.view['spec']['dataset']}: {job.state}."
word += f" Its relative gap is {gap:.1e}." if gap is not None else ""
word += f" Its model is {job.view['model_id']}." if job.view["model_id"] else ""
word += f" {failure['message']}" if failure else ""

# %%
# A chat that does not take it is asked again, a few times.

request = Request(webhook, json.dumps({"text": word}).encode(), {"Content-Type": "application/json"})
for pause in (1, 10, 100, None):
    try:
        with urlopen(request, timeout=10):
            break
    except OSError as error:
        if pause is None:
            raise
        print(f"{error}: again in {pause} s")
        time.sleep(pause)
