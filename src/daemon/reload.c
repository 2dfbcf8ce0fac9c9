/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the configuration file again. The file is read when the signal comes, and its hash is
 * compared with the source hash of the state. As at a start, the same file does not undo changes
 * made since.
 *
 * Control reactor only.
 */
#include "daemon/reload.h"

#include "base/log.h"
#include "daemon/daemon.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* The file as it was when the signal came. */
struct reload {
	const char *path;
	json_t *document;
	char hash[STORE_HASH_BYTES];
	bool is_same; /* the file has the source hash of the state */
};

static int reload_edit(json_t *document, void *arg, struct config_errors *errors)
{
	struct reload *reload = arg;

	if (reload->is_same)
		return 0;
	if (!json_is_object(reload->document)) {
		config_errors_add(errors, "the document must be an object");
		return -EINVAL;
	}
	json_object_clear(document);
	return json_object_update(document, reload->document) ? -ENOMEM : 0;
}

static void reload_tell(const char *path, bool is_same, int res, const struct config_errors *errors)
{
	if (res == 0 && is_same) {
		log_info("control",
			 "%s has not changed: the configuration stays, with all changes since",
			 path);
		return;
	}
	if (res == 0) {
		log_info("control", "%s is in force", path);
		return;
	}
	config_errors_log(path, errors);
	log_error("control", "%s was not applied; the old configuration stays", path);
}

static void reload_done(void *arg, struct change_result *result)
{
	struct reload *reload = arg;

	if (result->res != -ESHUTDOWN)
		reload_tell(reload->path, reload->is_same, result->res, &result->errors);
	json_decref(reload->document);
	free(reload);
}

void reload_file(const char *path, struct store *store, struct changes *changes)
{
	struct config_errors errors = {.count = 0};
	struct reload *reload = calloc(1, sizeof(*reload));
	/* Forced: a file or device that has grown by itself is a change too. */
	struct change change = {.edit = reload_edit,
				.done = reload_done,
				.arg = reload,
				.origin = "reload",
				.is_forced = true};
	int res = -ENOMEM;

	if (reload)
		res = start_read_file(path, &reload->document, reload->hash, &errors);
	if (res < 0) {
		reload_tell(path, false, res, &errors);
		free(reload);
		return;
	}
	reload->path = path;
	reload->is_same = strcmp(reload->hash, store_source_hash(store)) == 0;
	changes_submit(changes, &change, reload->hash);
}
