/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a host's management command to the control reactor and back. See manage.h.
 *
 * manage_submit runs on the requester's reactor, manage_done on the control reactor, possibly from
 * inside target->manage: the answer travels as a message, so that done is never called from inside
 * the submit.
 */
#include "target/manage.h"

#include "target/event_log.h"
#include "target/local.h"

static void manage_answered(struct reactor_msg *msg)
{
	struct manage_request *request = container_of(msg, struct manage_request, msg);

	request->done(request);
}

static void manage_here(struct reactor_msg *msg)
{
	struct manage_request *request = container_of(msg, struct manage_request, msg);
	struct target *target = request->target;

	if (target->manage) {
		event_log_note_begin(target, request);
		target->manage(target->manage_arg, request);
		return;
	}
	request->status = nvme_status_dnr(NVME_SC_INVALID_OPCODE);
	manage_done(request);
}

void manage_submit(struct target *target, struct manage_request *request)
{
	request->target = target;
	request->reactor = reactor_current();
	request->status = NVME_SC_SUCCESS;
	request->result_nsid = 0;
	CHECK(request->reactor != NULL);
	reactor_post(target->control, &request->msg, manage_here);
}

void manage_done(struct manage_request *request)
{
	CHECK(reactor_current() == request->target->control);
	event_log_note_end(request->target, request);
	reactor_post(request->reactor, &request->msg, manage_answered);
}
