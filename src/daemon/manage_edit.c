/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespace Management, Namespace Attachment, write protection and labels as edits of the document:
 * pure JSON work with the statuses of NVMe Base 2.1, sections 5.1.20, 5.1.21, 5.1.25.1.24 and
 * 5.1.25.1.30. Nothing is opened or applied here: the engine (daemon/daemon.h) does that with the
 * edited document.
 *
 * Control reactor.
 */
#include "base/text.h"
#include "config/config_parse.h"
#include "config/document.h"
#include "config/fields.h"
#include "daemon/manage.h"
#include "daemon/pool.h"
#include "media/spec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int manage_refuse(struct manage_edit *edit, nvme_status status, int res,
		  struct config_errors *errors, const char *text)
{
	edit->status = nvme_status_dnr(status);
	config_errors_add(errors, "%s, namespace %u: %s", edit->request->subsystem_nqn,
			  edit->request->nsid, text);
	return res;
}

static uint32_t nsid_of(const json_t *ns)
{
	return (uint32_t)json_integer_value(json_object_get(ns, "nsid"));
}

json_t *manage_find_subsystem(json_t *document, struct manage_edit *edit,
			      struct config_errors *errors)
{
	json_t *subsystem = document_subsystem(document, edit->request->subsystem_nqn, NULL);

	if (!subsystem)
		manage_refuse(edit, NVME_SC_INVALID_NS, -ENOENT, errors,
			      "the subsystem was removed");
	return subsystem;
}

/* False: another namespace has the NSID since the host's command was judged. */
static bool ns_is_meant(const json_t *ns, const struct uuid *judged)
{
	struct uuid uuid;

	return uuid_is_nil(judged) || uuid_parse(document_text(ns, "uuid"), &uuid) != 0 ||
	       uuid_equal(&uuid, judged);
}

/* For a command for all namespaces: false for a namespace that was added since the command was
 * judged. */
static bool ns_was_judged(const struct manage_edit *edit, const json_t *ns)
{
	struct uuid uuid;

	return uuid_parse(document_text(ns, "uuid"), &uuid) == 0 &&
	       manage_is_judged(edit->request, &uuid);
}

json_t *manage_find_ns(json_t *subsystem, struct manage_edit *edit, struct config_errors *errors)
{
	json_t *ns = document_ns(subsystem, edit->request->nsid, NULL);

	if (ns && ns_is_meant(ns, &edit->request->uuid))
		return ns;
	manage_refuse(edit, NVME_SC_INVALID_NS, -ENOENT, errors,
		      ns ? "the NSID was given to another namespace while the command waited"
			 : "there is no such namespace");
	return NULL;
}

bool manage_ns_is_in_pool(json_t *subsystem, json_t *ns, char **ret_path)
{
	const char *folder = document_text(json_object_get(subsystem, "pool"), "folder");
	char *path = config_media_path(document_text(ns, "media"));
	bool is_in = path && folder[0] != 0 && config_path_in_folder(path, folder);

	if (is_in && ret_path)
		*ret_path = path;
	else
		free(path);
	return is_in;
}

bool manage_list_has(const json_t *list, const char *text)
{
	return document_index_of(list, text) != SIZE_MAX;
}

bool manage_ns_is_visible(const json_t *ns, const char *host_nqn)
{
	const json_t *hosts = json_object_get(ns, "hosts");

	return (!hosts || manage_list_has(hosts, host_nqn)) &&
	       !manage_list_has(json_object_get(ns, "hidden_from"), host_nqn);
}

static bool ns_is_formatting(const struct manage_edit *edit, const json_t *ns)
{
	struct uuid uuid;

	return edit->is_formatting && uuid_parse(document_text(ns, "uuid"), &uuid) == 0 &&
	       edit->is_formatting(edit->arg, &uuid);
}

/* Refuses a shared namespace: the other members that serve it would not know of the change. */
static int ns_check_alone(struct manage_edit *edit, const json_t *ns, struct config_errors *errors)
{
	if (!json_is_true(json_object_get(ns, "clustered")))
		return 0;
	return manage_refuse(edit, NVME_SC_OPERATION_DENIED, -EPERM, errors,
			     "is served by other members of the cluster too");
}

static bool ns_is_protected(const json_t *ns)
{
	return strcmp(document_text(ns, "write_protect"), "none") != 0;
}

/* ---- create -----------------------------------------------------------------------------------
 */

/* Returns the lowest free NSID; 0: none is free. */
static uint32_t nsid_free(const json_t *namespaces)
{
	json_int_t nsid = document_number_free(namespaces, "nsid");

	return nsid <= CONFIG_NSID_MAX ? (uint32_t)nsid : 0;
}

static uint64_t pool_unused_bytes(const json_t *subsystem)
{
	const json_t *pool = json_object_get(subsystem, "pool");
	struct config_subsystem account = {.pool_folder = (char *)document_text(pool, "folder")};
	const json_t *namespaces = json_object_get(subsystem, "namespaces");
	uint64_t capacity = 0, used = 0;

	if (text_parse_size(document_text(pool, "capacity"), &capacity))
		return 0;
	for (size_t i = 0; i < json_array_size(namespaces); i++) {
		struct config_ns ns = {
			.media = (char *)document_text(json_array_get(namespaces, i), "media")};

		account.namespaces = &ns;
		account.ns_count = 1;
		used += config_pool_used_bytes(&account);
	}
	return used < capacity ? capacity - used : 0;
}

static json_t *ns_make(const struct manage_request *request, const char *folder, uint32_t nsid)
{
	struct config_ns ns = {.nsid = 0};
	json_t *object = NULL;
	char *path;

	config_object_init(&config_ns_object, &ns);
	ns.nsid = nsid;
	if (request->ana_group > 0)
		ns.ana_group = request->ana_group;
	ns.is_masked = true;
	ns.is_private = request->is_private;
	uuid_random(&ns.uuid);
	memcpy(ns.nguid, ns.uuid.bytes, sizeof(ns.nguid));
	path = pool_file_path(folder, ns.nguid);
	if (path && asprintf(&ns.media, "file:%s,size=%llu,block=%u", path,
			     (unsigned long long)(request->block_count * request->block_bytes),
			     request->block_bytes) > 0) {
		object = config_ns_to_json(&ns);
		free(ns.media);
	}
	free(path);
	return object;
}

int manage_edit_create(json_t *document, struct manage_edit *edit, struct config_errors *errors)
{
	struct manage_request *request = edit->request;
	json_t *subsystem = manage_find_subsystem(document, edit, errors);
	json_t *namespaces = json_object_get(subsystem, "namespaces");
	const char *folder = document_text(json_object_get(subsystem, "pool"), "folder");
	uint32_t nsid;

	if (!subsystem)
		return -ENOENT;
	if (folder[0] == 0)
		return manage_refuse(edit, NVME_SC_INVALID_OPCODE, -EPERM, errors,
				     "the subsystem has no pool for new namespaces");
	if (request->block_count == 0 ||
	    (request->block_bytes != 512 && request->block_bytes != 4096))
		return manage_refuse(edit, NVME_SC_INVALID_FIELD, -EINVAL, errors,
				     "needs at least one block, of 512 or 4096 bytes");
	if (request->ana_group > CONFIG_ANA_GROUP_MAX)
		return manage_refuse(edit, NVME_SC_ANA_GROUP_INVALID, -EINVAL, errors,
				     "there is no such ANA group");
	if (request->block_count > pool_unused_bytes(subsystem) / request->block_bytes)
		return manage_refuse(edit, NVME_SC_NS_INSUFFICIENT_CAPACITY, -ENOSPC, errors,
				     "the pool has too little space left");
	nsid = nsid_free(namespaces);
	if (nsid == 0)
		return manage_refuse(edit, NVME_SC_NS_ID_UNAVAILABLE, -ENOSPC, errors,
				     "every NSID is in use");
	request->nsid = nsid;
	request->result_nsid = nsid;
	if (json_array_append_new(namespaces, ns_make(request, folder, nsid)) < 0)
		return manage_refuse(edit, NVME_SC_INTERNAL, -ENOMEM, errors, "out of memory");
	return 0;
}

/* ---- delete -----------------------------------------------------------------------------------
 */

static bool hex_parse(const char *text, uint8_t bytes[16])
{
	for (unsigned i = 0; i < 16; i++) {
		unsigned value;

		if (sscanf(text + 2 * i, "%2x", &value) != 1)
			return false;
		bytes[i] = (uint8_t)value;
	}
	return true;
}

int manage_file_fill(json_t *subsystem, json_t *ns, char *taken_path, struct manage_file *ret_file)
{
	ret_file->path = taken_path;
	ret_file->folder = strdup(document_text(json_object_get(subsystem, "pool"), "folder"));
	/* An NGUID that cannot be read is not the name of a file of the pool, so the file stays. */
	if (!hex_parse(document_text(ns, "nguid"), ret_file->nguid))
		memset(ret_file->nguid, 0, sizeof(ret_file->nguid));
	if (uuid_parse(document_text(ns, "uuid"), &ret_file->uuid) < 0)
		memset(&ret_file->uuid, 0, sizeof(ret_file->uuid));
	return ret_file->folder ? 0 : -ENOMEM;
}

void manage_file_release(struct manage_file *file)
{
	if (!file)
		return;
	free(file->folder);
	free(file->path);
}

static int file_note(struct manage_edit *edit, json_t *subsystem, json_t *ns, char *taken_path)
{
	struct manage_file *grown =
		reallocarray(edit->files, edit->file_count + 1, sizeof(*edit->files));

	if (!grown) {
		free(taken_path);
		return -ENOMEM;
	}
	edit->files = grown;
	return manage_file_fill(subsystem, ns, taken_path, &grown[edit->file_count++]);
}

static int delete_one(struct manage_edit *edit, json_t *subsystem, size_t index,
		      struct config_errors *errors)
{
	json_t *namespaces = json_object_get(subsystem, "namespaces");
	json_t *ns = json_array_get(namespaces, index);
	char *path = NULL;

	if (ns_is_formatting(edit, ns))
		return manage_refuse(edit, NVME_SC_FORMAT_IN_PROGRESS, -EBUSY, errors,
				     "is being formatted");
	if (ns_is_protected(ns))
		return manage_refuse(edit, NVME_SC_NS_WRITE_PROTECTED, -EPERM, errors,
				     "is write protected");
	if (ns_check_alone(edit, ns, errors) < 0)
		return -EPERM;
	if (!manage_ns_is_in_pool(subsystem, ns, &path))
		return manage_refuse(
			edit, NVME_SC_OPERATION_DENIED, -EPERM, errors,
			"was not created in the pool: only the administrator can remove it");
	if (file_note(edit, subsystem, ns, path) < 0 || json_array_remove(namespaces, index) < 0)
		return manage_refuse(edit, NVME_SC_INTERNAL, -ENOMEM, errors, "out of memory");
	return 0;
}

/* True if this host sees the namespace, or if no host does and this host may attach it. Identify
 * calls such a namespace allocated. */
static bool ns_is_within_reach(const json_t *ns, const char *host_nqn)
{
	const json_t *hosts = json_object_get(ns, "hosts");

	if (manage_list_has(json_object_get(ns, "hidden_from"), host_nqn))
		return false;
	return manage_ns_is_visible(ns, host_nqn) || (hosts && json_array_size(hosts) == 0);
}

/* NVME_NSID_ALL deletes the namespaces in the pool that were judged, and that this host sees or no
 * host sees. Namespaces of other hosts, of the administrator and those added since stay. */
int manage_edit_delete(json_t *document, struct manage_edit *edit, struct config_errors *errors)
{
	json_t *subsystem = manage_find_subsystem(document, edit, errors);
	json_t *namespaces = json_object_get(subsystem, "namespaces");
	uint32_t nsid = edit->request->nsid;
	int res = 0;

	if (!subsystem)
		return -ENOENT;
	if (nsid != NVME_NSID_ALL && !manage_find_ns(subsystem, edit, errors))
		return -ENOENT;
	for (size_t i = json_array_size(namespaces); res == 0 && i > 0; i--) {
		json_t *ns = json_array_get(namespaces, i - 1);

		if (!ns_is_within_reach(ns, edit->request->host_nqn)) {
			if (nsid == nsid_of(ns))
				return manage_refuse(edit, NVME_SC_INVALID_NS, -ENOENT, errors,
						     "is not visible to this host");
			continue;
		}
		if (nsid == nsid_of(ns) || (nsid == NVME_NSID_ALL && ns_was_judged(edit, ns) &&
					    manage_ns_is_in_pool(subsystem, ns, NULL)))
			res = delete_one(edit, subsystem, i - 1, errors);
	}
	return res;
}

void manage_edit_release(struct manage_edit *edit)
{
	for (unsigned i = 0; i < edit->file_count; i++)
		manage_file_release(&edit->files[i]);
	free(edit->files);
	free(edit->uuids);
	edit->files = NULL;
	edit->file_count = 0;
	edit->uuids = NULL;
	edit->uuid_count = 0;
}

/* ---- attach and detach ------------------------------------------------------------------------
 */

static void list_remove_text(json_t *list, const char *text)
{
	size_t index;

	while ((index = document_index_of(list, text)) != SIZE_MAX)
		json_array_remove(list, index);
}

/* True if hosts may change which hosts see the namespace. Without "hosts" the administrator opened
 * it to all hosts. */
static bool ns_is_theirs(json_t *subsystem, json_t *ns)
{
	return json_object_get(ns, "hosts") && manage_ns_is_in_pool(subsystem, ns, NULL);
}

static int attach_one(struct manage_edit *edit, json_t *ns, const char *host,
		      struct config_errors *errors)
{
	json_t *hosts = json_object_get(ns, "hosts");

	if (manage_ns_is_visible(ns, host))
		return manage_refuse(edit, NVME_SC_NS_ALREADY_ATTACHED, -EEXIST, errors,
				     "is attached already");
	/* Only the administrator may change "hidden_from". */
	if (manage_list_has(json_object_get(ns, "hidden_from"), host))
		return manage_refuse(edit, NVME_SC_OPERATION_DENIED, -EPERM, errors,
				     "is hidden from that host by the administrator");
	if (json_is_true(json_object_get(ns, "private")) && json_array_size(hosts) > 0 &&
	    !manage_list_has(hosts, host))
		return manage_refuse(edit, NVME_SC_NS_IS_PRIVATE, -EBUSY, errors,
				     "is private and attached to another host");
	if (json_array_size(hosts) >= CONFIG_HOSTS_MAX)
		return manage_refuse(edit, NVME_SC_NS_ATTACHMENT_LIMIT, -ENOSPC, errors,
				     "already has the maximum number of hosts");
	if (json_array_append_new(hosts, json_string(host)) < 0)
		return manage_refuse(edit, NVME_SC_INTERNAL, -ENOMEM, errors, "out of memory");
	return 0;
}

static int detach_one(struct manage_edit *edit, json_t *ns, const char *host,
		      struct config_errors *errors)
{
	json_t *hosts = json_object_get(ns, "hosts");

	if (!manage_ns_is_visible(ns, host))
		return manage_refuse(edit, NVME_SC_NS_NOT_ATTACHED, -ENOENT, errors,
				     "is not attached");
	list_remove_text(hosts, host);
	return 0;
}

/* Several controllers of one host count as one host. */
static bool host_is_repeated(const struct manage_request *request, unsigned index)
{
	for (unsigned i = 0; i < index; i++) {
		if (strcmp(request->host_nqns[i], request->host_nqns[index]) == 0)
			return true;
	}
	return false;
}

static int attachment_edit(json_t *document, struct manage_edit *edit, struct config_errors *errors,
			   int (*one)(struct manage_edit *edit, json_t *ns, const char *host,
				      struct config_errors *errors))
{
	const struct manage_request *request = edit->request;
	json_t *subsystem = manage_find_subsystem(document, edit, errors);
	json_t *ns = subsystem ? manage_find_ns(subsystem, edit, errors) : NULL;
	int res = 0;

	if (!ns)
		return -ENOENT;
	if (!json_object_get(subsystem, "pool"))
		return manage_refuse(
			edit, NVME_SC_INVALID_OPCODE, -EPERM, errors,
			"the subsystem has no pool, so hosts cannot manage its namespaces");
	if (!ns_is_within_reach(ns, request->host_nqn))
		return manage_refuse(edit, NVME_SC_INVALID_NS, -ENOENT, errors,
				     "is not visible to this host");
	if (!ns_is_theirs(subsystem, ns))
		return manage_refuse(edit, NVME_SC_OPERATION_DENIED, -EPERM, errors,
				     "was not created in the pool, or is visible to all hosts: "
				     "only the administrator can attach or detach it");
	if (ns_check_alone(edit, ns, errors) < 0)
		return -EPERM;
	for (unsigned i = 0; res == 0 && i < request->host_count; i++) {
		if (!host_is_repeated(request, i))
			res = one(edit, ns, request->host_nqns[i], errors);
	}
	return res;
}

int manage_edit_attach(json_t *document, struct manage_edit *edit, struct config_errors *errors)
{
	return attachment_edit(document, edit, errors, attach_one);
}

int manage_edit_detach(json_t *document, struct manage_edit *edit, struct config_errors *errors)
{
	return attachment_edit(document, edit, errors, detach_one);
}

/* ---- features of a namespace ------------------------------------------------------------------
 */

int manage_edit_protect(json_t *document, struct manage_edit *edit, struct config_errors *errors)
{
	json_t *subsystem = manage_find_subsystem(document, edit, errors);
	json_t *ns = subsystem ? manage_find_ns(subsystem, edit, errors) : NULL;
	enum ns_write_protect now = NS_WRITE_PROTECT_NONE;

	if (!ns)
		return -ENOENT;
	if (ns_check_alone(edit, ns, errors) < 0)
		return -EPERM;
	config_write_protect_parse(document_text(ns, "write_protect"), &now);
	if (now == NS_WRITE_PROTECT_PERMANENT || now == NS_WRITE_PROTECT_UNTIL_POWER_CYCLE)
		return manage_refuse(edit, NVME_SC_FEATURE_NOT_CHANGEABLE, -EPERM, errors,
				     "its write protection can no longer change");
	if (json_object_set_new(
		    ns, "write_protect",
		    json_string(config_write_protect_name(edit->request->write_protect))) < 0)
		return manage_refuse(edit, NVME_SC_INTERNAL, -ENOMEM, errors, "out of memory");
	return 0;
}

int manage_edit_label(json_t *document, struct manage_edit *edit, struct config_errors *errors)
{
	json_t *subsystem = manage_find_subsystem(document, edit, errors);
	json_t *ns = subsystem ? manage_find_ns(subsystem, edit, errors) : NULL;
	json_t *label;

	if (!ns)
		return -ENOENT;
	if (ns_check_alone(edit, ns, errors) < 0)
		return -EPERM;
	if (edit->request->label[0] == 0) {
		json_object_del(ns, "label");
		return 0;
	}
	label = json_string(edit->request->label);
	if (!label)
		return manage_refuse(edit, NVME_SC_INVALID_FIELD, -EINVAL, errors,
				     "the label is not UTF-8");
	if (json_object_set_new(ns, "label", label) < 0)
		return manage_refuse(edit, NVME_SC_INTERNAL, -ENOMEM, errors, "out of memory");
	return 0;
}

/* ---- format -----------------------------------------------------------------------------------
 */

static int format_note(struct manage_edit *edit, const json_t *ns, struct config_errors *errors)
{
	struct uuid *grown;

	if (ns_is_formatting(edit, ns))
		return manage_refuse(edit, NVME_SC_FORMAT_IN_PROGRESS, -EBUSY, errors,
				     "is being formatted already");
	if (ns_is_protected(ns) || json_is_true(json_object_get(ns, "read_only")))
		return manage_refuse(edit, NVME_SC_NS_WRITE_PROTECTED, -EPERM, errors,
				     "is write protected");
	if (ns_check_alone(edit, ns, errors) < 0)
		return -EPERM;
	grown = reallocarray(edit->uuids, edit->uuid_count + 1, sizeof(*grown));
	if (!grown)
		return manage_refuse(edit, NVME_SC_INTERNAL, -ENOMEM, errors, "out of memory");
	edit->uuids = grown;
	if (uuid_parse(document_text(ns, "uuid"), &grown[edit->uuid_count]) == 0)
		edit->uuid_count++;
	return 0;
}

int manage_edit_format_check(json_t *document, struct manage_edit *edit,
			     struct config_errors *errors)
{
	const struct manage_request *request = edit->request;
	json_t *subsystem = manage_find_subsystem(document, edit, errors);
	json_t *ns;
	size_t i;
	int res = 0;

	if (!subsystem)
		return -ENOENT;
	if (request->block_bytes != 512 && request->block_bytes != 4096)
		return manage_refuse(edit, NVME_SC_INVALID_FORMAT, -EINVAL, errors,
				     "blocks have 512 or 4096 bytes");
	if (request->nsid != NVME_NSID_ALL) {
		ns = manage_find_ns(subsystem, edit, errors);
		return ns ? format_note(edit, ns, errors) : -ENOENT;
	}
	json_array_foreach(json_object_get(subsystem, "namespaces"), i, ns)
	{
		if (res == 0 && ns_was_judged(edit, ns) &&
		    manage_ns_is_visible(ns, request->host_nqn))
			res = format_note(edit, ns, errors);
	}
	return res;
}

static bool format_is_about(const struct manage_edit *edit, const json_t *ns)
{
	struct uuid uuid;

	if (uuid_parse(document_text(ns, "uuid"), &uuid))
		return false;
	for (unsigned i = 0; i < edit->uuid_count; i++) {
		if (uuid_equal(&edit->uuids[i], &uuid))
			return true;
	}
	return false;
}

int manage_edit_format(json_t *document, struct manage_edit *edit, struct config_errors *errors)
{
	json_t *subsystem = manage_find_subsystem(document, edit, errors);
	struct media_error error;
	json_t *ns;
	size_t i;

	if (!subsystem)
		return -ENOENT;
	json_array_foreach(json_object_get(subsystem, "namespaces"), i, ns)
	{
		char *media;
		int res;

		if (!format_is_about(edit, ns))
			continue;
		media = config_media_with_block(document_text(ns, "media"),
						edit->request->block_bytes);
		if (!media || json_object_set_new(ns, "media", json_string(media)) < 0) {
			free(media);
			return manage_refuse(edit, NVME_SC_INTERNAL, -ENOMEM, errors,
					     "out of memory");
		}
		res = media_check_spec(media, &error);
		free(media);
		if (res < 0)
			return manage_refuse(edit, NVME_SC_INVALID_FORMAT, res, errors, error.text);
	}
	return 0;
}
