/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The REST API's namespaces: the fields of the document, "size" as a way to resize beside them, and
 * the geometry and counters of a served namespace.
 *
 * Control reactor only. Counters are summed over the reactors. Each is true, but they are not of
 * one instant.
 */
#include "api/api_call.h"
#include "base/log.h"
#include "base/text.h"
#include "config/config_parse.h"
#include "config/fields.h"
#include "daemon/lost_ns.h"
#include "daemon/manage.h"
#include "daemon/media_registry.h"
#include "daemon/pool.h"
#include "ns/ns_live.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static json_t *counters_json(const struct ns *ns)
{
	const struct ns_live *live = ns_backing_live(ns->backing);
	uint64_t sums[5] = {0};

	for (unsigned i = 0; i < ns_live_local_count(live); i++) {
		const struct ns_local *local = &ns->locals[i];

		sums[0] += atomic_load_explicit(&local->read_commands, memory_order_relaxed);
		sums[1] += atomic_load_explicit(&local->write_commands, memory_order_relaxed);
		sums[2] += atomic_load_explicit(&local->bytes_read, memory_order_relaxed);
		sums[3] += atomic_load_explicit(&local->bytes_written, memory_order_relaxed);
		sums[4] += atomic_load_explicit(&local->media_errors, memory_order_relaxed);
	}
	return json_pack("{s:I, s:I, s:I, s:I, s:I}", "read_commands", (json_int_t)sums[0],
			 "write_commands", (json_int_t)sums[1], "bytes_read", (json_int_t)sums[2],
			 "bytes_written", (json_int_t)sums[3], "media_errors", (json_int_t)sums[4]);
}

/* The document's fields, and "live" when the namespace is served. */
static json_t *ns_json(const struct api_call *call, const struct config_subsystem *subsystem,
		       const struct config_ns *config)
{
	const struct snapshot *snapshot = target_snapshot(daemon_target(call->api->daemon));
	const struct subsystem *served =
		snapshot ? snapshot_find_subsystem(snapshot, subsystem->nqn) : NULL;
	const struct ns *ns = served ? subsystem_find_ns(served, config->nsid) : NULL;
	json_t *object = config_ns_to_json(config);
	json_t *live;

	if (!object || !ns)
		return object;
	live = json_pack("{s:I, s:I, s:I, s:I, s:b, s:b, s:b, s:o}", "block_bytes",
			 (json_int_t)1 << ns->block_shift, "block_count",
			 (json_int_t)ns->block_count, "size_bytes",
			 (json_int_t)(ns->block_count << ns->block_shift), "used_bytes",
			 (json_int_t)media_used_bytes(ns->media), "read_only", ns->is_read_only,
			 "formatting", ns->is_formatting, "lost", media_is_lost(ns->media),
			 "counters", counters_json(ns));
	json_object_set_new(object, "live", live);
	return object;
}

void api_namespaces_get(struct api_call *call)
{
	const struct config_subsystem *subsystem = api_subsystem_of(call);
	json_t *list;

	if (!subsystem)
		return;
	list = json_array();
	for (unsigned i = 0; i < subsystem->ns_count; i++)
		json_array_append_new(list, ns_json(call, subsystem, &subsystem->namespaces[i]));
	api_answer(call, json_pack("{s:o}", "namespaces", list));
}

void api_ns_get(struct api_call *call)
{
	const struct config_subsystem *subsystem = api_subsystem_of(call);

	if (!subsystem)
		return;
	for (unsigned i = 0; i < subsystem->ns_count; i++) {
		if (subsystem->namespaces[i].nsid == call->number) {
			api_answer(call, ns_json(call, subsystem, &subsystem->namespaces[i]));
			return;
		}
	}
	api_fail(call, 404, "the subsystem %.223s has no namespace %u", call->params[0],
		 call->number);
}

/* ---- changes -------------------------------------------------------------------------------- */

/* "size" is not a field of the document: it becomes part of the medium's spec. */
static int size_fold(struct api_call *call, json_t *ns, struct config_errors *errors)
{
	const json_t *size = json_object_get(ns, "size");
	const char *media = json_string_value(json_object_get(ns, "media"));
	char *resized = NULL;
	uint64_t rounded;
	int res;

	if (!size)
		return media && json_object_get(call->body, "media")
			       ? document_media_check_size(media, errors)
			       : 0;
	if (!media) {
		config_errors_add(errors, "size: needs \"media\", a string");
		return -EINVAL;
	}
	res = document_media_resize(media, size, &resized, &rounded, errors);
	if (res < 0)
		return res;
	if (rounded > 0)
		snprintf(call->note, sizeof(call->note),
			 "the size was rounded up to whole blocks: %llu bytes",
			 (unsigned long long)rounded);
	json_object_del(ns, "size");
	res = json_object_set_new(ns, "media", json_string(resized)) < 0 ? -ENOMEM : 0;
	free(resized);
	return res;
}

/* Keeps the given NSID, or chooses a free one. 0, or -errno with an error. */
static int nsid_choose(struct api_call *call, json_t *subsystem, json_t *ns,
		       struct config_errors *errors)
{
	const json_t *nsid = json_object_get(ns, "nsid");
	json_int_t number = json_integer_value(nsid);

	if (!nsid)
		return json_object_set_new(
			       ns, "nsid",
			       json_integer(document_number_free(
				       document_list(subsystem, "namespaces"), "nsid"))) < 0
			       ? -ENOMEM
			       : 0;
	if (!json_is_integer(nsid) || number < 0 || number > UINT32_MAX ||
	    !document_ns(subsystem, (uint32_t)number, NULL))
		return 0;
	config_errors_add(errors, "the subsystem %.223s has a namespace %u already",
			  call->params[0], (unsigned)number);
	return -EEXIST;
}

/* Names the new namespace in the answer. 0 or -ENOMEM. */
static int ns_made(struct api_call *call, const json_t *ns)
{
	json_t *nsid = json_object_get(ns, "nsid");
	char *part = text_path_part(call->params[0]);

	call->extra = json_pack("{s:O}", "nsid", nsid);
	if (part)
		api_made(call, "/subsystems/%s/namespaces/%u", part,
			 (unsigned)json_integer_value(nsid));
	free(part);
	return call->extra && call->location ? 0 : -ENOMEM;
}

static int ns_add(struct api_call *call, json_t *document, struct config_errors *errors)
{
	json_t *subsystem = document_subsystem(document, call->params[0], NULL);
	json_t *ns;
	int res;

	if (!subsystem)
		return document_no_subsystem(call->params[0], errors);
	ns = json_deep_copy(call->body);
	if (!ns)
		return -ENOMEM;
	res = nsid_choose(call, subsystem, ns, errors);
	if (res == 0)
		res = size_fold(call, ns, errors);
	if (res == 0)
		res = ns_made(call, ns);
	if (res < 0) {
		json_decref(ns);
		return res;
	}
	return json_array_append_new(document_list(subsystem, "namespaces"), ns) < 0 ? -ENOMEM : 0;
}

void api_namespaces_post(struct api_call *call)
{
	api_change(call, ns_add);
}

static int ns_of_call(struct api_call *call, json_t *document, struct config_errors *errors,
		      json_t **ret_ns)
{
	json_t *subsystem = document_subsystem(document, call->params[0], NULL);

	if (!subsystem)
		return document_no_subsystem(call->params[0], errors);
	*ret_ns = document_ns(subsystem, call->number, NULL);
	return *ret_ns ? 0 : document_no_ns(call->params[0], call->number, errors);
}

/* Other data under the same NSID are another namespace, unless the caller gives a UUID. */
static void other_media_forget(json_t *ns, const json_t *body)
{
	const char *from = json_string_value(json_object_get(ns, "media"));
	const char *to = json_string_value(json_object_get(body, "media"));
	char *was, *is;

	if (!from || !to || json_object_get(body, "uuid"))
		return;
	was = config_media_identity(from);
	is = config_media_identity(to);
	if (was && is && strcmp(was, is) != 0) {
		json_object_del(ns, "uuid");
		json_object_del(ns, "nguid");
	}
	free(was);
	free(is);
}

/* "recheck" and "recreate" are not fields of the document: they act on a lost namespace. */
static int lost_fold(struct api_call *call, json_t *ns, struct config_errors *errors)
{
	bool is_recreated = json_is_true(json_object_get(ns, "recreate"));
	bool is_rechecked = json_is_true(json_object_get(ns, "recheck"));

	json_object_del(ns, "recreate");
	json_object_del(ns, "recheck");
	if (!is_recreated && !is_rechecked)
		return 0;
	return lost_ns_edit(daemon_registry(call->api->daemon), ns,
			    is_recreated ? LOST_NS_RECREATE : LOST_NS_RECHECK, call->is_dry_run,
			    errors);
}

/* The change is for this member only: the other members serve the namespace by documents of their
 * own. */
static void clustered_note(struct api_call *call, const json_t *document, const json_t *ns)
{
	const json_t *peers = json_object_get(json_object_get(document, "cluster"), "peers");
	bool is_size = json_object_get(call->body, "size") || json_object_get(call->body, "media");
	bool is_protection = json_object_get(call->body, "write_protect") ||
			     json_object_get(call->body, "read_only");
	char names[200] = "";
	size_t len = 0;

	if (!json_is_true(json_object_get(ns, "clustered")) ||
	    json_object_get(call->body, "recheck") || json_object_get(call->body, "recreate"))
		return;
	for (size_t i = 0; i < json_array_size(peers) && len < sizeof(names); i++) {
		const char *name =
			json_string_value(json_object_get(json_array_get(peers, i), "name"));

		len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s", i > 0 ? ", " : "",
					name ? name : "?");
	}
	len = strlen(call->note);
	snprintf(call->note + len, sizeof(call->note) - len,
		 "%sthe namespace is clustered, and the change applies to this member only: repeat "
		 "the change on %s%s",
		 len > 0 ? "; " : "", names,
		 is_size ? "; until then hosts use the namespace only through members with the "
			   "same size"
		 : is_protection
			 ? "; until then hosts can write through members without write protection"
			 : "");
}

static int ns_edit(struct api_call *call, json_t *document, struct config_errors *errors)
{
	json_t *ns = NULL;
	int res = ns_of_call(call, document, errors, &ns);

	call->note[0] = '\0';
	if (res == 0)
		res = document_keeps(&config_ns_object, ns, call->body, errors);
	if (res == 0)
		other_media_forget(ns, call->body);
	if (res == 0)
		res = document_merge(ns, call->body);
	if (res == 0)
		res = lost_fold(call, ns, errors);
	if (res == 0)
		res = size_fold(call, ns, errors);
	if (res == 0)
		clustered_note(call, document, ns);
	return res;
}

void api_ns_patch(struct api_call *call)
{
	/* A block device that has grown leaves the document as it is, so the change is forced. */
	call->is_forced = json_object_get(call->body, "size") != NULL ||
			  json_object_get(call->body, "recheck") != NULL;
	api_change(call, ns_edit);
}

/* ---- removing -------------------------------------------------------------------------------- */

/* Puts what happens to the data into the answer: deleted, kept, or none that outlive the
 * namespace. */
static void data_tell(struct api_call *call, const char *data, const char *path)
{
	json_decref(call->extra);
	call->extra = json_pack("{s:s}", "data", data);
	if (call->extra && path)
		json_object_set_new(call->extra, "file", json_string(path));
}

/* The removal is in force and kept, so the file can be deleted. No later change has begun, so none
 * has brought the namespace back. */
static void ns_removed(struct api_call *call)
{
	const struct manage_file *file = call->file;
	int res = pool_file_remove(file->folder, file->path, file->nguid);

	if (res == 0) {
		media_registry_file_deleted(daemon_registry(call->api->daemon), &file->uuid);
		return;
	}
	log_warn("control", "%s: the namespace was removed, but its file could not be deleted: %s",
		 file->path, strerror(-res));
	data_tell(call, "kept", file->path);
}

/* As ns_removed, for a file without a name: nothing of the namespace can come back. */
static void ns_given_up(struct api_call *call)
{
	media_registry_file_deleted(daemon_registry(call->api->daemon), &call->file->uuid);
}

/*
 * The file was deleted while it is served, so only the open file has the data, and removing the
 * namespace loses them. Such a removal requires delete_data. 0; 1: the file has a name, or no
 * medium is open; or -errno.
 */
static int nameless_check(struct api_call *call, const json_t *ns, struct config_errors *errors)
{
	const char *text = json_string_value(json_object_get(ns, "uuid"));
	const struct media *media = NULL;
	struct uuid uuid;
	char *path;

	if (text && uuid_parse(text, &uuid) == 0)
		media = media_registry_find(daemon_registry(call->api->daemon), &uuid);
	if (!media || !media_is_nameless(media))
		return 1;
	if (!call->deletes_data) {
		config_errors_add(errors,
				  "the file of namespace %u was deleted or replaced while it is "
				  "served: removing the namespace destroys its data. Copy the data "
				  "first (weft copy), or discard them with --delete-data",
				  call->number);
		return -EBUSY;
	}
	call->file = calloc(1, sizeof(*call->file));
	if (!call->file)
		return -ENOMEM;
	call->file->uuid = uuid;
	call->changed = ns_given_up;
	path = config_media_path(json_string_value(json_object_get(ns, "media")));
	data_tell(call, "deleted", path);
	free(path);
	return 0;
}

/* Deleting data has more conditions than removing a namespace from the document. */
static int data_check(struct api_call *call, json_t *subsystem, json_t *ns,
		      struct config_errors *errors)
{
	const char *protect = json_string_value(json_object_get(ns, "write_protect"));
	struct uuid uuid;
	char *path = NULL;

	if (protect && strcmp(protect, "none") != 0) {
		config_errors_add(errors,
				  "namespace %u is write protected: its data cannot be deleted",
				  call->number);
		return -EPERM;
	}
	if (uuid_parse(json_string_value(json_object_get(ns, "uuid")), &uuid) == 0 &&
	    media_registry_is_formatting(daemon_registry(call->api->daemon), &uuid)) {
		config_errors_add(errors, "namespace %u is being formatted", call->number);
		return -EBUSY;
	}
	call->file = calloc(1, sizeof(*call->file));
	if (call->file && manage_ns_is_in_pool(subsystem, ns, &path) &&
	    manage_file_fill(subsystem, ns, path, call->file) == 0 &&
	    pool_file_is_ours(call->file->folder, call->file->path, call->file->nguid)) {
		call->changed = ns_removed;
		data_tell(call, "deleted", path);
		return 0;
	}
	config_errors_add(
		errors,
		"the file of namespace %u was not created by the pool of its subsystem: remove the "
		"namespace without --delete-data, then delete the data yourself",
		call->number);
	return -EPERM;
}

static int ns_remove(struct api_call *call, json_t *document, struct config_errors *errors)
{
	json_t *subsystem = document_subsystem(document, call->params[0], NULL);
	json_t *ns;
	size_t index;
	char *path;
	int res;

	if (!subsystem)
		return document_no_subsystem(call->params[0], errors);
	ns = document_ns(subsystem, call->number, &index);
	if (!ns)
		return document_no_ns(call->params[0], call->number, errors);
	res = nameless_check(call, ns, errors);
	if (res > 0 && call->deletes_data) {
		res = data_check(call, subsystem, ns, errors);
	} else if (res > 0) {
		res = 0;
		path = config_media_path(json_string_value(json_object_get(ns, "media")));
		data_tell(call, path ? "kept" : "none", path);
		free(path);
	}
	return res < 0 ? res : json_array_remove(document_list(subsystem, "namespaces"), index);
}

void api_ns_delete(struct api_call *call)
{
	api_change(call, ns_remove);
}
