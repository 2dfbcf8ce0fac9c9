/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rollback checks beyond the rules of every change (config_transition.c). A namespace that
 * was removed since, or has another path now, comes back with its former identity, so hosts expect
 * their data in it. Its image must still exist, with its former size, and must not have served as
 * another namespace since. Opening a medium would create a missing file and grow a short one, so
 * the checks come first.
 *
 * Control reactor only; stat(2) may block.
 */
#include "daemon/rollback.h"

#include "base/text.h"
#include "config/config_parse.h"
#include "config/document.h"
#include "media/spec.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct rollback {
	struct store *store;
	uint64_t generation;
	const char *folder; /* base of relative paths in the generation */
	json_t *in_force;   /* the UUID of a namespace in force to its path, or to null */
	struct config_errors *errors;
	/* Valid while one namespace is checked. */
	const char *nqn;
	const json_t *ns;
	const char *path;
	const char *other_uuid; /* the namespace that used the path since; borrowed; NULL: none */
};

__attribute__((format(printf, 2, 3))) static void refuse(const struct rollback *rollback,
							 const char *format, ...)
{
	char text[CONFIG_ERROR_TEXT_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	config_errors_add(
		rollback->errors, "namespace %.223s/%lld cannot come back: %s", rollback->nqn,
		(long long)json_integer_value(json_object_get(rollback->ns, "nsid")), text);
}

/* ---- the owner of the image ---------------------------------------------------------------------
 */

static json_t *in_force_make(const json_t *document)
{
	json_t *known = json_object(), *subsystem, *ns;
	size_t s, n;

	json_array_foreach(json_object_get(document, "subsystems"), s, subsystem)
	{
		json_array_foreach(json_object_get(subsystem, "namespaces"), n, ns)
		{
			char *path = config_media_path(document_text(ns, "media"));

			json_object_set_new(known, document_text(ns, "uuid"),
					    path ? json_string_nocheck(path) : json_null());
			free(path);
		}
	}
	return known;
}

static bool is_other_owner(const struct rollback *rollback, const char *path, const char *uuid)
{
	return path && strcmp(path, rollback->path) == 0 &&
	       strcmp(uuid, document_text(rollback->ns, "uuid")) != 0;
}

static void former_look(void *arg, const json_t *ns)
{
	struct rollback *rollback = arg;
	char *path = config_media_path(document_text(ns, "media"));

	if (is_other_owner(rollback, path, document_text(ns, "uuid")))
		rollback->other_uuid = "a namespace that has been removed";
	free(path);
}

/* A file that was another namespace's in between holds that namespace's data. */
static void owner_check(struct rollback *rollback)
{
	const char *uuid;
	json_t *path;

	rollback->other_uuid = NULL;
	json_object_foreach(rollback->in_force, uuid, path)
	{
		if (is_other_owner(rollback, json_string_value(path), uuid))
			rollback->other_uuid = uuid;
	}
	if (!rollback->other_uuid &&
	    store_each_former_ns(rollback->store, rollback->generation, former_look, rollback) < 0)
		refuse(rollback, "the history cannot be read");
	if (rollback->other_uuid)
		refuse(rollback, "%.300s has since been used by %s, and holds its data",
		       rollback->path, rollback->other_uuid);
}

/* ---- one namespace ----------------------------------------------------------------------------
 */

static void image_check(struct rollback *rollback, const struct media_spec *spec)
{
	unsigned long long wanted = spec->size_bytes;
	struct stat info;

	rollback->path = spec->path;
	if (stat(spec->path, &info))
		refuse(rollback, "%.300s: %s", spec->path, strerror(errno));
	else if (S_ISREG(info.st_mode) && wanted > (unsigned long long)info.st_size)
		refuse(rollback, "%.300s has %lld bytes, and had %llu: restore the file first",
		       spec->path, (long long)info.st_size, wanted);
	else if (S_ISREG(info.st_mode) && wanted != 0 && wanted < (unsigned long long)info.st_size)
		refuse(rollback,
		       "%.300s has grown to %lld bytes, and generation %llu would shrink it to "
		       "%llu; add the namespace with the present size instead",
		       spec->path, (long long)info.st_size,
		       (unsigned long long)rollback->generation, wanted);
	else
		owner_check(rollback);
}

static void returning_check(struct rollback *rollback, json_t *ns)
{
	const struct media_spec *at;
	struct media_spec spec;

	/* A spec that cannot be parsed is an error of the document, which is checked as a whole. */
	if (media_spec_parse(document_text(ns, "media"), &spec, NULL))
		return;
	at = media_spec_store(&spec);
	if (at->path) {
		image_check(rollback, at);
	} else if (at->kind == MEDIA_SPEC_MEM) {
		json_object_del(ns, "uuid");
		json_object_del(ns, "nguid");
	}
	media_spec_free(&spec);
}

/* The namespace is in force, and has the path that it had then. */
static bool is_unmoved(const struct rollback *rollback, const json_t *ns)
{
	const json_t *now = json_object_get(rollback->in_force, document_text(ns, "uuid"));
	const char *now_path = json_string_value(now);
	char *path = config_media_path(document_text(ns, "media"));
	bool is_same = now && (path && now_path ? strcmp(path, now_path) == 0 : path == now_path);

	free(path);
	return is_same;
}

static void relative_path_check(const struct rollback *rollback, const json_t *ns)
{
	char *path = config_media_path(document_text(ns, "media"));
	char now[PATH_MAX];

	if (!getcwd(now, sizeof(now)))
		now[0] = 0;
	if (path && path[0] != '/' && strcmp(now, rollback->folder) != 0)
		refuse(rollback, "its path %.200s is relative to %.200s, where the target ran then",
		       path, rollback->folder);
	free(path);
}

static void document_check(struct rollback *rollback, json_t *former)
{
	json_t *subsystem, *ns;
	size_t s, n;

	json_array_foreach(json_object_get(former, "subsystems"), s, subsystem)
	{
		rollback->nqn = document_text(subsystem, "nqn");
		json_array_foreach(json_object_get(subsystem, "namespaces"), n, ns)
		{
			rollback->ns = ns;
			if (is_unmoved(rollback, ns))
				continue;
			relative_path_check(rollback, ns);
			returning_check(rollback, ns);
		}
	}
}

int rollback_edit(struct store *store, uint64_t generation, json_t *document,
		  struct config_errors *errors)
{
	struct rollback rollback = {.store = store, .generation = generation, .errors = errors};
	unsigned before = errors->count;
	struct store_error error;
	json_t *former;
	char *folder;
	int res = store_load_generation(store, generation, &former, &folder, &error);

	if (res < 0) {
		config_errors_add(errors, "%s", error.text);
		return res;
	}
	rollback.folder = folder;
	rollback.in_force = in_force_make(document);
	document_check(&rollback, former);
	if (errors->count > before) {
		res = -ENXIO;
	} else {
		json_object_clear(document);
		res = json_object_update(document, former) ? -ENOMEM : 0;
	}
	json_decref(rollback.in_force);
	json_decref(former);
	free(folder);
	return res;
}
