/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Format NVM (NVMe Base 2.1, section 5.1.10) on the control reactor, in steps:
 *  1. A change that leaves the document as it is marks the namespaces: their I/O is refused.
 *  2. When no command judged before can reach the namespaces, the media are erased piece by piece,
 *     with other work of the control reactor in between, and flushed.
 *  3. The blocks marked bad are cleared.
 *  4. A change of the document sets the new block size and removes the marks.
 * Before step 1, each piece and step 4 the configuration in force judges the request. A change that
 * forbids the Format cancels it and waits for its end. A crash leaves the old format, with or
 * without data, or the new one once step 4 is kept. docs/adr/0028 has media that hang.
 */
#include "base/clock.h"
#include "base/log.h"
#include "daemon/manage.h"
#include "daemon/media_registry.h"
#include "ns/bad_blocks.h"
#include "ns/ns_live.h"
#include "store/store.h"
#include "target/bad_blocks_command.h"
#include "target/barrier.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define ERASE_PIECE_BYTES (16u << 20)
#define ERASE_STALL_S     60 /* until a hanging piece is cancelled */
#define ERASE_GIVE_UP_S   10 /* after the cancel, until the host is answered; the marks stay */

/* Why the configuration forbids a Format. Apart, so that each change waits for what it forbids,
 * also when an earlier change has forbidden the same Format for another reason. */
enum format_reason {
	FORBIDDEN_HOST,
	FORBIDDEN_COMMAND, /* manage_judge_config */
	FORBIDDEN_RIGHT,
	FORBIDDEN_HIDDEN,
	FORBIDDEN_PROTECTED,
	FORBIDDEN_MEDIUM, /* of the namespace being erased: removed or another one */
	FORBIDDEN_COUNT,
};

#define FORBIDDEN_BEFORE UINT64_MAX /* by something that does not wait for Formats */

struct format_job {
	struct daemon *daemon;
	struct manage_edit edit;
	nvme_status status;
	char origin[NVME_NQN_BYTES + 8];
	/* The namespace being erased. */
	unsigned at; /* index in edit.uuids */
	struct ns_backing *backing;
	uint64_t erased_bytes;
	struct media_io io;
	struct reactor_msg msg;
	struct reactor_timer stall;
	bool has_begun;    /* the edit of step 1 has run */
	bool is_draining;  /* format_drained is still to be called */
	bool is_stopped;   /* cancelled while draining: the marks are being removed */
	bool is_over;      /* waits only for format_drained */
	bool is_cancelled; /* the piece in flight has stalled */
	bool has_changed;  /* a piece was submitted, or marks of bad blocks were cleared */
	bool is_ending;    /* erases no more; its last change waits or runs */
	/* For each reason, the number of the change that has forbidden the Format; 0: allowed. */
	uint64_t forbidden_by[FORBIDDEN_COUNT];
	bool is_answered; /* edit.request is no longer valid; only the marks are still to be removed
			   */
};

/* The request was cancelled, and is not answered yet. */
static bool format_is_unwanted(const struct format_job *job)
{
	return !job->is_answered && !nvme_status_is_ok(job->edit.request->cancel_status);
}

static const struct ns *served_ns_by_uuid(const struct subsystem *subsystem,
					  const struct uuid *uuid)
{
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		if (uuid_equal(&subsystem->namespaces[i].uuid, uuid))
			return &subsystem->namespaces[i];
	}
	return NULL;
}

static bool format_names(const struct format_job *job, const struct ns *ns)
{
	for (unsigned i = 0; i < job->edit.uuid_count; i++) {
		if (uuid_equal(&job->edit.uuids[i], &ns->uuid))
			return true;
	}
	return false;
}

/* The reasons for which the configuration in force forbids the Format, as bits. A namespace that
 * was removed before its turn is left out, so only the one that is being erased must be there, with
 * the same medium. */
static unsigned format_reasons(const struct format_job *job)
{
	const struct manage_request *request = job->edit.request;
	const struct snapshot *snapshot = target_snapshot(daemon_target(job->daemon));
	const struct subsystem *subsystem =
		snapshot_find_subsystem(snapshot, request->subsystem_nqn);
	uint32_t host_index = snapshot_host_index(snapshot, request->host_nqn);
	unsigned reasons = 0;
	const struct ns *ns;
	bool is_seen;

	if (!nvme_status_is_ok(manage_judge_config(request)))
		reasons |= 1u << FORBIDDEN_COMMAND;
	if (!subsystem || !subsystem_allows_host(subsystem, request->host_nqn))
		reasons |= 1u << FORBIDDEN_HOST;
	if (subsystem &&
	    (subsystem_rights_of(subsystem, request->host_nqn) & HOST_RIGHT_FORMAT) == 0)
		reasons |= 1u << FORBIDDEN_RIGHT;
	for (unsigned i = 0; subsystem && i < subsystem->ns_count; i++) {
		ns = &subsystem->namespaces[i];
		is_seen = ns_mask_has(ns->mask, host_index);
		if ((is_seen && !ns->is_read_only) || !format_names(job, ns))
			continue;
		if (!is_seen)
			reasons |= 1u << FORBIDDEN_HIDDEN;
		if (ns->is_read_only)
			reasons |= 1u << FORBIDDEN_PROTECTED;
	}
	if (job->backing) {
		ns = subsystem ? served_ns_by_uuid(subsystem, &job->edit.uuids[job->at]) : NULL;
		if (!ns || ns->backing != job->backing)
			reasons |= 1u << FORBIDDEN_MEDIUM;
	}
	return reasons;
}

/* Whether the Format may go on, with the status of the first reason if not. */
static nvme_status format_judge(const struct format_job *job)
{
	nvme_status status = manage_judge(job->edit.request);
	unsigned reasons = format_reasons(job);

	if (!nvme_status_is_ok(status) || reasons == 0)
		return status;
	if (reasons & 1u << FORBIDDEN_RIGHT)
		return nvme_status_dnr(NVME_SC_OPERATION_DENIED);
	if (reasons & (1u << FORBIDDEN_HIDDEN | 1u << FORBIDDEN_MEDIUM))
		return nvme_status_dnr(NVME_SC_INVALID_NS);
	return nvme_status_dnr(NVME_SC_NS_WRITE_PROTECTED);
}

/* Hosts conclude from these statuses that nothing was erased. */
static bool status_promises_no_change(nvme_status status)
{
	return nvme_status_is_path(status) || nvme_status_same(status, NVME_SC_INVALID_NS) ||
	       nvme_status_same(status, NVME_SC_NS_NOT_READY) ||
	       nvme_status_same(status, NVME_SC_NS_WRITE_PROTECTED) ||
	       nvme_status_same(status, NVME_SC_OPERATION_DENIED);
}

static void format_unmark(struct format_job *job)
{
	for (unsigned i = 0; i < job->edit.uuid_count; i++)
		media_registry_set_formatting(daemon_registry(job->daemon), &job->edit.uuids[i],
					      false);
}

static void format_answer(struct format_job *job, nvme_status status)
{
	struct manage_request *request = job->edit.request;

	if (job->is_answered)
		return;
	job->is_answered = true;
	request->status = status;
	manage_done(request);
}

static void format_end(struct format_job *job)
{
	format_answer(job, job->status);
	job->is_over = true;
	if (job->is_draining)
		return;
	manage_edit_release(&job->edit);
	free(job);
}

static void format_change(struct format_job *job, const struct change *change)
{
	struct change full = *change;

	full.arg = job;
	full.origin = job->origin;
	full.is_forced = true;
	full.is_of_host = true;
	full.is_continuation = job->has_begun;
	daemon_change(job->daemon, &full);
}

/* ---- step 4, and the way out ------------------------------------------------------------------
 */

static int unmark_edit(json_t *document, void *arg, struct config_errors *errors)
{
	format_unmark(arg);
	return 0;
}

static void unmarked(void *arg, struct change_result *result)
{
	struct format_job *job = arg;

	if (result->res < 0 && result->res != -ESHUTDOWN)
		log_error("control",
			  "a namespace whose Format failed stays closed to I/O until the next "
			  "change: %s",
			  result->errors.count > 0 ? result->errors.texts[0]
						   : strerror(-result->res));
	format_end(job);
}

/* Fails a format whose marks are in force: another change removes the marks. */
static void format_fail(struct format_job *job, nvme_status status)
{
	job->status = format_is_unwanted(job) ? job->edit.request->cancel_status : status;
	if (job->has_changed && status_promises_no_change(job->status))
		job->status = NVME_SC_COMMAND_INTERRUPTED;
	job->is_ending = true;
	format_unmark(job);
	format_change(job, &(struct change){.edit = unmark_edit, .done = unmarked});
}

static int finish_edit(json_t *document, void *arg, struct config_errors *errors)
{
	struct format_job *job = arg;
	nvme_status status = format_judge(job);
	int res;

	if (!nvme_status_is_ok(status)) {
		manage_refuse(&job->edit, status, -EPERM, errors,
			      "the conditions of the command changed while it ran");
		return -EPERM;
	}
	res = manage_edit_format(document, &job->edit, errors);
	if (res < 0)
		return res;
	job->is_ending = true;
	format_unmark(job);
	return res;
}

static void finished(void *arg, struct change_result *result)
{
	struct format_job *job = arg;

	if (result->res < 0) {
		format_fail(job, manage_status(&job->edit, result->res));
		return;
	}
	job->status = NVME_SC_SUCCESS;
	format_end(job);
}

/* ---- steps 2 and 3 ----------------------------------------------------------------------------
 */

static void format_next(struct format_job *job);

static void ns_release(struct format_job *job)
{
	if (job->backing)
		ns_backing_put(job->backing);
	job->backing = NULL;
}

static void healed(void *arg)
{
	struct format_job *job = arg;

	ns_release(job);
	job->at++;
	format_next(job);
}

static void ns_erased(struct format_job *job)
{
	struct target *target = (struct target *)daemon_target(job->daemon);
	int res;

	job->has_changed = true;
	res = bad_blocks_clear(target, ns_backing_live(job->backing), healed, job);

	if (res < 0) {
		ns_release(job);
		format_fail(job, NVME_SC_INTERNAL);
	}
}

/* False: the Format ends. */
static bool format_goes_on(struct format_job *job)
{
	nvme_status status =
		daemon_is_stopping(job->daemon) ? NVME_SC_NS_NOT_READY : format_judge(job);

	if (nvme_status_is_ok(status))
		return true;
	ns_release(job);
	format_fail(job, status);
	return false;
}

static void erase_step(struct reactor_msg *msg);

static void on_stall(struct reactor_timer *timer)
{
	struct format_job *job = container_of(timer, struct format_job, stall);
	struct media *media = job->io.media;

	if (job->is_cancelled) {
		log_error("control",
			  "format of %s: the medium hangs; the namespace stays closed to I/O until "
			  "the medium answers",
			  media->spec);
		format_answer(job, NVME_SC_WRITE_FAULT);
		return;
	}
	job->is_cancelled = true;
	reactor_timer_arm(timer,
			  reactor_now_ns(daemon_control(job->daemon)) + ERASE_GIVE_UP_S * NS_PER_S);
	/* Last, because cancel may end the piece, and with it the job. */
	if (media->ops->cancel)
		media->ops->cancel(&job->io);
}

static void erase_done(struct media_io *io, int res)
{
	struct format_job *job = container_of(io, struct format_job, io);

	reactor_timer_cancel(&job->stall);
	/* A late success of a cancelled piece is still a failure: the host has its answer, or gets
	 * it now. */
	if (job->is_cancelled && res == 0)
		res = -ETIMEDOUT;
	if (res < 0) {
		if (!format_is_unwanted(job))
			log_error("control", "format of %s: %s", io->media->spec, strerror(-res));
		ns_release(job);
		format_fail(job, NVME_SC_WRITE_FAULT);
		return;
	}
	if (io->kind == MEDIA_FLUSH) {
		ns_erased(job);
		return;
	}
	job->erased_bytes += io->len_bytes;
	/* Posted, because memory media complete inside media_submit, and other work needs the
	 * reactor too. */
	reactor_post(io->reactor, &job->msg, erase_step);
}

static void erase_step(struct reactor_msg *msg)
{
	struct format_job *job = container_of(msg, struct format_job, msg);
	struct media *media = ns_backing_media(job->backing);
	uint64_t left = media->size_bytes - job->erased_bytes;

	if (!format_goes_on(job))
		return;
	job->has_changed = true;
	job->io = (struct media_io){
		.reactor = daemon_control(job->daemon),
		.media = media,
		.kind = left > 0 ? MEDIA_WRITE_ZEROES : MEDIA_FLUSH,
		.may_discard = true,
		.offset = left > 0 ? job->erased_bytes : 0,
		.len_bytes = left < ERASE_PIECE_BYTES ? left : ERASE_PIECE_BYTES,
		.done = erase_done,
	};
	reactor_timer_arm(&job->stall,
			  reactor_now_ns(daemon_control(job->daemon)) + ERASE_STALL_S * NS_PER_S);
	media_submit(&job->io);
}

/* Erases the next namespace. After the last one, changes the format. */
static void format_next(struct format_job *job)
{
	const struct manage_request *request = job->edit.request;
	const struct subsystem *subsystem;
	const struct ns *ns = NULL;

	if (!format_goes_on(job))
		return;
	subsystem = snapshot_find_subsystem(target_snapshot(daemon_target(job->daemon)),
					    request->subsystem_nqn);
	/* Skips namespaces that were removed meanwhile. */
	while (job->at < job->edit.uuid_count && !ns) {
		ns = served_ns_by_uuid(subsystem, &job->edit.uuids[job->at]);
		if (!ns)
			job->at++;
	}
	if (!ns) {
		format_change(job, &(struct change){.edit = finish_edit, .done = finished});
		return;
	}
	job->backing = ns_backing_get(ns->backing);
	job->erased_bytes = request->erases ? 0 : ns->media->size_bytes;
	if (request->erases)
		erase_step(&job->msg);
	else
		ns_erased(job);
}

/* ---- step 1 -----------------------------------------------------------------------------------
 */

static int mark_edit(json_t *document, void *arg, struct config_errors *errors)
{
	struct format_job *job = arg;
	struct media_registry *registry = daemon_registry(job->daemon);
	json_t *copy;
	int res;

	job->has_begun = true;
	job->edit.is_formatting = manage_is_formatting;
	job->edit.arg = registry;
	res = manage_check_begin(&job->edit, errors);
	if (res == 0)
		res = manage_check_right(document, &job->edit, errors);
	if (res == 0)
		res = manage_edit_format_check(document, &job->edit, errors);
	if (res < 0) {
		job->edit.uuid_count = 0; /* their marks belong to another Format and stay */
		return res;
	}
	/* Checks that the last step is possible before any data are lost. */
	copy = json_deep_copy(document);
	res = copy ? manage_edit_format(copy, &job->edit, errors) : -ENOMEM;
	json_decref(copy);
	for (unsigned i = 0; res == 0 && i < job->edit.uuid_count; i++)
		res = media_registry_set_formatting(registry, &job->edit.uuids[i], true);
	if (res < 0)
		format_unmark(job);
	return res;
}

/* Nothing was erased yet, so the format does not wait for running commands. */
static void format_stop(struct format_job *job)
{
	job->is_stopped = true;
	format_fail(job, job->edit.request->cancel_status);
}

static void marked(void *arg, struct change_result *result)
{
	struct format_job *job = arg;

	if (result->res == 0) {
		job->is_draining = true; /* format_drained continues */
		if (format_is_unwanted(job))
			format_stop(job);
		return;
	}
	format_unmark(job);
	job->status = manage_status(&job->edit, result->res);
	format_end(job);
}

static void format_drained(void *arg, int res)
{
	struct format_job *job = arg;

	job->is_draining = false;
	if (job->is_over) {
		format_end(job);
		return;
	}
	if (job->is_stopped)
		return;
	if (res == 0) {
		format_next(job);
		return;
	}
	log_error("control",
		  "%s: a Format failed because commands have hung in the medium for %u s",
		  job->origin, BARRIER_END_S);
	format_fail(job, NVME_SC_COMMAND_INTERRUPTED);
}

static struct target_scope format_scope(void *arg)
{
	const struct format_job *job = arg;

	return (struct target_scope){.uuids = job->edit.uuids, .uuid_count = job->edit.uuid_count};
}

static void format_cancel(struct manage_request *request)
{
	struct format_job *job = request->job;
	struct media *media = job->io.media;

	if (!job->has_begun)
		daemon_change_cancel(job->daemon, &(struct change){.edit = mark_edit, .arg = job});
	else if (job->is_draining)
		format_stop(job);
	else if (job->stall.armed && media->ops->cancel)
		media->ops->cancel(&job->io);
}

/* The last change of a Format must not wait for its own Format. */
static bool format_is_under_way(const struct manage_request *request)
{
	const struct format_job *job = request->job;

	return request->kind == MANAGE_FORMAT && job && job->has_begun && !job->is_ending;
}

/* Reasons that are new since the last call are those of the change with this number. */
static void format_note(struct manage_request *request, void *arg_change)
{
	const uint64_t *change = arg_change;
	struct format_job *job = request->job;
	unsigned reasons;

	if (!format_is_under_way(request))
		return;
	reasons = format_reasons(job);
	for (unsigned i = 0; i < FORBIDDEN_COUNT; i++) {
		if ((reasons & 1u << i) == 0)
			job->forbidden_by[i] = 0;
		else if (job->forbidden_by[i] == 0)
			job->forbidden_by[i] = *change;
	}
}

/* By the notes, not by the configuration in force: a later change that forbids the Format does not
 * extend the wait of this change. A later change that allows the Format again may end the wait. */
static bool format_is_forbidden_by(const struct manage_request *request, const void *arg_change)
{
	const uint64_t *change = arg_change;
	const struct format_job *job = request->job;

	if (!format_is_under_way(request))
		return false;
	for (unsigned i = 0; i < FORBIDDEN_COUNT; i++) {
		if (job->forbidden_by[i] == *change)
			return true;
	}
	return false;
}

void manage_formats_note(struct target *target)
{
	uint64_t before = FORBIDDEN_BEFORE;

	manage_each(target, format_note, &before);
}

void manage_formats_stop(struct manage_stop *stop, struct target *target, const uint64_t *change,
			 void (*done)(void *arg, int res), void *arg)
{
	uint64_t number = *change;

	manage_each(target, format_note, &number);
	*stop = (struct manage_stop){
		.target = target,
		.touches = format_is_forbidden_by,
		.touches_arg = change,
		.status = NVME_SC_COMMAND_INTERRUPTED,
		.done = done,
		.arg = arg,
	};
	manage_stop_start(stop);
}

void manage_format_start(struct daemon *daemon, struct manage_request *request)
{
	struct format_job *job = calloc(1, sizeof(*job));

	if (!job) {
		manage_done(request);
		return;
	}
	job->daemon = daemon;
	job->edit.request = request;
	request->job = job;
	request->cancel = format_cancel;
	snprintf(job->origin, sizeof(job->origin), STORE_ORIGIN_HOST "%s", request->host_nqn);
	reactor_timer_init(daemon_control(daemon), &job->stall, on_stall);
	format_change(job, &(struct change){.edit = mark_edit,
					    .done = marked,
					    .drained = format_drained,
					    .scope = format_scope});
}
