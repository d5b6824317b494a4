"""The text of an entry in few bytes: deflated with a dictionary of what entries usually say.

A reading every few seconds makes a large file; most of it would be the names of the same fields over and over. With a
dictionary even a single short entry loses them, so entries stay apart, each readable on its own.

>>> text = '{"at_s":5.0,"samples":{},"instances":{"job":{"planned":3,"requested":3,"ready":3}}}'
>>> unpacked(packed(text)) == text, len(packed(text)) < len(text) / 2
(True, True)
"""

from __future__ import annotations

import zlib

from headgate.core.errors import JournalError

_LEVEL = 6

# What is likely stands at the end, where it costs least to refer to. Never to be changed: what was packed with it could
# not be unpacked any more. A better one would be a new format of the journal.
_DICTIONARY = (
    '"startups":{"job":[{"instance":"1","requested_s":17,"registered_after_s":4.,"first_task_after_s":6.,'
    '"warm_after_s":11.}]}"metrics":{"parts":{"query":"role":"shadow","age_s":0."warming":true,"stale":true'
    '{"at_s":17,"kind":"observe-failed","detail":"started","stopped","policy-changed","numbers":{}}'
    '{"at_s":17,"answers":{"job":{"outcome":"accepted","requested":2,"detail":"refused","delivered","failed"}}}'
    '"code":"no-data","reason":"no fresh reading of the job: holding","code":"slo-violated","why":"at most '
    "the newest reading was made while instances were starting, joining or leaving"
    "of planned instances are ready, not waiting longer than 2m, guard time 5m, so no scale-in"
    '"guard":"strategy","guard":"step-limit","guard":"hysteresis","guard":"sizes","guard":"guard-times",'
    '"guard":"monotonicity","guard":"together"'
    '{"at_s":17,"policy":"reactive","verdicts":{"job":{"operator":"job","current":2,"proposed":2,"target":2,'
    '"code":"steady","reason":"latency 0.5 s is within the 10s bound; 250 records/s need 2 instances of 180/s with '
    'headroom","numbers":{"latency_s":0.5,"bound_s":10.0,"rate_per_s":250.0,"capacity_per_s":180.0,"needed":2},'
    '"notes":[{"guard":"bounds","before":2,"after":2,"why":""},{"guard":"useful","before":2,"after":2,"why":""},'
    '{"guard":"pending","before":2,"after":2,"why":""},{"guard":"recovering","before":2,"after":2,"why":""},'
    '{"guard":"blind","before":2,"after":2,"why":""},{"guard":"attainable","before":2,"after":2,"why":""}]}}}'
    '{"at_s":17,"samples":{"job":{"operator":"job","at_s":17,"arrived":0.0,"done":0.0,"emitted":0.0,"late":0.0,'
    '"busy_s":0.0,"available_s":0.0,"batches":[{"started_s":17,"ended_s":17,"records":0.0,"oldest_s":17,"late":0.0,'
    '"trigger_interval_s":1.0,"instances":2},{"started_s":17,"ended_s":17}],"backlog":0.0,"latency_s":0.0,'
    '"running_s":0.0,"batch_ended_s":17,"useful_instances":8,"skew":1.0,"input_rate_per_s":0.0,'
    '"processed_rate_per_s":0.0,"output_rate_per_s":0.0,"processing_time_s":0.0,"scheduling_delay_s":0.0,'
    '"trigger_interval_s":1.0,"utilization":0.0}},"instances":{"job":{"planned":2,"requested":2,"ready":2}}}'
).encode("ascii")


def packed(text: str) -> bytes:
    """The bytes of a text; a checksum of it is among them."""
    packer = zlib.compressobj(_LEVEL, zdict=_DICTIONARY)
    return packer.compress(text.encode("ascii")) + packer.flush()


def unpacked(body: bytes) -> str:
    """What :func:`packed` was given."""
    unpacker = zlib.decompressobj(zdict=_DICTIONARY)
    try:
        text = unpacker.decompress(body) + unpacker.flush()
    except (zlib.error, TypeError) as error:
        raise JournalError(f"an entry cannot be unpacked: {error}.") from error
    if not unpacker.eof:
        raise JournalError(f"an entry cannot be unpacked: it ends after {len(body)} bytes.")
    return text.decode("ascii")
