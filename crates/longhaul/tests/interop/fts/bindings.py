"""Each function of FTS's easy bindings, against a hub. One argument: JSON with its URL and its contents."""

import json
import sys
import time

import fts3.rest.client.easy as fts3
from fts3.rest.client.exceptions import ClientError, MethodNotAllowed, NotFound, Unauthorized

SETTINGS = json.loads(sys.argv[1])
LAST = ("FINISHED", "FINISHEDDIRTY", "FAILED", "CANCELED")
user = fts3.Context(SETTINGS["endpoint"], fts_access_token=SETTINGS["user"])
admin = fts3.Context(SETTINGS["endpoint"], fts_access_token=SETTINGS["admin"])
sources, targets, storages = SETTINGS["sources"], SETTINGS["targets"], SETTINGS["storages"]


def refused(kind, call):
    """The sentence with which a call is refused."""
    try:
        answer = call()
    except kind as error:
        return str(error)
    raise AssertionError(f"not refused: {answer}")


def transfer(at, **more):
    return fts3.new_transfer(sources[at], targets[at], source_token="", destination_token="", **more)


def submit(at, **more):
    return fts3.submit(user, fts3.new_job([transfer(at)], **more))


def ended(job_id):
    until = time.monotonic() + 60
    while (job := fts3.get_job_status(user, job_id, list_files=True))["job_state"] not in LAST:
        assert time.monotonic() < until, job
        time.sleep(0.2)
    return job


# The identity of the client; nothing is delegated with a token.
assert fts3.whoami(user)["user_dn"] == "/CN=ann"
assert user.get_endpoint_info()["api"]["major"] == 3
assert fts3.delegate(user) == ""

# A job with every parameter of a job.
first = fts3.new_transfer(sources[0], targets[0], checksum="ADLER32:091e01de", filesize=9, activity="production", scitag=66,
                          metadata={"part": 1}, source_token="", destination_token="")
first_id = fts3.submit(user, fts3.new_job([first], verify_checksum="both", overwrite=True, metadata={"run": 7}, retry=1, priority=4,
                                          strict_copy=True, max_time_in_queue="2h", timeout=600, dst_file_report=True, nostreams=2,
                                          id_generator=fts3.JobIdGenerator.deterministic, sid="first"))
job = ended(first_id)
assert (job["job_state"], job["priority"], job["job_metadata"]["run"]) == ("FINISHED", 4, 7), job
assert (job["files"][0]["file_metadata"], job["dm"]) == ({"part": 1}, []), job
again = lambda: fts3.submit(user, fts3.new_job([transfer(0)], id_generator=fts3.JobIdGenerator.deterministic, sid="first"))
assert "409" in refused(ClientError, again)

# Banned storages: files that wait for them can be listed and cancelled.
assert fts3.ban_se(admin, storages[0], status="wait", allow_submit=True) == []
second, third = submit(1), submit(2)
assert {job["job_id"] for job in fts3.list_jobs(user)} == {second, third}
assert fts3.list_jobs(user, user_dn="/CN=ann", vo="astro", source_se=storages[0], dest_se=storages[1])
dlg_id = fts3.whoami(user)["delegation_id"]
assert [job["job_id"] for job in fts3.list_jobs(user, delegation_id=dlg_id, state_in=["FINISHED"])] == [first_id]
both = fts3.get_jobs_statuses(user, [second, third], list_files=True)
assert [(job["job_state"], job["files"][0]["file_state"], job["http_status"]) for job in both] == [("SUBMITTED", "SUBMITTED", "200 Ok")] * 2
assert "No job with the id" in refused(ClientError, lambda: fts3.get_jobs_statuses(user, [second, "nope"]))
refused(NotFound, lambda: fts3.get_job_status(user, "nope"))
file_id = fts3.get_job_status(user, second, list_files=True)["files"][0]["file_id"]
assert fts3.cancel(user, second, [file_id]) == "CANCELED"
assert ended(second)["job_state"] == "CANCELED"
assert fts3.cancel(user, third)["job_state"] == "CANCELED"

# All jobs of a VO, and all.
third, fourth = submit(2), submit(3)
refused(Unauthorized, lambda: fts3.cancel_all(user))
assert fts3.cancel_all(admin, vo_name="other")["affected_jobs"] == 0
assert fts3.cancel_all(admin, vo_name="astro")["affected_jobs"] == 2
assert [ended(job_id)["job_state"] for job_id in (third, fourth)] == ["CANCELED"] * 2
third = submit(2)
assert fts3.cancel_all(admin)["affected_files"] == 1
assert ended(third)["job_state"] == "CANCELED"

# Bans.
third = submit(2)
assert fts3.ban_se(admin, storages[1]) == [third]
assert "banned" in refused(Unauthorized, lambda: submit(3))
fts3.unban_se(admin, storages[1])
third = submit(2)
assert fts3.ban_dn(admin, "/CN=ann") == [third]
assert "banned" in refused(Unauthorized, lambda: fts3.whoami(user))
fts3.unban_dn(admin, "/CN=ann")
fts3.unban_se(admin, storages[0])

# Functions that the hub does not have.
assert "tape" in refused(ClientError, lambda: fts3.submit(user, fts3.new_staging_job([sources[0]], bring_online=60)))
assert "delete at the storage" in refused((ClientError, MethodNotAllowed), lambda: fts3.submit(user, fts3.new_delete_job([sources[0]])))
print("all of them")
