/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hosts' management commands on the control reactor. Each becomes one change of the document
 * (manage_edit.c has the edits), or, for Format NVM, the steps of manage_format.c. The command is
 * answered when the change is in force on every reactor and kept.
 *
 * A request waits in the queue of changes, and is judged again when its change begins. A request
 * that is cancelled before leaves the queue at once.
 *
 * The file of a deleted namespace is removed after the change was kept, and before the next change
 * begins: a crash in between leaves an unused file, never a namespace without its file.
 */
#include "base/log.h"
#include "daemon/manage.h"
#include "daemon/media_registry.h"
#include "daemon/pool.h"
#include "store/store.h"
#include "target/host_rights.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct manage_job {
	struct daemon *daemon;
	struct manage_edit edit;
	int (*edit_fn)(json_t *document, struct manage_edit *edit, struct config_errors *errors);
};

nvme_status manage_status(const struct manage_edit *edit, int res)
{
	if (res == 0)
		return NVME_SC_SUCCESS;
	if (edit->status.value != 0)
		return edit->status;
	switch (res) {
	case -ENOSPC:
	case -EDQUOT:
	case -EFBIG:
		return nvme_status_dnr(NVME_SC_NS_INSUFFICIENT_CAPACITY);
	case -ESHUTDOWN:
		return NVME_SC_NS_NOT_READY;
	case -ECANCELED:
		return edit->request->cancel_status;
	default:
		return NVME_SC_INTERNAL;
	}
}

bool manage_is_formatting(void *arg_registry, const struct uuid *uuid)
{
	return media_registry_is_formatting(arg_registry, uuid);
}

int manage_check_begin(struct manage_edit *edit, struct config_errors *errors)
{
	nvme_status status = manage_judge(edit->request);

	if (nvme_status_is_ok(status))
		return 0;
	manage_refuse(edit, status, -EPERM, errors,
		      "the conditions of the command changed while it waited");
	edit->status = status;
	return -EPERM;
}

/* Checked again here, because the right may have been withdrawn since the command was judged. */
int manage_check_right(json_t *document, struct manage_edit *edit, struct config_errors *errors)
{
	static const uint32_t needed[] = {
		[MANAGE_NS_CREATE] = HOST_RIGHT_NAMESPACES,
		[MANAGE_NS_DELETE] = HOST_RIGHT_NAMESPACES,
		[MANAGE_NS_ATTACH] = HOST_RIGHT_NAMESPACES,
		[MANAGE_NS_DETACH] = HOST_RIGHT_NAMESPACES,
		[MANAGE_FORMAT] = HOST_RIGHT_FORMAT,
		[MANAGE_WRITE_PROTECT] = HOST_RIGHT_WRITE_PROTECT,
		[MANAGE_NS_LABEL] = HOST_RIGHT_LABEL,
	};
	const char *name = host_right_name(needed[edit->request->kind]);
	json_t *subsystem = manage_find_subsystem(document, edit, errors);
	const json_t *rights = json_object_get(subsystem, "rights");
	char text[64];

	if (!subsystem)
		return -ENOENT;
	if (manage_list_has(json_object_get(rights, CONFIG_RIGHTS_ANY), name) ||
	    manage_list_has(json_object_get(rights, edit->request->host_nqn), name))
		return 0;
	snprintf(text, sizeof(text), "the host has no right to \"%s\"", name);
	return manage_refuse(edit, NVME_SC_OPERATION_DENIED, -EPERM, errors, text);
}

static int job_edit(json_t *document, void *arg, struct config_errors *errors)
{
	struct manage_job *job = arg;
	int res = manage_check_begin(&job->edit, errors);

	if (res == 0)
		res = manage_check_right(document, &job->edit, errors);
	if (res < 0)
		return res;
	job->edit.is_formatting = manage_is_formatting;
	job->edit.arg = daemon_registry(job->daemon);
	return job->edit_fn(document, &job->edit, errors);
}

static void files_remove(struct daemon *daemon, const struct manage_edit *edit)
{
	for (unsigned i = 0; i < edit->file_count; i++) {
		const struct manage_file *file = &edit->files[i];
		int res = pool_file_remove(file->folder, file->path, file->nguid);

		if (res == 0)
			media_registry_file_deleted(daemon_registry(daemon), &file->uuid);
		else if (res == -EPERM)
			log_info("control", "%s is kept: the file was not created by this pool",
				 file->path);
		else if (res < 0)
			log_warn("control",
				 "%s: the namespace was removed, but its file could not be "
				 "deleted: %s",
				 file->path, strerror(-res));
	}
}

/* Here and not with the answer: a later change may bring the namespace back before the answer. */
static void job_ended(void *arg, const struct change_result *result)
{
	struct manage_job *job = arg;

	if (result->res == 0)
		files_remove(job->daemon, &job->edit);
}

static void job_done(void *arg, struct change_result *result)
{
	struct manage_job *job = arg;
	struct manage_request *request = job->edit.request;

	request->status = manage_status(&job->edit, result->res);
	/* A host that protects a namespace relies on an end of all writes. */
	if (result->is_late && request->kind == MANAGE_WRITE_PROTECT)
		request->status = NVME_SC_INTERNAL;
	manage_edit_release(&job->edit);
	free(job);
	manage_done(request);
}

/* A change that has begun cannot be cancelled: it may be kept already. */
static void job_cancel(struct manage_request *request)
{
	struct manage_job *job = request->job;

	daemon_change_cancel(job->daemon, &(struct change){.edit = job_edit, .arg = job});
}

void manage_handle(void *daemon, struct manage_request *request)
{
	static int (*const edits[])(json_t * document, struct manage_edit * edit,
				    struct config_errors * errors) = {
		[MANAGE_NS_CREATE] = manage_edit_create,
		[MANAGE_NS_DELETE] = manage_edit_delete,
		[MANAGE_NS_ATTACH] = manage_edit_attach,
		[MANAGE_NS_DETACH] = manage_edit_detach,
		[MANAGE_FORMAT] = NULL,
		[MANAGE_WRITE_PROTECT] = manage_edit_protect,
		[MANAGE_NS_LABEL] = manage_edit_label,
	};
	char origin[NVME_NQN_BYTES + 8];
	struct manage_job *job;

	request->status = NVME_SC_INTERNAL;
	if (request->kind == MANAGE_FORMAT) {
		manage_format_start(daemon, request);
		return;
	}
	job = calloc(1, sizeof(*job));
	if (!job) {
		manage_done(request);
		return;
	}
	job->daemon = daemon;
	job->edit.request = request;
	request->job = job;
	request->cancel = job_cancel;
	job->edit_fn = edits[request->kind];
	snprintf(origin, sizeof(origin), STORE_ORIGIN_HOST "%s", request->host_nqn);
	daemon_change(daemon, &(struct change){
				      .edit = job_edit,
				      .done = job_done,
				      .ended = job_ended,
				      .arg = job,
				      .origin = origin,
				      .is_of_host = true,
			      });
}
